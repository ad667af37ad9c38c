"""Estimates and equivalence against an ordinary least squares fit and scipy's t distribution."""

import math

import numpy as np
import pytest
import scipy.stats
from stats_cases import LATENCY, split_block

from perfguard.records import Metric
from perfguard.stats.effects import estimate, oriented_logs, series, series_of_logs, weights
from perfguard.stats.equivalence import is_equivalent, largest_slowdown, t_quantile, z_quantile

RNG = np.random.default_rng(20260)


def random_series(num_blocks, effect=0.0):
    is_head = np.array([RNG.permutation([True, True, False, False]) for _ in range(num_blocks)])
    return series_of_logs(RNG.normal(0, 0.01, (num_blocks, 4)) + effect * is_head, is_head)


def fitted(one):
    """Effect, standard error and degrees of freedom of least squares with one level a block and one effect."""
    num_blocks = len(one.effects)
    design = np.hstack([np.repeat(np.eye(num_blocks), 4, axis=0), one.is_head.reshape(-1, 1).astype(float)])
    y = one.logs.ravel()
    coefficients, residual, _, _ = np.linalg.lstsq(design, y, rcond=None)
    df = 4 * num_blocks - num_blocks - 1
    covariance = float(residual[0]) / df * np.linalg.inv(design.T @ design)
    return float(coefficients[-1]), math.sqrt(covariance[-1, -1]), df


@pytest.mark.parametrize("num_blocks", [2, 3, 10])
def test_the_unweighted_estimate_is_least_squares_with_block_levels(num_blocks):
    one = random_series(num_blocks, effect=0.02)
    effect, se, df = fitted(one)
    found = estimate(one)
    assert (found.effect, found.se, found.df) == (pytest.approx(effect), pytest.approx(se), df)


def test_quantiles_are_those_of_scipy():
    assert t_quantile(0.0125, 29) == pytest.approx(scipy.stats.t.isf(0.0125, 29))
    assert z_quantile(5e-5) == pytest.approx(scipy.stats.norm.isf(5e-5))


def test_equivalence_is_two_one_sided_t_tests():
    # Without a block that stands out all weights are 1, and both bounds are the bound of the fit.
    decisions = set()
    for _ in range(200):
        one = random_series(3)
        if (weights(one.squares) < 1).any():
            continue
        effect, se, df = fitted(one)
        p_low = scipy.stats.t.sf((effect + 0.013) / se, df)
        p_high = scipy.stats.t.cdf((effect - 0.013) / se, df)
        expected = max(p_low, p_high) <= 0.0125
        assert is_equivalent(one, 0.013, 0.0125) is bool(expected)
        decisions.add(bool(expected))
    assert decisions == {True, False}


def test_the_unweighted_bound_keeps_a_slow_launch_in_sight():
    quiet = [[0.0, 0.001, 0.0, 0.001]] * 5
    is_head = np.array([[False, True, True, False]] * 6)
    one = series_of_logs(np.array([*quiet, [0.0, 0.2, 0.0, 0.001]]), is_head)
    weighted = estimate(one, weights(one.squares))
    assert largest_slowdown(weighted, 0.0125) < 0.02
    assert not is_equivalent(one, 0.02, 0.0125)


def test_a_block_with_a_jump_counts_less_and_constant_blocks_silence_nobody():
    # Spreads 1, 1, 8: w = (2 * 1 / 8)^2 for the last.
    assert weights(np.array([3.0, 3.0, 192.0])) == pytest.approx([1, 1, 1 / 16])
    assert weights(np.array([0.0, 0.0, 3.0])) == pytest.approx([1, 1, 1])
    assert weights(np.array([0.0, 0.0])) == pytest.approx([1, 1])


def test_no_spread_gives_a_standard_error_of_zero_and_no_nan():
    one = series(LATENCY, [split_block((2.0, 2.0), (2.0, 2.0)), split_block((3.0, 3.0), (3.0, 3.0))])
    found = estimate(one)
    assert (found.effect, found.se) == (0.0, 0.0)
    assert is_equivalent(one, 0.02, 0.0125)


def test_a_throughput_that_halves_is_a_slowdown_of_two():
    throughput = Metric(name="tok", unit="token/s", better="higher")
    assert oriented_logs(LATENCY, np.array([2.0])) == pytest.approx(math.log(2))
    assert oriented_logs(throughput, np.array([0.5])) == pytest.approx(math.log(2))
    halved = split_block((80.0, 80.0), (40.0, 40.0), name="tok")
    assert estimate(series(throughput, [halved])).effect == pytest.approx(math.log(2))
