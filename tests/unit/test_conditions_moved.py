"""A step of the machine: three readings make one, a spike or two do not, and false alarms are as rare as promised."""

import random

import pytest

from perfguard.conditions.moved import ALPHA, MIN_EARLIER, step_now, steps

LEVEL = [100.0, 101.0, 99.0, 100.5, 99.5, 100.2, 99.8, 100.1, 99.9]


def test_three_lower_readings_are_a_step():
    step = step_now([*LEVEL, 90.0, 91.0, 90.5])
    assert (step.index, step.seen_at, step.before, step.after) == (9, 11, 100.0, 90.5)
    assert step.change == pytest.approx(-0.095)
    assert step.p == pytest.approx(2 / 220)


@pytest.mark.parametrize(
    "newest", [[90.0], [90.0, 91.0], [90.0, 91.0, 100.0], [90.0, 110.0, 90.0], [130.0, 100.0, 100.0]]
)
def test_one_or_two_readings_or_spikes_are_none(newest):
    assert steps([*LEVEL, *newest]) == []


def test_fewer_earlier_readings_than_the_test_needs_say_nothing():
    assert MIN_EARLIER == 9
    assert step_now([*LEVEL[1:], 50.0, 50.0, 50.0]) is None


def test_constant_readings_step_by_more_than_one_percent_only():
    assert step_now([16.0] * 9 + [8.0] * 3).after == 8.0
    assert step_now([100.0] * 9 + [100.5] * 3) is None
    assert step_now([100.0] * 12) is None


def test_an_old_spike_does_not_hide_a_step():
    assert step_now([*LEVEL, 70.0, *LEVEL, 90.0, 91.0, 90.5]) is not None


def test_a_step_is_told_once_and_the_way_back_is_another():
    there = [*LEVEL, 90.0, 91.0, 90.5]
    assert step_now([*there, 90.2]) is None
    after = [90.0, 91.0, 90.5, 90.2, 89.8, 90.1, 90.4, 89.9, 90.3]
    assert [step.index for step in steps([*LEVEL, *after, *LEVEL])] == [9, 18]


@pytest.mark.parametrize("draw", ["normal", "spiky"])
def test_a_machine_that_does_not_move_alarms_as_rarely_as_promised(draw):
    """Exchangeable readings of any distribution: at most ALPHA a test. 4,000 histories, one test each."""
    seed = 20
    source = random.Random(seed)

    def reading():
        noise = source.gauss(0, 0.02)
        return 100.0 * (1 + noise) * (0.7 if draw == "spiky" and source.random() < 0.1 else 1.0)

    alarms = sum(step_now([reading() for _ in range(12)]) is not None for _ in range(4000))
    assert alarms <= 4000 * ALPHA, f"seed {seed}"
