"""A claimed number against launches of today; expected values by hand."""

import math

import pytest

from perfguard.claims import judge_claim


@pytest.mark.parametrize(
    ("measured", "is_reproduced"),
    [
        (89.0, True),
        # 2 % off is the margin: 89 / 1.02 = 87.25, 89 * 1.02 = 90.78.
        (87.3, True),
        (87.2, False),
        (90.7, True),
        (90.8, False),
        (82.0, False),
    ],
)
def test_without_known_noise_the_margin_decides_in_both_directions(measured, is_reproduced):
    claim = judge_claim([measured], 89.0, noise=None, margin=0.02)
    assert claim.is_reproduced is is_reproduced
    assert claim.distances == (pytest.approx(math.log(measured / 89)),)


def test_three_standard_deviations_of_launch_noise_are_forgiven_where_that_is_more_than_the_margin():
    # ln(94 / 89) = 0.0547; 3 * 0.02 = 0.06 and 3 * 0.015 = 0.045.
    assert judge_claim([94.0], 89.0, noise=0.02, margin=0.02).is_reproduced
    assert not judge_claim([94.0], 89.0, noise=0.015, margin=0.02).is_reproduced
    assert judge_claim([90.0], 89.0, noise=0.0001, margin=0.02).tolerance == pytest.approx(math.log(1.02))


def test_one_launch_that_gives_the_number_is_enough():
    assert judge_claim([82.0, 89.1], 89.0, noise=None, margin=0.02).is_reproduced
    assert not judge_claim([82.0, 82.1], 89.0, noise=None, margin=0.02).is_reproduced


def test_nothing_measured_reproduces_nothing():
    assert not judge_claim([], 89.0, noise=None, margin=0.02).is_reproduced
