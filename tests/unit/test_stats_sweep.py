"""Exact tests within rounds: p values by counting, error rates by simulation."""

from itertools import pairwise

import numpy as np
import pytest

from perfguard.policy import Policy
from perfguard.records import Metric
from perfguard.stats.plan import plan_round
from perfguard.stats.sweep import (
    Standing,
    after_round,
    logs_of,
    p_against,
    p_against_all,
    slowdown,
    standing,
    sweep_rules,
    without,
)

SECONDS = Metric(name="seconds", unit="s", better="lower")


@pytest.mark.parametrize(
    ("pairs", "expected"),
    [
        # Slower in all of three rounds: one of 2^3 ways to exchange the two.
        ([(2, 1), (3, 1), (1.5, 1)], 1 / 8),
        # Differences 3, 2, -1: as large only without an exchange and with that of the last, 4 and 6.
        ([(4, 1), (3, 1), (1, 2)], 2 / 8),
        # All equal: every way is as large.
        ([(1, 1), (1, 1)], 1.0),
    ],
)
def test_a_pair_is_tested_by_counting_exchanges(pairs, expected):
    assert p_against(np.array(pairs, dtype=float), 0, 1) == pytest.approx(expected)


def test_a_setting_is_tested_against_all_by_counting_choices():
    logs = np.array([[3.0, 1.0, 2.0], [5.0, 1.0, 1.0]])
    # Sums of one number from each round: 8 is the largest of nine.
    assert p_against_all(logs, 0) == pytest.approx(1 / 9)
    # 2 + 1: 3+5, 3+1, 3+1, 1+5, 2+5, 2+1, 2+1 reach it; 1+1 twice does not.
    assert p_against_all(logs, 2) == pytest.approx(7 / 9)


@pytest.mark.parametrize("num", [2, 3, 6, 12, 52])
def test_all_settings_tests_and_looks_together_stay_within_alpha(num):
    policy = Policy(max_rounds=40)
    rules = sweep_rules(policy, num)
    spent = num * (sum(rules.of_all.values()) + (num - 1) * sum(rules.of_pair.values()))
    assert 0 < spent <= policy.sweep_alpha * (1 + 1e-9)
    # A look that no order can reach would be a promise of nothing.
    assert all(2.0**-rounds <= alpha * (1 + 1e-9) for rounds, alpha in rules.of_pair.items())


def test_the_first_looks_are_where_the_policy_says():
    rules = {num: sweep_rules(Policy(), num) for num in (6, 12)}
    assert {num: (min(r.of_all), min(r.of_pair)) for num, r in rules.items()} == {6: (5, 13), 12: (4, 16)}


def test_too_few_rounds_leave_nothing_to_tell():
    rules = sweep_rules(Policy(max_rounds=3), 6)
    assert (dict(rules.of_all), dict(rules.of_pair)) == ({}, {})


def test_a_single_loser_is_dropped_at_the_first_look_against_all():
    logs = np.zeros((5, 6)) + np.arange(5)[:, None]
    logs[:, 2] += 0.3
    logs[:, :] += np.array([0, 0.03, 0, 0.01, 0.05, 0.02]) * np.array([1, -1, 1, -1, 1])[:, None]
    found = standing(sweep_rules(Policy(), 6), logs)
    assert [(drop.setting, drop.rounds, drop.than) for drop in found.drops] == [(2, 5, None)]
    assert found.drops[0].p == pytest.approx(6.0**-5)
    assert 2 not in found.live


def test_after_a_drop_only_pairs_are_tested():
    """Who is left is a choice made by values, which a test against all who are left would not know of."""
    rules = sweep_rules(Policy(), 3)
    first = max(rules.of_all)
    logs = np.zeros((first, 3))
    logs[:, 1] = 0.5
    logs[:, 2] = np.nan
    logs[0, 2] = 0.0
    now = Standing(live=(0, 1))
    assert not after_round(rules, now, logs).drops or first in rules.of_pair


def test_equal_settings_end_as_equal_and_none_is_dropped():
    rng = np.random.default_rng(3)
    found = standing(sweep_rules(Policy(), 3), rng.normal(0, 0.002, (24, 3)))
    assert (found.done, found.drops, len(found.live)) == ("those left are equal within the margin", (), 3)


def test_one_that_does_not_run_leaves_without_a_test():
    now = without(Standing(live=(0, 1, 2)), {1})
    assert (now.live, now.drops, now.done) == ((0, 2), (), "")
    assert without(now, {0}).done == "one setting is left"


def test_more_rounds_never_change_an_earlier_drop():
    rng = np.random.default_rng(11)
    logs = rng.normal(0, 0.01, (20, 4)) + np.array([0, 0.02, 0.06, 0.3])
    rules = sweep_rules(Policy(), 4)
    seen = [standing(rules, logs[:r]).drops for r in range(1, 21)]
    assert seen[-1]
    assert all(later[: len(earlier)] == earlier for earlier, later in pairwise(seen))


def test_a_best_setting_is_dropped_no_more_often_than_promised():
    """At an alpha of 20 % so that a rule ten times too loose would show. 300 sweeps, seed 5."""
    policy, rng, wrong, dropped = Policy(sweep_alpha=0.2, max_rounds=14, margin=0.0001), np.random.default_rng(5), 0, 0
    rules = sweep_rules(policy, 4)
    for _ in range(300):
        drops = standing(rules, rng.normal(0, 0.01, (14, 4)) + np.array([0, 0, 0.01, 0.05])).drops
        wrong += any(drop.setting in (0, 1) for drop in drops)
        dropped += any(drop.setting == 3 for drop in drops)
    print("seed 5, wrong", wrong, "dropped", dropped)
    # Binomial(300, 0.2) exceeds 85 in less than 1 of 10,000 cases.
    assert wrong <= 85
    assert dropped == 300


def test_slowdowns_are_paired_by_round_and_oriented():
    speed = Metric(name="speed", unit="1/s", better="higher")
    logs = logs_of(speed, [(2.0, 1.0), (4.0, 2.0), (None, 3.0)])
    found = slowdown(logs, 1, 0)
    assert found.rounds == 2
    assert np.exp(found.log) == pytest.approx(2.0)
    assert (found.low, found.high) == (pytest.approx(found.log), pytest.approx(found.log))
    assert slowdown(logs_of(SECONDS, [(1.0, None)]), 1, 0) is None


def test_a_round_holds_every_setting_once_in_an_order_of_its_own():
    plans = [plan_round(seed=7, index=k, num_settings=3) for k in range(600)]
    assert all(sorted(plan.order) == ["a", "b", "c"] and len(plan.pauses) == 3 for plan in plans)
    assert all(0 <= pause < 1 for plan in plans for pause in plan.pauses)
    counts = [sum(plan.order == order for plan in plans) for order in ("abc", "acb", "bac", "bca", "cab", "cba")]
    # 100 each expected, sd 9.1; five sd.
    assert all(54 <= count <= 146 for count in counts)
    assert plan_round(7, 3, 3) == plans[3]
