"""Change points of a series: what is found, what must not be, and the chance of a false alarm."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfguard.stats.changepoint import MIN_SEGMENT, change_points, scan_tail

SEED = 20261130


def noise(count: int, points: int = 200, seed: int = SEED) -> np.ndarray:
    print(f"seed {seed}")
    return np.random.default_rng(seed).standard_normal((count, points))


def share_with_alarm(series: np.ndarray) -> float:
    return sum(bool(change_points(one)) for one in series) / len(series)


def test_a_step_is_found_where_it_is_with_both_levels():
    series = np.concatenate([np.tile([99.0, 100.0, 101.0], 20), np.tile([89.0, 90.0, 91.0], 10)])
    (point,) = change_points(series)
    assert (point.index, point.before, point.after) == (60, 100.0, 90.0)
    assert point.change == pytest.approx(-0.1)
    assert point.p_value < 1e-6


def test_a_slump_that_recovered_gives_both_of_its_ends():
    series = 100 + noise(1)[0]
    series[90:120] -= 8
    assert [point.index for point in change_points(series)] == [90, 120]


def test_constants_short_series_and_no_series_have_none():
    for series in ([], [1.0], [1.0, 2.0] * 3, [5.0] * 50):
        assert change_points(np.array(series)) == ()


def test_the_newest_point_alone_never_alarms_whatever_it_is():
    series = 100 + noise(1, 60)[0] * 0.1
    series[-1] = 1e9
    assert change_points(series) == ()
    series[-(MIN_SEGMENT - 1) :] = 1e9
    assert change_points(series) == ()


def test_a_level_of_the_newest_four_is_enough_when_it_is_clear():
    series = np.concatenate([100 + noise(1, 60)[0] * 0.1, np.full(MIN_SEGMENT, 90.0)])
    assert [point.index for point in change_points(series)] == [60]


def test_spikes_are_no_levels():
    series = 100 + noise(100)
    series[np.random.default_rng(SEED + 1).random(series.shape) < 0.05] += 20
    assert share_with_alarm(series) <= 0.05


@pytest.mark.parametrize("phi", [0.3, 0.6])
def test_correlation_from_night_to_night_is_no_step(phi):
    shocks = noise(100, 300)
    series = np.zeros_like(shocks)
    for t in range(1, 300):
        series[:, t] = phi * series[:, t - 1] + shocks[:, t]
    assert share_with_alarm(series[:, 100:]) <= 0.05


def test_a_noisier_end_is_no_step():
    series = noise(100)
    series[:, 133:] *= 3
    assert share_with_alarm(series) <= 0.08


def test_a_series_without_change_rarely_alarms():
    assert share_with_alarm(noise(150)) <= 0.02


def test_the_tail_of_the_scan_is_that_of_simulated_normal_series():
    series = noise(10_000, 100)
    series -= series.mean(axis=1, keepdims=True)
    k = np.arange(MIN_SEGMENT, 100 - MIN_SEGMENT + 1)
    heights = np.abs(np.cumsum(series, axis=1)[:, k - 1]) / np.sqrt(k * (100 - k) / 100)
    for height in (3.0, 3.4):
        simulated = float((heights.max(axis=1) >= height).mean())
        assert scan_tail(height, 100) == pytest.approx(simulated, rel=0.2)


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.floats(1.0, 1e6), min_size=20, max_size=60),
    st.floats(0.1, 1e3),
)
def test_scaling_and_mirroring_move_no_change_point(values, scale):
    # Distinct ranks stay distinct ranks only without rounding: powers of two scale exactly.
    series = np.array(values)
    exact = 2.0 ** round(np.log2(scale))
    found = [point.index for point in change_points(series, alpha=0.2)]
    assert [point.index for point in change_points(series * exact, alpha=0.2)] == found
    assert [point.index for point in change_points(-series, alpha=0.2)] == found


def test_two_steps_up_are_both_found_in_a_long_series():
    series = noise(1, 5_000)[0]
    series[2_000:] += 2
    series[3_500:] += 2
    indices = [point.index for point in change_points(series)]
    assert all(abs(a - b) <= 5 for a, b in itertools.zip_longest(indices, [2_000, 3_500], fillvalue=10**9))
