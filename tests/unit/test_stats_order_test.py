import tracemalloc
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stats_cases import ORDERS

from perfguard.stats import order_test
from perfguard.stats.effects import series_of_logs
from perfguard.stats.order_test import num_separated, order_p, tail_share


def over(values, orders):
    """Series of written-down logs; `orders` as text."""
    is_head = np.array([[arm == "B" for arm in order] for order in orders])
    return series_of_logs(np.array(values, dtype=float), is_head)


def shifted(values, orders, by):
    """The values with `by` added to head's."""
    return [[v + by * (a == "B") for v, a in zip(row, o, strict=True)] for row, o in zip(values, orders, strict=True)]


def by_listing(values, orders, credit=0.0):
    """The same test from first principles: every order listed, means taken by arm, weights from the definition."""
    logs = shifted(values, orders, -credit)
    spreads = [np.std(row, ddof=1) for row in logs]
    median = np.median([s for s in spreads if s > 0]) if any(spreads) else 0
    w = [1.0 if s == 0 else min(1.0, (2 * median / s) ** 2) for s in spreads]

    def effect(row, order):
        arms = {arm: [v for v, a in zip(row, order, strict=True) if a == arm] for arm in "AB"}
        return sum(arms["B"]) / 2 - sum(arms["A"]) / 2

    def total(chosen):
        return sum(wq * effect(row, o) for wq, row, o in zip(w, logs, chosen, strict=True))

    observed = total(orders)
    sums = [total(chosen) for chosen in product(ORDERS, repeat=len(orders))]
    return sum(s >= observed - 1e-9 for s in sums) / len(sums)


SEPARATED = [[0.0, 0.1, 1.1, 1.0], [1.2, 0.2, 0.1, 1.3], [0.3, 1.5, 1.4, 0.2]]
SEPARATED_ORDERS = ["AABB", "BAAB", "ABBA"]


@pytest.mark.parametrize(("num_blocks", "expected"), [(1, 1 / 6), (2, 1 / 36), (3, 1 / 216)])
def test_perfect_separation_is_luck_in_one_of_six_a_block(num_blocks, expected):
    series = over(SEPARATED[:num_blocks], SEPARATED_ORDERS[:num_blocks])
    assert order_p(series, direction=1, credit=0.0, seed=0) == pytest.approx(expected)
    assert order_p(series, direction=-1, credit=0.0, seed=0) == 1.0
    assert num_separated(series, 1) == num_blocks
    assert num_separated(series, -1) == 0


def test_a_p_value_worked_out_by_hand():
    # One block, logs 0 1 2 4, head in slots 2 and 4: sum of head 5. Sums of two slots: 1 2 4 3 5 6; two reach 5.
    series = over([[0, 1, 2, 4]], ["ABAB"])
    assert order_p(series, direction=1, credit=0.0, seed=0) == pytest.approx(2 / 6)
    # Five of the six sums are at most 5.
    assert order_p(series, direction=-1, credit=0.0, seed=0) == pytest.approx(5 / 6)


def test_the_credit_is_given_to_the_accused_side():
    # Head is slower by 0.3 everywhere: a credit below leaves it separated, one above turns the order round.
    series = over([[0, 0.3, 0.31, 0.01]] * 2, ["ABBA"] * 2)
    assert order_p(series, direction=1, credit=0.2, seed=0) == pytest.approx(1 / 36)
    assert order_p(series, direction=1, credit=0.5, seed=0) == 1.0


def test_the_test_holds_for_unchanged_code_too_though_the_credit_shifts_weights():
    # Crediting 1 makes the first block count more and would give 48 of 216; without credit it is 58 of 216.
    values, orders = [[0, 6, 9, 0], [5, 6, 6, 4], [0, 1, 1, 0]], ["ABBA", "BAAB", "ABBA"]
    assert by_listing(values, orders, 1.0) == pytest.approx(48 / 216)
    assert by_listing(values, orders) == pytest.approx(58 / 216)
    assert order_p(over(values, orders), direction=1, credit=1.0, seed=0) == pytest.approx(58 / 216)


