"""Numbers of a calibration against hand-worked values, numpy's definitions, and data simulated with known variances."""

import math

import numpy as np
import pytest
from scipy import stats

from perfguard.policy import Policy
from perfguard.records import BlockValues, Metric, Outcome
from perfguard.stats.calibration import (
    Iterations,
    Levels,
    advise,
    calibrate_metric,
    control_slowdown,
    friendly_ratio,
    lag_one_autocorrelation,
    launch_noise,
    levels_of,
    optimal_iterations,
    slowed,
    warmup_of,
)
from perfguard.stats.lottery import Modes, find_modes

RATE = Metric(name="rate", unit="token/s", better="higher")
LATENCY = Metric(name="latency", unit="s", better="lower")


def aa_blocks(logs, metric=RATE, order="ABBA"):
    """Blocks whose oriented logs are these: a rate is worse where it is lower."""
    sign = -1.0 if metric.better == "higher" else 1.0
    return [
        BlockValues(stage=1, index=i, order=order, builds="1111", values={metric.name: tuple(np.exp(sign * row))})
        for i, row in enumerate(np.asarray(logs, dtype=float))
    ]


def launches(times, discarded=0, is_steady=True):
    return [Iterations(times_s=list(row), discarded=discarded, is_steady=is_steady) for row in times]


def two_level(seed, *, between, within, num_launches=200, num_iterations=100, profile=0.0):
    """Launches x iterations: level of the launch, level of the iteration (the same in all), noise; mean near 1 ms."""
    rng = np.random.default_rng(seed)
    levels = rng.normal(0, between, (num_launches, 1)) + rng.normal(0, profile, (1, num_iterations))
    return 1e-3 * np.exp(levels + rng.normal(0, within, (num_launches, num_iterations)))


def test_noise_is_pooled_around_block_means_so_that_drift_between_blocks_is_not_in_it():
    # Around their means: -1 1 -1 1 and -2 2 0 0 hundredths, squares 4 + 8 = 12e-4, 6 degrees of freedom.
    noise = launch_noise(np.array([[-0.01, 0.01, -0.01, 0.01], [0.98, 1.02, 1.0, 1.0]]))
    assert noise.df == 6
    assert noise.sd == pytest.approx(math.sqrt(12e-4 / 6))
    assert noise.overall > 0.5


def test_interval_of_noise_is_the_chi_squared_one():
    logs = np.random.default_rng(3).normal(0, 0.01, (4, 4))
    noise = launch_noise(logs)
    low, high = (noise.sd * math.sqrt(12 / stats.chi2.ppf(p, 12)) for p in (0.975, 0.025))
    assert (noise.low, noise.high) == (pytest.approx(low), pytest.approx(high))


def test_interval_of_noise_holds_the_truth_in_19_of_20_cases():
    seeds = range(600)
    found = [launch_noise(np.random.default_rng(seed).normal(0, 0.01, (3, 4))) for seed in seeds]
    share = sum(one.low <= 0.01 <= one.high for one in found) / len(found)
    assert 0.92 < share < 0.98, f"seeds {seeds}: {share}"


def test_lag_one_autocorrelation_by_hand():
    # 1 2 3 4 around 2.5: (-1.5 -.5 .5 1.5); products .75 - .25 + .75 = 1.25; squares 5.
    assert lag_one_autocorrelation(np.array([1.0, 2.0, 3.0, 4.0])) == pytest.approx(0.25)
    assert lag_one_autocorrelation(np.array([1.0, -1.0] * 10)) == pytest.approx(-0.95)
    assert lag_one_autocorrelation(np.ones(5)) is None


def test_drifting_launches_are_called_autocorrelated_and_independent_ones_are_not():
    # A slope over all launches in the order they ran.
    drifting = calibrate_metric(RATE, aa_blocks(np.arange(16).reshape(4, 4) / 100), [], load_s=1, margin=0.02)
    alternating = calibrate_metric(RATE, aa_blocks([[0.0, 0.01, 0.0, 0.01]] * 2), [], load_s=1, margin=0.02)
    assert drifting.is_autocorrelated
    assert drifting.lag_one > 0.6
    # -7/8 of eight launches is beyond 2/sqrt(8): what alternates is no less dependent.
    assert alternating.is_autocorrelated
    assert alternating.lag_one == pytest.approx(-7 / 8)
    still = calibrate_metric(RATE, aa_blocks([[0.0, 0.01, 0.01, 0.0]] * 2), [], load_s=1, margin=0.02)
    assert not still.is_autocorrelated


