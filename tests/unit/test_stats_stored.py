"""Two stored sets of launches against launch noise. Expected numbers by hand; Student's quantile from its table."""

import math

import pytest

from perfguard.stats.stored import judge_stored


def test_noise_of_the_history_gives_three_deviations_of_the_difference():
    judged = judge_stored([100.0], [95.0], 0.01)
    assert judged.change == pytest.approx(math.log(0.95))
    assert judged.tolerance == pytest.approx(3 * 0.01 * math.sqrt(2))  # 4.24 % against 5.13 %
    assert (judged.is_larger, judged.basis) == (True, "history")
    assert judge_stored([100.0], [96.0], 0.01).is_larger is False


def test_the_launches_themselves_need_student_s_wider_quantile():
    # Logarithms 0, 0.02 and 0, 0.02: pooled variance (4 * 0.01^2) / 2 = 0.0002, deviation 0.01414, 2 degrees.
    a = [1.0, math.exp(0.02)]
    judged = judge_stored(a, a)
    assert judged.noise == pytest.approx(math.sqrt(0.0002))
    # t with 2 degrees at two-sided 0.0027 is 19.21 (0.27 % point); sqrt(1/2 + 1/2) = 1.
    assert judged.tolerance == pytest.approx(19.21 * math.sqrt(0.0002), rel=1e-3)
    assert judged.is_larger is False


@pytest.mark.parametrize(("a", "b"), [([1.0], [2.0]), ([1.0], [2.0, 2.1])])
def test_too_few_launches_say_nothing_of_noise(a, b):
    judged = judge_stored(a, b)
    assert (judged.noise, judged.tolerance, judged.is_larger, judged.basis) == (None, None, None, "")


def test_launches_without_any_spread_leave_every_difference_standing():
    assert judge_stored([5.0, 5.0], [5.0, 5.0]).is_larger is False
    assert judge_stored([5.0, 5.0], [4.9, 4.9]).is_larger is True
