"""The rank test against counting by hand and against scipy."""

import random

import pytest
from scipy.stats import mannwhitneyu, rankdata

from perfguard.stats.rank_test import MAX_EXACT, rank_sum_p


def test_four_against_four_apart_is_two_of_seventy():
    assert rank_sum_p([1, 2, 3, 4], [5, 6, 7, 8]) == pytest.approx(2 / 70)


def test_three_against_nine_apart_is_two_of_two_hundred_and_twenty():
    assert rank_sum_p(range(9), [9, 10, 11]) == pytest.approx(2 / 220)


@pytest.mark.parametrize(("xs", "ys"), [([1.0] * 4, [1.0] * 4), ([], [1.0, 2.0]), ([3.0], [])])
def test_nothing_can_be_said_of_equal_or_missing_values(xs, ys):
    assert rank_sum_p(xs, ys) == 1.0


def test_ties_are_counted_by_hand():
    """[0, 0] against [0, 1]: of six divisions the four with one of the pair 0, 0 beside the 1 ... all lie as far."""
    doubled = [2 * rank for rank in rankdata([0, 0, 0, 1])]
    assert doubled == [4, 4, 4, 8]
    # Sums of two: 8 three times, 12 three times; mean 10: every division is as far from it as the observed one.
    assert rank_sum_p([0, 0], [0, 1]) == 1.0


def test_it_agrees_with_scipy_where_that_is_exact_too():
    draw = random.Random(11)
    for _ in range(40):
        xs, ys = ([draw.random() for _ in range(draw.randint(2, 8))] for _ in range(2))
        assert rank_sum_p(xs, ys) == pytest.approx(mannwhitneyu(xs, ys, method="exact").pvalue), (xs, ys)


def test_large_groups_agree_with_the_normal_approximation_of_scipy():
    draw = random.Random(12)
    for _ in range(20):
        xs, ys = ([float(draw.randint(0, 9)) for _ in range(MAX_EXACT)] for _ in range(2))
        expected = mannwhitneyu(xs, ys, method="asymptotic").pvalue
        assert rank_sum_p(xs, ys) == pytest.approx(expected, rel=1e-6), (xs, ys)