def test_both_variances_of_two_level_data_are_recovered():
    levels = levels_of(launches(two_level(7, between=0.01, within=0.05)))
    assert levels.between == pytest.approx(0.01, rel=0.2)  # 199 degrees of freedom: a standard error of 6 %
    assert levels.within == pytest.approx(0.05, rel=0.02)
    assert levels.iteration_s == pytest.approx(1e-3, rel=0.01)
    assert levels.num_iterations == 100


def test_iterations_alone_leave_no_variance_between_launches():
    # Launch means then differ by within / sqrt(iterations) = 0.5 %, which must not be taken for launch noise.
    found = [levels_of(launches(two_level(seed, between=0.0, within=0.05))).between for seed in range(5)]
    assert max(found) < 0.003, f"seeds 0 to 4: {found}"


def test_levels_that_every_launch_repeats_are_no_noise():
    # Iterations differ by 30 % in the same way in each launch, as tokens of a growing context do.
    levels = levels_of(launches(two_level(11, between=0.01, within=0.02, profile=0.3)))
    assert levels.within == pytest.approx(0.02, rel=0.03)
    assert levels.between == pytest.approx(0.01, rel=0.2)


def test_within_is_the_plain_standard_deviation_where_launches_differ_in_length():
    # 1 3 and 2 2 after cutting to two: means 2 and 2; relative deviations -.5 .5 0 0, squares .5, 2 degrees of freedom.
    levels = levels_of(launches([[1.0, 3.0], [2.0, 2.0, 9.0]]))
    assert levels.within == pytest.approx(0.5)
    assert levels.between == 0.0


def test_warmup_of_any_launch_is_left_out_of_all():
    slow_start = [Iterations(times_s=[9.0, 9.0, 1.0, 1.0, 1.0], discarded=d, is_steady=True) for d in (1, 2)]
    assert levels_of(slow_start) == Levels(between=0.0, within=0.0, iteration_s=1.0, num_iterations=3)


def test_levels_need_two_launches_of_two_iterations():
    assert levels_of([]) is None
    assert levels_of(launches([[1.0, 2.0]])) is None
    assert levels_of(launches([[1.0, 2.0], [1.0, 2.0]], discarded=1)) is None


def test_optimal_iterations_by_hand_and_by_search():
    # Loading costs 400 iterations, iterations vary five times as much as launches: sqrt(400) x 5 = 100.
    levels = Levels(between=0.01, within=0.05, iteration_s=0.01, num_iterations=60)
    assert optimal_iterations(levels, load_s=4.0) == 100
    # Variance of the mean at a given cost is proportional to (launch + n iteration) (between^2 + within^2 / n).
    price = {n: (4.0 + n * 0.01) * (0.01**2 + 0.05**2 / n) for n in range(1, 1000)}
    assert min(price, key=price.get) == 100
    assert optimal_iterations(Levels(between=0.0, within=0.05, iteration_s=0.01, num_iterations=60), 4.0) is None
    assert optimal_iterations(Levels(between=0.05, within=0.0, iteration_s=0.01, num_iterations=60), 4.0) == 1


def test_warmup_is_summed_up_over_launches():
    found = warmup_of([Iterations(times_s=[], discarded=d, is_steady=d < 30) for d in (10, 5, 30)])
    assert (found.discarded, found.most_discarded, found.num_steady, found.num_launches) == (10, 30, 2, 3)
    assert warmup_of([]) is None


def test_modes_of_one_arm_are_found_and_counted():
    logs = np.random.default_rng(5).normal(0, 0.001, (3, 4))
    for block, slot in ((0, 1), (2, 0), (2, 3)):
        logs[block, slot] += 0.08
    modes = find_modes(logs, math.log(1.02))
    assert (modes.num_slow, modes.num_launches) == (3, 12)
    assert modes.gap == pytest.approx(0.08, abs=0.003)
    assert find_modes(np.random.default_rng(5).normal(0, 0.001, (3, 4)), math.log(1.02)) is None


