"""A/A launches of one revision -> how noisy this machine is, and what that means for margins. Numbers in, record out.

Must not know where numbers come from nor decide whether code changed: the A/A itself is judged by the verdict engine.
Shapes: Q blocks of 4 launches, L launches of N iterations. Noise is a standard deviation of logs: 0.01 is one percent.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, floor, log10, sqrt

import numpy as np

from perfguard.policy import Policy
from perfguard.records import BlockValues, Metric, Outcome
from perfguard.stats.effects import Floats, as_ratio, estimate, oriented_logs, series, weighted_estimate
from perfguard.stats.equivalence import largest_slowdown
from perfguard.stats.lottery import Modes, find_modes, slow_rate_not_excluded

# A margin below twice the launch noise is not resolved within the default number of blocks (docs/calibration.md).
MARGIN_IN_NOISES = 2.0
# The floor is at least twice the effect that an A/A showed; margin and floor keep the policy's proportion.
FLOOR_IN_EFFECTS = 2.0
# No machine is called better than this from a dozen launches.
SMALLEST_MARGIN = 0.001
FRIENDLY = (1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0)
# Relative spread below which iterations are equal and the rest is rounding.
ROUNDING = 1e-12
# A control is planted well beyond the margin: it tests the harness, not the power of a dozen launches.
CONTROL_IN_MARGINS = 3.0
SMALLEST_CONTROL = 0.05


@dataclass(frozen=True, kw_only=True)
class Noise:
    """Spread between launches around the mean of their block, with a 95 % interval from the chi-squared distribution
    of so many degrees of freedom. `overall` is around the mean of all launches: drift between blocks is in it."""

    sd: float
    low: float
    high: float
    df: int
    overall: float


@dataclass(frozen=True, kw_only=True)
class Levels:
    """The two levels of repetition: relative standard deviation between launches (what more iterations cannot
    remove) and of single iterations within one, mean seconds of an iteration, iterations kept of a launch."""

    between: float
    within: float
    iteration_s: float
    num_iterations: int


@dataclass(frozen=True, kw_only=True)
class Warmup:
    """Iterations left out at the start of a launch, in the middle and at worst; launches that became steady."""

    discarded: int
    most_discarded: int
    num_steady: int
    num_launches: int


@dataclass(frozen=True, kw_only=True)
class Iterations:
    """What the runner kept of one launch for one metric: seconds of every iteration, and its own warm-up."""

    times_s: Sequence[float]
    discarded: int
    is_steady: bool


@dataclass(frozen=True, kw_only=True)
class MetricCalibration:
    """One metric. `lag_one` is None without spread; `levels` and `warmup` where no iterations are recorded;
    `optimal_iterations` also where no noise between launches was seen: then more iterations always pay.
    `slow_rate_not_excluded`: rate of slow launches possible in spite of none seen; None where modes were found."""

    metric: Metric
    noise: Noise
    lag_one: float | None
    is_autocorrelated: bool
    modes: Modes | None
    slow_rate_not_excluded: float | None
    levels: Levels | None
    optimal_iterations: int | None
    warmup: Warmup | None


def calibrate_metric(
    metric: Metric, blocks: Sequence[BlockValues], launches: Sequence[Iterations], *, load_s: float, margin: float
) -> MetricCalibration:
    """`blocks` of A/A launches in the order they ran (at least one), `launches` in any order, `load_s` the cost of
    a launch beside its iterations, `margin` (log) the smallest gap between modes that matters."""
    values = np.array([block.values[metric.name] for block in blocks], dtype=float).reshape(-1, 4)
    logs_Q4 = oriented_logs(metric, values)
    modes = find_modes(logs_Q4, margin)
    levels = levels_of(launches)
    lag_one = lag_one_autocorrelation(logs_Q4.ravel())
    return MetricCalibration(
        metric=metric,
        noise=launch_noise(logs_Q4),
        lag_one=lag_one,
        is_autocorrelated=lag_one is not None and abs(lag_one) > 2.0 / sqrt(logs_Q4.size),
        modes=modes,
        slow_rate_not_excluded=slow_rate_not_excluded(logs_Q4.size) if modes is None else None,
        levels=levels,
        optimal_iterations=None if levels is None else optimal_iterations(levels, load_s),
        warmup=warmup_of(launches),
    )


def launch_noise(logs_Q4: Floats) -> Noise:
    """Standard deviation around block means, 3 degrees of freedom a block, as the verdict sees it."""
    from scipy import special  # here: most commands judge no calibration, and it takes 0.2 s

    df = 3 * len(logs_Q4)
    squares = float(((logs_Q4 - logs_Q4.mean(axis=1, keepdims=True)) ** 2).sum())
    low, high = (sqrt(squares / float(special.chdtri(df, p))) for p in (0.025, 0.975))
    return Noise(sd=sqrt(squares / df), low=low, high=high, df=df, overall=float(logs_Q4.std(ddof=1)))


def lag_one_autocorrelation(logs_L: Floats) -> float | None:
    """r1 = sum (x_t - mean)(x_t+1 - mean) / sum (x_t - mean)^2; beyond 2 / sqrt(L) it is hardly luck (Bartlett)."""
    centred_L = logs_L - logs_L.mean()
    total = float(centred_L @ centred_L)
    return float(centred_L[:-1] @ centred_L[1:]) / total if total > 0 else None


def levels_of(launches: Sequence[Iterations]) -> Levels | None:
    """Variance components by the method of moments, from what is steady in every launch; None below 2 launches of 2.

    Launches of one workload repeat the same iterations (the same prompts, greedily decoded), so where all have the
    same number, an iteration's own level is no noise: it is divided out as the product of row and column means.
    between^2 = max(0, (mean square of launches - mean square within) / N).
    """
    start = max((launch.discarded for launch in launches), default=0)
    kept = [launch.times_s[start:] for launch in launches]
    num = min((len(times) for times in kept), default=0)
    if len(kept) < 2 or num < 2:
        return None
    is_aligned = len({len(launch.times_s) for launch in launches}) == 1
    times_LN = np.array([times[:num] for times in kept], dtype=float)
    mean = float(times_LN.mean())
    rows_L = times_LN.mean(axis=1) / mean
    columns_N = times_LN.mean(axis=0) / mean if is_aligned else np.ones(num)
    rest_LN = times_LN / (mean * rows_L[:, None] * columns_N) - 1.0
    df = (len(kept) - 1) * (num - 1) if is_aligned else len(kept) * (num - 1)
    squares = float((rest_LN**2).sum())
    within_square = squares / df if squares > ROUNDING**2 * rest_LN.size else 0.0
    launch_square = num * float(rows_L.var(ddof=1))
    return Levels(
        between=sqrt(max(0.0, (launch_square - within_square) / num)),
        within=sqrt(within_square),
        iteration_s=mean,
        num_iterations=num,
    )


def optimal_iterations(levels: Levels, load_s: float) -> int | None:
    """Iterations a launch at which a given precision costs least: sqrt(load_s / iteration_s) x within / between.

    The optimum of two-stage sampling (W. G. Cochran, Sampling Techniques, 3rd ed. 1977, section 10.6), for
    benchmarks T. Kalibera and R. Jones, "Rigorous benchmarking in reasonable time", ISMM 2013. None for between = 0.
    """
    if levels.between == 0.0:
        return None
    return max(1, round(sqrt(load_s / levels.iteration_s) * levels.within / levels.between))


def warmup_of(launches: Sequence[Iterations]) -> Warmup | None:
    if not launches:
        return None
    discarded = sorted(launch.discarded for launch in launches)
    return Warmup(
        discarded=discarded[len(discarded) // 2],
        most_discarded=discarded[-1],
        num_steady=sum(launch.is_steady for launch in launches),
        num_launches=len(launches),
    )


@dataclass(frozen=True, kw_only=True)
class Advice:
    """The smallest margin to work with here, and the floor that goes with it; ratios. `is_raised`: the A/A did not
    end EQUIVALENT and asked for more than the noise does."""

    margin: float
    floor: float
    is_raised: bool


def advise(policy: Policy, metrics: Sequence[Metric], blocks: Sequence[BlockValues], aa_outcome: Outcome) -> Advice:
    """Margins from the noisiest of these metrics. Where the A/A did not end EQUIVALENT, they are raised until it
    would have; where it saw a difference, until the floor is twice that difference."""
    over = [series(metric, blocks) for metric in metrics]
    by_noise = MARGIN_IN_NOISES * max(launch_noise(one.logs).sd for one in over)
    if aa_outcome is Outcome.EQUIVALENT:
        return _advice(policy, by_noise, is_raised=False)
    found = [(weighted_estimate(one), estimate(one)) for one in over]
    bound = max(as_ratio(largest_slowdown(e, policy.tost_alpha)) - 1.0 for pair in found for e in pair)
    effect = max(abs(e.effect) for pair in found for e in pair)
    is_difference = aa_outcome is not Outcome.INCONCLUSIVE and policy.floor_share > 0
    by_floor = FLOOR_IN_EFFECTS * effect / policy.floor_share if is_difference else 0.0
    return _advice(policy, max(by_noise, bound, by_floor), is_raised=max(bound, by_floor) > by_noise)


def _advice(policy: Policy, margin: float, *, is_raised: bool) -> Advice:
    friendly = friendly_ratio(max(margin, SMALLEST_MARGIN))
    return Advice(margin=friendly, floor=policy.floor_share * friendly, is_raised=is_raised)


def friendly_ratio(ratio: float) -> float:
    """The next larger number that a person would type: 0.0123 -> 0.015, 0.0031 -> 0.004. Needs ratio > 0."""
    power = floor(log10(ratio))
    digits = ratio / 10.0**power
    # The last step absorbs rounding: 0.002 is two thousandths and not a hair more.
    step = next(step for step in FRIENDLY if step >= digits * (1.0 - 1e-9))
    return round(step * 10.0**power, ceil(-power) + 1 if power < 0 else 1)


def control_slowdown(margin: float) -> float:
    """The slowdown to plant, as a factor: three margins, and never below 5 %."""
    return 1.0 + friendly_ratio(max(CONTROL_IN_MARGINS * margin, SMALLEST_CONTROL))


def slowed(blocks: Sequence[BlockValues], metrics: Sequence[Metric], factor: float) -> list[BlockValues]:
    """The blocks with head's launches made worse by the factor in arithmetic: a control where none can be planted."""
    worse = {metric.name: 1.0 / factor if metric.better == "higher" else factor for metric in metrics}

    def value(block: BlockValues, name: str, slot: int) -> float:
        measured = block.values[name][slot]
        return measured * worse[name] if block.order[slot] == "B" else measured

    return [
        BlockValues(
            stage=block.stage,
            index=block.index,
            order=block.order,
            builds=block.builds,
            values={m.name: tuple(value(block, m.name, slot) for slot in range(4)) for m in metrics},  # type: ignore[misc]
        )
        for block in blocks
    ]
