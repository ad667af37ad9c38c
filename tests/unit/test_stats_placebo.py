import math

import pytest
import scipy.stats
from stats_cases import LATENCY, block

from perfguard.stats.effects import series
from perfguard.stats.placebo import (
    Placebo,
    build_numbers,
    fresh_builds_differ,
    has_failed,
    has_one_pair,
    measure_placebo,
    num_fresh_builds,
    passes,
    tolerance,
)
from perfguard.stats.stage_two import placebo_of

MARGIN = math.log(1.02)


def logs(order, builds, values):
    return block(order, [math.exp(v) for v in values], stage=2, builds=builds)


# Order ABBA, builds 1 1 2 2: base runs build 1 in slot 1 and 2 in slot 4, head 1 in slot 2 and 2 in slot 3.
BLOCKS = [logs("ABBA", "1122", [0.00, 0.10, 0.14, 0.01]), logs("ABBA", "1122", [0.00, 0.10, 0.12, -0.01])]


def measure(blocks):
    return measure_placebo(series(LATENCY, blocks), build_numbers(blocks))


def test_build_differences_worked_out_by_hand():
    # Head 0.04 and 0.02, base 0.01 and -0.01: means 0.03 and 0; four deviations of 0.01, 2 degrees of freedom.
    found = measure(BLOCKS)
    assert found.head_difference == pytest.approx(0.03)
    assert found.base_difference == pytest.approx(0.0, abs=1e-12)
    # t(0.975, 2) = 4.3027; se = sqrt(4e-4 / 2 / 2) = 0.01.
    assert found.half_width == pytest.approx(0.043027, rel=1e-4)


def test_the_effect_of_head_does_not_enter():
    shifted = [
        logs("ABBA", "1122", [0.00, 0.40, 0.44, 0.01]),
        logs("ABBA", "1122", [0.00, 0.40, 0.42, -0.01]),
    ]
    assert measure(shifted).head_difference == pytest.approx(0.03)


def test_a_large_change_leaves_room_for_half_of_itself():
    assert tolerance(0.10, MARGIN) == pytest.approx(0.05)
    assert tolerance(-0.10, MARGIN) == pytest.approx(0.05)
    assert tolerance(0.03, MARGIN) == MARGIN


def test_builds_that_differ_beyond_the_tolerance_do_not_pass():
    found = measure(BLOCKS)
    assert not passes(found, 0.04, MARGIN)
    assert passes(found, 0.10, MARGIN)


def test_a_placebo_fails_for_good_only_beyond_its_bound():
    assert not has_failed(measure(BLOCKS), 0.0, MARGIN)
    clear = Placebo(base_difference=0.08, head_difference=0.0, half_width=0.01)
    assert has_failed(clear, 0.10, MARGIN)
    assert not has_failed(clear, 0.15, MARGIN)


def test_blocks_without_two_builds_have_no_placebo():
    same = [logs("ABBA", "1111", [0.0, 0.1, 0.1, 0.0])] * 2
    assert not has_one_pair(series(LATENCY, same), build_numbers(same))
    assert placebo_of(series(LATENCY, same), build_numbers(same)) is None
    # Both second builds in one arm are no placebo either.
    lopsided = [logs("ABBA", "1221", [0.0, 0.1, 0.1, 0.0])] * 2
    assert placebo_of(series(LATENCY, lopsided), build_numbers(lopsided)) is None


def test_where_each_trial_has_a_build_of_its_own_there_is_no_placebo_but_many_builds():
    own = [logs("ABBA", "2233", [0.0, 0.1, 0.1, 0.0]), logs("ABBA", "4455", [0.0, 0.1, 0.1, 0.0])]
    assert placebo_of(series(LATENCY, own), build_numbers(own)) is None
    assert num_fresh_builds(series(LATENCY, own), build_numbers(own)) == 4


def test_the_arms_may_number_their_builds_differently():
    pairs = [logs("ABBA", "1342", [0.00, 0.10, 0.14, 0.01])] * 2
    found = measure(pairs)
    assert (found.head_difference, found.base_difference) == (pytest.approx(0.04), pytest.approx(0.01))


def test_identical_values_have_a_placebo_of_zero():
    same = [logs("ABBA", "1122", [0.0, 0.1, 0.1, 0.0])] * 2
    found = measure(same)
    assert (found.largest, found.half_width) == (0.0, 0.0)


def pairs(gaps, effect=0.0):
    """Blocks ABBA in which the two trials of base, and those of head, lie so far apart."""
    made = [logs("ABBA", "1122", [0.0, effect, effect + gap, gap]) for gap in gaps]
    return series(LATENCY, made)


ONE = [0.004, -0.003, 0.005, 0.002]  # stage one: a launch varies by some tenths of a percent


@pytest.mark.parametrize(("gap", "alpha"), [(0.02, 0.02), (0.02, 1e-6), (0.012, 0.02), (0.012, 1e-4)])
def test_fresh_builds_differ_where_an_f_test_says_so(gap, alpha):
    fresh = [gap, -gap, gap]
    # Each block gives two differences, base's and head's: 6 and 8 of them.
    ratio = (sum(g * g for g in fresh) / 3) / (sum(g * g for g in ONE) / 4)
    expected = scipy.stats.f.sf(ratio, 6, 8) <= alpha
    assert fresh_builds_differ(pairs(ONE), pairs(fresh), alpha, MARGIN) == expected


def test_builds_are_not_asked_where_their_luck_cannot_make_a_suspicion_and_never_at_level_0():
    # Standard deviation of a trial: gap / sqrt(2). A third of ln(1.02) is 0.0066.
    assert not fresh_builds_differ(pairs([1e-6] * 2), pairs([0.009] * 3), 0.02, MARGIN)
    assert fresh_builds_differ(pairs([1e-6] * 2), pairs([0.010] * 3), 0.02, MARGIN)
    assert not fresh_builds_differ(pairs([1e-6] * 2), pairs([0.5] * 3), 0.0, MARGIN)


def test_a_stage_one_without_any_noise_leaves_no_doubt():
    assert fresh_builds_differ(pairs([0.0, 0.0]), pairs([0.02] * 3), 0.02, MARGIN)
    assert not fresh_builds_differ(pairs([0.0, 0.0]), pairs([0.0] * 3), 0.02, MARGIN)


def test_which_arm_is_slower_does_not_matter():
    assert not fresh_builds_differ(pairs(ONE, effect=0.3), pairs(ONE, effect=-0.3), 0.02, MARGIN)