def test_a_block_hit_by_a_jump_does_not_outvote_quiet_ones():
    # Three quiet blocks accuse head, a jump of 100 in the fourth acquits it: unweighted that would be half of all.
    values = [[0.0, 1.0, 1.1, 0.1]] * 3 + [[100.0, 0.0, 0.0, 0.1]]
    series = over(values, ["ABBA"] * 4)
    assert order_p(series, direction=1, credit=0.0, seed=0) == pytest.approx(by_listing(values, ["ABBA"] * 4))
    assert order_p(series, direction=1, credit=0.0, seed=0) < 0.02


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_enumeration_agrees_with_listing_every_order(data):
    num_blocks = data.draw(st.integers(1, 4))
    # Small integers make ties of every kind; zeros make blocks without spread.
    row = st.lists(st.integers(0, 6), min_size=4, max_size=4)
    values = data.draw(st.lists(row, min_size=num_blocks, max_size=num_blocks))
    orders = data.draw(st.lists(st.sampled_from(ORDERS), min_size=num_blocks, max_size=num_blocks))
    credit = data.draw(st.sampled_from([0.0, 0.25, 1.0]))
    expected = max(by_listing(values, orders), by_listing(values, orders, credit))
    assert order_p(over(values, orders), direction=1, credit=credit, seed=0) == pytest.approx(expected)


@given(st.lists(st.lists(st.integers(0, 5), min_size=4, max_size=4), min_size=1, max_size=2))
@settings(max_examples=60, deadline=None)
def test_p_values_are_uniform_or_larger_whatever_the_machine_did(values):
    # Fixed trials (ties and constants included), every order equally likely: P(p <= a) <= a for every a.
    all_orders = list(product(ORDERS, repeat=len(values)))
    for direction in (1, -1):
        ps = [order_p(over(values, orders), direction=direction, credit=0.0, seed=0) for orders in all_orders]
        for level in set(ps):
            assert sum(p <= level + 1e-12 for p in ps) / len(ps) <= level + 1e-12


@given(st.lists(st.lists(st.integers(0, 5), min_size=4, max_size=4), min_size=1, max_size=2))
@settings(max_examples=30, deadline=None)
def test_p_values_stay_valid_at_a_true_slowdown_of_the_credit(values):
    all_orders = list(product(ORDERS, repeat=len(values)))
    ps = []
    for orders in all_orders:
        ps.append(order_p(over(shifted(values, orders, 0.5), orders), direction=1, credit=0.5, seed=0))
    for level in set(ps):
        assert sum(p <= level + 1e-12 for p in ps) / len(ps) <= level + 1e-12


def test_identical_values_accuse_nobody():
    series = over([[2.5] * 4] * 3, ["ABBA"] * 3)
    assert order_p(series, direction=1, credit=0.0, seed=0) == 1.0
    assert order_p(series, direction=-1, credit=0.01, seed=0) == 1.0


def test_p_is_never_below_one_of_all_orders_though_logs_are_large_and_differences_tiny():
    # ln(1e300) = 690: differences of 1e-11 are near the rounding of the logs themselves.
    rng = np.random.default_rng(4)
    values = 690 + rng.integers(0, 4, (6, 4)) * 1e-11
    for order in ORDERS:
        assert order_p(over(values, [order] * 6), direction=1, credit=0.0, seed=0) >= 6.0**-6


def test_drawn_orders_agree_with_enumerated_ones(monkeypatch):
    rng = np.random.default_rng(11)
    choices = rng.normal(size=(12, 6))
    exact = tail_share(choices, 5.0, seed=0)
    monkeypatch.setattr(order_test, "MAX_LISTED_SUMS", 6**5)
    drawn = tail_share(choices, 5.0, seed=0)
    # A million draws: standard deviation sqrt(p / 1e6).
    assert drawn == pytest.approx(exact, abs=5 * (exact / 1e6) ** 0.5)
    assert drawn == tail_share(choices, 5.0, seed=0)
    assert drawn != tail_share(choices, 5.0, seed=1)


def test_a_drawn_p_value_is_never_zero():
    assert tail_share(np.zeros((20, 6)), 1.0, seed=0) == pytest.approx(1 / 1_000_001)


@pytest.mark.parametrize("num_blocks", [14, 40])
def test_the_longest_comparisons_stay_within_a_hundred_megabytes(num_blocks):
    rng = np.random.default_rng(1)
    series = over(rng.normal(size=(num_blocks, 4)), [ORDERS[k % 6] for k in range(num_blocks)])
    tracemalloc.start()
    order_p(series, direction=1, credit=0.0, seed=0)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100e6