def test_without_modes_the_rate_that_clean_launches_leave_possible_is_said():
    clean = calibrate_metric(RATE, aa_blocks(np.zeros((2, 4))), [], load_s=1, margin=0.02)
    assert clean.modes is None
    assert clean.slow_rate_not_excluded == pytest.approx(1 - 0.05 ** (1 / 8))
    lottery = calibrate_metric(RATE, aa_blocks([[0, 0, 0, 0.1], [0, 0.1, 0, 0]]), [], load_s=1, margin=0.02)
    assert lottery.modes == Modes(gap=pytest.approx(0.1), num_launches=8, num_slow=2)
    assert lottery.slow_rate_not_excluded is None


@pytest.mark.parametrize(
    ("ratio", "friendly"),
    [(0.0123, 0.015), (0.01, 0.01), (0.0031, 0.004), (0.002, 0.002), (0.096, 0.1), (0.11, 0.15), (2.3, 2.5)],
)
def test_margins_are_rounded_up_to_numbers_that_people_type(ratio, friendly):
    assert friendly_ratio(ratio) == friendly


def test_the_margin_is_twice_the_noise_of_the_noisiest_metric_rounded_up():
    quiet, noisy = ([[0.001, -0.001, 0.001, -0.001]] * 2, [[0.01, -0.01, -0.01, 0.01]] * 2)
    blocks = [
        BlockValues(stage=1, index=0, order="ABAB", builds="1111", values={**a.values, **b.values})
        for a, b in zip(aa_blocks(quiet), aa_blocks(noisy, LATENCY), strict=True)
    ]
    # 8 squares of 1e-4 over 6 degrees of freedom: 1.15 %, twice that 2.3 %.
    advice = advise(Policy(), [RATE, LATENCY], blocks, Outcome.EQUIVALENT)
    assert (advice.margin, advice.floor, advice.is_raised) == (0.025, 0.25 * 0.025, False)


def test_a_machine_without_any_noise_still_gets_a_margin():
    advice = advise(Policy(), [RATE], aa_blocks(np.zeros((2, 4))), Outcome.EQUIVALENT)
    assert advice.margin == 0.001


def test_an_undecided_aa_raises_the_margin_to_where_it_would_have_been_equivalent():
    # ABBA 0 3 0 3 and 3 0 3 0: effect 0, squares 8 x 0.015^2, so 1.73 % around block means: twice that is 3.5 %.
    blocks = aa_blocks([[0.0, 0.03, 0.0, 0.03], [0.03, 0.0, 0.03, 0.0]])
    assert advise(Policy(), [RATE], blocks, Outcome.EQUIVALENT).margin == 0.04
    # Five degrees of freedom beside an effect: t x 1.90 % / sqrt(2).
    bound = stats.t.ppf(1 - 0.0125, 5) * math.sqrt(8 * 0.015**2 / 5) / math.sqrt(2)
    assert bound == pytest.approx(0.0424, abs=0.0001)
    raised = advise(Policy(), [RATE], blocks, Outcome.INCONCLUSIVE)
    assert (raised.margin, raised.floor, raised.is_raised) == (0.05, 0.0125, True)


def test_an_aa_that_saw_a_difference_raises_the_floor_to_twice_that_difference():
    # Head 3 % slow in each block; floor 6 % or more, margin four times that.
    raised = advise(Policy(), [RATE], aa_blocks([[0.0, 0.03, 0.0301, 0.0]] * 3), Outcome.SUSPECT)
    assert (raised.margin, raised.floor, raised.is_raised) == (0.25, 0.0625, True)


def test_a_control_is_well_beyond_the_margin_and_never_tiny():
    assert control_slowdown(0.02) == pytest.approx(1.06)
    assert control_slowdown(0.001) == pytest.approx(1.05)
    assert control_slowdown(0.11) == pytest.approx(1.40)


def test_computed_slowness_strikes_head_alone_and_in_the_bad_direction():
    values = {"rate": (8.0, 8.0, 8.0, 8.0), "latency": (2.0, 2.0, 2.0, 2.0)}
    block = BlockValues(stage=1, index=0, order="ABBA", builds="1111", values=values)
    (worse,) = slowed([block], [RATE, LATENCY], 1.25)
    assert worse.values["rate"] == pytest.approx((8.0, 6.4, 6.4, 8.0))
    assert worse.values["latency"] == pytest.approx((2.0, 2.5, 2.5, 2.0))
