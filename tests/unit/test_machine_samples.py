"""Copies of a sensor, frozen sensors, means over time, and what is kept of a long trial."""

import random
from itertools import pairwise

import pytest

from perfguard.machine.samples import (
    FROZEN_SAMPLES,
    Track,
    distinct_samples,
    is_frozen,
    time_mean,
    time_quantile,
    update_period_s,
    within,
)


def test_equal_neighbours_are_one_sample_and_a_value_that_comes_back_is_another():
    values = [50.0, 50.0, 70.0, 70.0, 70.0, 50.0]
    assert distinct_samples([0, 1, 2, 3, 4, 5], values) == [(0, 50.0), (2, 70.0), (5, 50.0)]
    assert distinct_samples([], []) == []


def test_a_gap_in_the_readings_is_a_change_too():
    gap = {"unknown": "error", "why": "Unknown Error"}
    assert distinct_samples([0, 1, 2, 3], [5, gap, gap, 5]) == [(0, 5), (1, gap), (3, 5)]


def test_the_period_of_a_sensor_is_the_median_time_between_its_changes():
    assert update_period_s([(0.0, 1), (0.1, 2), (0.2, 1), (0.9, 2)]) == pytest.approx(0.1)
    assert update_period_s([(0.0, 1), (0.1, 2)]) is None


def test_a_sensor_is_frozen_only_if_it_never_moved_over_enough_samples():
    assert is_frozen([46.19] * FROZEN_SAMPLES)
    assert not is_frozen([46.19] * (FROZEN_SAMPLES - 1))
    assert not is_frozen([46.19] * FROZEN_SAMPLES + [46.2])
    assert is_frozen([52], num_samples=FROZEN_SAMPLES)  # collapsed already
    assert not is_frozen([], num_samples=0)


def test_a_mean_over_time_weighs_how_long_a_value_held_and_not_how_often_it_was_read():
    # 100 W for 9 s, then 200 W for 1 s.
    assert time_mean([(0.0, 100.0), (9.0, 200.0)], 10.0) == pytest.approx(110.0)
    assert time_mean([(0.0, {"unknown": "error"}), (8.0, 50.0)], 10.0) == pytest.approx(50.0)
    assert time_mean([], 10.0) is None
    assert time_mean([(3.0, 100.0)], 3.0) is None


def test_a_quantile_over_time_is_the_value_that_was_not_exceeded_for_that_share():
    held = [(0.0, 1980), (1.0, 1500), (2.0, 1980)]  # 1500 MHz for 1 of 20 seconds
    assert time_quantile(held, 20.0, 0.05) == 1500
    assert time_quantile(held, 20.0, 0.06) == 1980
    assert time_quantile([], 20.0, 0.5) is None


def test_the_part_within_a_span_begins_with_the_value_that_held_there():
    samples = [(-2.0, 345), (0.5, 1980), (4.0, 345)]
    assert within(samples, 0.0, 4.0) == [(0.0, 345), (0.5, 1980)]
    assert within(samples, 1.0, 2.0) == [(1.0, 1980)]
    assert within([], 0.0, 1.0) == []


def test_what_is_kept_of_a_long_trial_has_a_bound_and_spans_all_of_it():
    seed = random.randrange(2**31)
    print("seed", seed)
    draw = random.Random(seed)
    track = Track(room=64)
    for k in range(36_000):  # an hour of ten a second
        track.add(k / 10, draw.randrange(300, 700))
    assert len(track.changes) <= 64
    assert track.changes[0][0] < 200
    assert track.changes[-1][0] > 3400
    assert all(later[0] > earlier[0] for earlier, later in pairwise(track.changes))


def test_an_extreme_between_two_kept_samples_is_not_forgotten():
    track = Track(room=4)
    values = [700] * 100
    values[57], values[58] = 210, 765
    for k, value in enumerate(values):
        track.add(k / 10, value + k % 2)
    assert (track.least, track.most) == (211, 765)


def test_a_short_trial_is_kept_whole():
    track = Track(room=8)
    for time_s, value in enumerate([1, 1, 2, 2, 3, {"unknown": "error"}, {"unknown": "error"}, 3]):
        track.add(time_s, value)
    assert track.changes == [(0, 1), (2, 2), (4, 3), (5, {"unknown": "error"}), (7, 3)]
    assert track.spacing_s == 0
