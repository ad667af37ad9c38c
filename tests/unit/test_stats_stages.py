"""Ends of the two stages of one metric, on written-down logs."""

import numpy as np
import pytest

from perfguard.policy import Policy, stored_policy
from perfguard.stats.design import rules_of
from perfguard.stats.effects import series_of_logs, weighted_estimate
from perfguard.stats.stage_one import end_of_stage_one, is_beyond_luck
from perfguard.stats.stage_two import end_of_stage_two

RULES = rules_of(Policy(), 1)
ABBA = [False, True, True, False]
# Base runs builds 1 and 2 in slots 1 and 4, head in slots 2 and 3.
SECOND = [False, False, True, True]


def abba(effects, head_gap=0.0):
    """Blocks ABBA without noise; head's builds lie `head_gap` apart around the effect."""
    gaps = head_gap if isinstance(head_gap, list) else [head_gap] * len(effects)
    logs = [[0.0, e - g / 2, e + g / 2, 0.0] for e, g in zip(effects, gaps, strict=True)]
    return series_of_logs(np.array(logs), np.array([ABBA] * len(logs)))


def two(effects, head_gap=0.0, direction=1, rules=RULES):
    return end_of_stage_two(rules, abba(effects, head_gap), np.array([SECOND] * len(effects)), direction, seed=0)


def test_a_real_but_immaterial_change_is_not_accused_however_clear():
    one = abba([0.015, 0.016])
    found = weighted_estimate(one)
    assert not is_beyond_luck(RULES, one, found, 1, 1 / 36, seed=0)
    larger = abba([0.025, 0.026])
    assert is_beyond_luck(RULES, larger, weighted_estimate(larger), 1, 1 / 36, seed=0)
    assert not is_beyond_luck(RULES, larger, weighted_estimate(larger), -1, 1 / 36, seed=0)


def test_a_change_just_within_the_floor_and_margin_ends_equivalent():
    assert end_of_stage_one(RULES, abba([0.015, 0.0151]), seed=0).kind == "equivalent"


def test_between_looks_nobody_is_accused():
    # Head is separated in all blocks but the first; three blocks are no look of stage one, four are.
    values = np.array([[0.0, 0.03, 0.031, 0.04], *[[0.0, 0.03, 0.031, 0.0]] * 3])
    one = series_of_logs(values, np.array([ABBA] * 4))
    end = end_of_stage_one(RULES, one, seed=0)
    assert (end.kind, end.at, end.direction) == ("suspect", 4, 1)


def test_a_separated_effect_is_confirmed_at_the_first_look_of_stage_two():
    end = two([0.03] * 10)
    assert (end.kind, end.at) == ("confirmed", 3)


def test_fresh_blocks_that_point_the_other_way_confirm_nothing():
    assert two([0.03] * 10, direction=-1).kind == "unconfirmed"


@pytest.mark.parametrize("gap", [0.021, 0.05])
def test_builds_that_differ_too_much_delay_a_report_until_they_agree(gap):
    # Three blocks with head's builds apart, then builds that agree until the mean difference is within the margin.
    gaps = [gap] * 3 + [0.0] * 7
    end = two([0.03] * 10, head_gap=gaps)
    assert end.kind == "confirmed"
    assert end.at == next(q for q in range(3, 11) if sum(gaps[:q]) / q <= RULES.margin)


def test_builds_that_keep_differing_end_as_a_placebo():
    end = two([0.03] * 10, head_gap=0.03)
    assert end.kind == "placebo"
    # Not given up on before the second look of stage two.
    assert end.at >= sorted(RULES.design.confirm_looks)[1]


def test_an_effect_that_fades_while_the_placebo_waits_is_not_reported():
    # The first look agrees but head's builds differ; when they no longer do, the effect is below the margin.
    end = two([0.025, 0.025, 0.025, -0.02, -0.02], head_gap=[0.03, 0.03, 0.03, -0.03, -0.03])
    assert (end.kind, end.at) == ("open", 5)


def test_confirmation_ends_with_its_last_block():
    rules = rules_of(Policy(max_confirm_blocks=4, futility=0.0), 1)
    wobbling = [0.05, -0.05, 0.06, -0.04]
    assert two(wobbling[:3], rules=rules).kind == "open"
    assert two(wobbling, rules=rules).kind == "unconfirmed"


def ends_with(fresh_gap, *, rules=RULES):
    """Stage two of a clear effect whose trials lie `fresh_gap` apart in an arm; those of the suspicion 0.002."""
    logs = np.array([[0.0, 0.2, 0.2 + fresh_gap, fresh_gap]] * 10)
    fresh, own = series_of_logs(logs, np.array([ABBA] * 10)), np.arange(40).reshape(10, 4)
    suspected = series_of_logs(np.array([[0.0, 0.2, 0.202, 0.002]] * 2), np.array([ABBA] * 2))
    return end_of_stage_two(rules, fresh, own, 1, seed=0, suspected=suspected)


def test_a_suspicion_whose_fresh_builds_differ_is_confirmed_by_stage_two_alone():
    # Perfectly separated: 1/6^3 is within stage two's share of alpha, 1/6^5 within alpha by itself.
    assert (ends_with(0.002).kind, ends_with(0.002).at) == ("confirmed", 3)
    assert (ends_with(0.05).kind, ends_with(0.05).at) == ("confirmed", 5)


def test_a_stored_comparison_that_did_not_ask_is_judged_as_it_was():
    before = rules_of(stored_policy({"alpha": 0.001}), 1)
    assert (before.build_luck_alpha, RULES.build_luck_alpha) == (0.0, 0.02)
    assert ends_with(0.05, rules=before).at == 3
