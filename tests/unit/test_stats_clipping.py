"""Values far from the middle of their block are held where they still count, whoever they belong to."""

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stats_cases import ORDERS

from perfguard.policy import Policy, stored_policy
from perfguard.stats.design import rules_of
from perfguard.stats.effects import clipped, clipped_estimate, series_of_logs, weighted_estimate
from perfguard.stats.order_test import order_p
from perfguard.stats.stage_two import end_of_stage_two

RULES = rules_of(Policy(), 1)
# Spreads S of these blocks: sqrt(4 / 3) twice, far more in the last. Its middle is 2, so 22 is held at 2 + 2 sqrt(4/3).
QUIET = [0.0, 2.0, 2.0, 0.0]
HIT = [22.0, 2.0, 2.0, 0.0]
HELD = 2.0 + 2.0 * math.sqrt(4 / 3)


def over(values, orders=None):
    orders = orders or ["ABBA"] * len(values)
    return series_of_logs(np.array(values, dtype=float), np.array([[a == "B" for a in o] for o in orders]))


def test_a_value_is_held_two_typical_spreads_from_the_middle_of_its_block():
    series = over([QUIET, QUIET, HIT])
    assert clipped(series.logs, series.squares, 2.0).tolist() == [QUIET, QUIET, [pytest.approx(HELD), 2.0, 2.0, 0.0]]
    assert clipped(series.logs, series.squares, 0.0).tolist() == [QUIET, QUIET, HIT]


def test_blocks_without_any_spread_are_left_alone():
    series = over([[1.0] * 4] * 3)
    assert clipped(series.logs, series.squares, 2.0).tolist() == [[1.0] * 4] * 3


def test_an_estimate_of_clipped_values_keeps_the_weights_of_the_values_as_they_were():
    series = over([QUIET, QUIET, HIT])
    # Block effects are 2, 2 and 2 - HELD / 2; S of HIT is sqrt(323 / 3) (mean 6.5, squares 323), its weight
    # (2 sqrt(4/3) / S)^2 = 16 / 323.
    weight = 16 / 323
    expected = (4.0 + weight * (2.0 - HELD / 2)) / (2.0 + weight)
    assert clipped_estimate(series, 2.0).effect == pytest.approx(expected)
    assert clipped_estimate(series, 0.0) == weighted_estimate(series)


def by_listing(values, orders, spreads):
    """From first principles: every order listed, values clipped row by row, weights from the values as they were."""
    stds = [float(np.std(row, ddof=1)) for row in values]
    median = float(np.median([s for s in stds if s > 0])) if any(stds) else math.inf
    weights = [min(1.0, (2 * median / s) ** 2) if s else 1.0 for s in stds]
    held = [np.clip(row, np.median(row) - spreads * median, np.median(row) + spreads * median) for row in values]

    def total(chosen):
        sides = [np.array([1.0 if a == "B" else -1.0 for a in o]) for o in chosen]
        return sum(w * float(side @ row) / 2 for w, side, row in zip(weights, sides, held, strict=True))

    observed = total(orders)
    sums = [total(chosen) for chosen in product(ORDERS, repeat=len(orders))]
    return sum(s >= observed - 1e-9 for s in sums) / len(sums)


@pytest.mark.parametrize("seed", range(4))
def test_the_order_test_on_clipped_values_equals_one_that_lists_every_order(seed):
    rng = np.random.default_rng(seed)
    values = rng.standard_t(2, (4, 4)).tolist()
    orders = [ORDERS[i] for i in rng.integers(0, 6, 4)]
    found = order_p(over(values, orders), direction=1, credit=0.0, seed=0, clip_spreads=1.5)
    assert found == pytest.approx(by_listing(values, orders, 1.5))


def test_a_slow_base_trial_hides_a_slowdown_less():
    # Head is slower in every block, in some by a hair; the last also holds one base trial ten times as slow as that.
    close = [0.0, 2.0, 2.1, 1.9]
    series = over([close, close, close, QUIET, [22.0, 2.0, 2.1, 0.0]])
    plain, held = (order_p(series, direction=1, credit=0.0, seed=0, clip_spreads=c) for c in (0.0, 2.0))
    assert held < plain


def test_heads_that_were_the_slowest_of_every_block_stay_it_however_far():
    series = over([[0.0, 1.0, 50.0, 0.1], [0.0, 3.0, 2.0, 0.1], [0.2, 1.0, 1.5, 0.0]])
    assert order_p(series, direction=1, credit=0.0, seed=0, clip_spreads=1.0) == pytest.approx(1 / 216)


values_of_three_blocks = st.lists(
    st.lists(st.sampled_from([0.0, 0.0, 0.1, 0.2, 5.0]), min_size=4, max_size=4), min_size=3, max_size=3
)


@settings(max_examples=25, deadline=None)
@given(values_of_three_blocks, st.sampled_from([1, -1]))
def test_p_values_of_clipped_values_are_uniform_or_larger_whatever_the_values(values, direction):
    ps = [
        order_p(over(values, orders), direction=direction, credit=0.0, seed=0, clip_spreads=2.0)
        for orders in product(ORDERS, repeat=3)
    ]
    assert all(sum(other <= p + 1e-12 for other in ps) / len(ps) <= p + 1e-9 for p in set(ps))


# --- a suspicion that saw slow launches of head alone

OWN_BUILDS = np.array([[1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 12]])


def ends(suspected):
    fresh = over([[0.0, 0.0005, 0.0, 0.0005]] * 3)
    return end_of_stage_two(RULES, fresh, OWN_BUILDS, 1, seed=0, suspected=suspected).kind


def test_slow_launches_seen_by_the_suspicion_are_not_acquitted_by_fresh_blocks_that_drew_none():
    quiet = [0.0, 0.001, 0.0, 0.001]
    assert ends(over([quiet, quiet, [0.0, 0.2, 0.0, 0.001], [0.001, 0.2, 0.2, 0.0]])) != "refuted"
    # Head slow in all launches is a slowdown that fresh builds may refute, and so are slow launches of both sides.
    assert ends(over([[0.0, 0.2, 0.2, 0.001]] * 3)) == "refuted"
    assert ends(over([quiet, [0.2, 0.001, 0.0, 0.001], [0.0, 0.2, 0.0, 0.001]])) == "refuted"
    assert ends(None) == "refuted"


def test_a_comparison_stored_before_values_were_clipped_is_judged_as_it_was():
    assert stored_policy({"alpha": 0.001}).clip_spreads == 0.0
    assert stored_policy({"alpha": 0.001, "clip_spreads": 2.0}).clip_spreads == 2.0
