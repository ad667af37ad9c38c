"""The warm-up rule on series whose answer is known by hand."""

import gc
import math
import random
import statistics

import pytest

from runners import timing


def test_constant_series_is_kept_whole():
    # 0.1 is no binary fraction: rounding must not look like a start-up.
    assert timing.find_warmup([0.1] * 100) == timing.Warmup(iterations=100, discarded=0, found=True)


def test_twenty_slow_iterations_then_steady_are_discarded_exactly():
    series = [2.0] * 20 + [1.0] * 80
    assert timing.find_warmup(series) == timing.Warmup(iterations=100, discarded=20, found=True)


def test_a_start_that_ends_inside_a_batch_is_discarded_when_it_fills_most_of_it():
    # 23 slow ones: the fifth batch holds three slow and two fast, its median is slow.
    assert timing.find_warmup([2.0] * 23 + [1.0] * 77).discarded == 25


def test_a_decaying_start_with_noise_is_mostly_discarded():
    seed = 11
    print("seed", seed)
    noise = random.Random(seed)
    series = [(1 + math.exp(-i / 8)) * math.exp(noise.gauss(0, 0.002)) for i in range(300)]
    warmup = timing.find_warmup(series)
    assert warmup.found
    assert 30 <= warmup.discarded <= 60  # exp(-30/8) is 2.4 %, exp(-60/8) is 0.06 %


def test_single_spikes_decide_nothing():
    series = [1.0] * 100
    for place in (0, 1, 37, 50, 99):  # two of the first five: their median stays
        series[place] = 50.0
    assert timing.find_warmup(series) == timing.Warmup(iterations=100, discarded=0, found=True)


def test_a_series_that_rises_to_its_end_is_never_steady_and_loses_at_most_half():
    warmup = timing.find_warmup([1 + i / 100 for i in range(100)])
    assert not warmup.found
    assert warmup.discarded == 50


def test_a_start_longer_than_half_is_reported_as_not_found():
    # 30 slow and 10 fast batches: MSER(0) = 0.1875 / 40 is below MSER(20) = 0.25 / 20, so all would be kept;
    # of their pairs 300 fall and none rises: z = 300 / sqrt(40 * 39 * 85 / 18) = 3.5.
    series = [2.0] * 150 + [1.0] * 50
    assert timing.find_warmup(series) == timing.Warmup(iterations=200, discarded=100, found=False)


def test_a_trend_smaller_than_one_percent_does_not_matter():
    assert timing.find_warmup([1 + 0.00005 * i for i in range(100)]).found


def test_fewer_than_fifty_iterations_are_kept_whole_and_unsettled():
    assert timing.find_warmup([5.0] * 20 + [1.0] * 29) == timing.Warmup(iterations=49, discarded=0, found=False)
    assert timing.find_warmup([1.0] * 50).found


def test_an_empty_series_has_no_warmup():
    assert timing.find_warmup([]) == timing.Warmup(iterations=0, discarded=0, found=False)


def test_noise_without_a_start_is_found_steady_and_hardly_trimmed():
    seed = 5
    print("seed", seed)
    noise = random.Random(seed)
    runs = [timing.find_warmup([math.exp(noise.gauss(0, 0.05)) for _ in range(200)]) for _ in range(100)]
    # Mann's test is two-sided at z = 3: 0.27 of 100 expected; four or more have odds of 1 in 7,000.
    assert sum(not run.found for run in runs) <= 3
    assert statistics.median(run.discarded for run in runs) <= 50


def test_discarded_is_never_more_than_half():
    seed = 3
    print("seed", seed)
    noise = random.Random(seed)
    for length in range(0, 130, 7):
        series = [noise.expovariate(1.0) + 1 / (i + 1) for i in range(length)]
        assert timing.find_warmup(series).discarded <= length / 2


def test_marginal_error_is_the_published_statistic():
    # By hand for 4, 1, 1, 2: mean 2, squares 4+1+1+0 = 6, over 16; then mean 4/3, squares 2/3, over 9; ...
    expected = [6 / 16, (2 / 3) / 9, 0.5 / 4, 0.0]
    assert timing.marginal_errors([4.0, 1.0, 1.0, 2.0]) == pytest.approx(expected)


def test_trend_statistic_agrees_with_scipy_on_a_series_without_ties():
    stats = pytest.importorskip("scipy.stats")
    values = [3.0, 1.0, 4.0, 1.5, 5.0, 9.0, 2.0, 6.0, 5.5, 3.5]
    tau = stats.kendalltau(range(len(values)), values).statistic
    n = len(values)
    z = tau * n * (n - 1) / 2 / math.sqrt(n * (n - 1) * (2 * n + 5) / 18)
    assert timing.trend_z(values) == pytest.approx(z)


def test_no_garbage_is_collected_inside_quiet_and_it_is_again_after():
    with timing.quiet():
        assert not gc.isenabled()
        assert gc.get_freeze_count() > 0
    assert gc.isenabled()
    assert gc.get_freeze_count() == 0


def test_quiet_ends_with_an_exception_too():
    with pytest.raises(KeyError), timing.quiet():
        raise KeyError("inside")
    assert gc.isenabled()
