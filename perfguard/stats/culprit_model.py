"""Probabilities over "nothing changed", "changed with candidate c" and "grew over many commits". Decides nothing.

Bayes on a grid. Unknown with every change: its size, and the rate of launches that show it (all of them, or a
lottery). Unknown always: the noise of a pair of launches and the share of readings that a disturbance spoiled.
A reading r at a position past the change has density (1 - rate) f(r; 0) + rate f(r; size), before it f(r; 0), with

    f(r; m) = (1 - e) t_8((r - m) / s) / s + e Normal(r; m, SPOILED_SD^2)

Candidates between two measured positions share their likelihood, so the grid is worked out by span, not by commit.
Shape suffixes: R readings, U spans, K kinds of change, V kinds of noise, N candidates.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import gamma, log, pi, sqrt

import numpy as np
from numpy.typing import NDArray

from perfguard.stats.culprit_records import Posterior, Reading, SearchSetup

Floats = NDArray[np.float64]
Numbers = NDArray[np.int64]

# Sizes as multiples of the smallest change looked for; the larger ones are rarer, and evidence finds them anyway.
SIZES = (1.0, 1.5, 2.25, 3.25, 4.5, 6.5, 9.5, 14.0, 20.0, 30.0, 45.0)
SIZE_WEIGHTS = (1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.5, 0.25, 0.12, 0.06, 0.03)
# Sizes lie a factor of about 1.45 apart: what lies between is spread around the next one, as a share of it.
BETWEEN_SIZES = 0.1
LOTTERY_SIZES = (2.25, 3.25, 4.5, 6.5, 14.0)
LOTTERY_RATES = (0.15, 0.3, 0.6)
# Prior shares of all that can have changed. Small enough that PHANTOM at 0.99 needs no evidence against them, as it
# could not be had in a few launches; a lottery's first slow launches outweigh it.
LOTTERY_SHARE = 0.02
GRADUAL_SHARE = 0.02
RAMPS = ((0.0, 1.0), (0.0, 0.5), (0.25, 0.75), (0.5, 1.0))
LEAST_RAMP = 8
# Noise of a pair against sqrt(2) x the expected noise of a launch.
SCALES = (0.5, 0.7, 1.0, 1.4, 2.0, 2.8)
SCALE_WEIGHTS = (0.045, 0.18, 0.53, 0.18, 0.045, 0.02)
SPOILED_SHARES = (0.03, 0.15)
SPOILED_WEIGHTS = (0.75, 0.25)
SPOILED_SD = 0.12
# Below this share of the smallest change the grid of sizes is coarser than the noise.
LEAST_SD_SHARE = 0.1
DF = 8.0
T_PEAK = gamma((DF + 1) / 2) / (gamma(DF / 2) * sqrt(DF * pi))
# A candidate that the verdict procedure found equal to its parent keeps this much of its probability.
REFUTED = 0.001
# Least prior weight of a candidate against the mean one.
LEAST_WEIGHT = 1e-4
TINY = 1e-300


@dataclass(frozen=True, kw_only=True)
class Grid:
    """Kinds of change (K): `sizes`, `rates`, prior `weights`; kinds of noise (V): `scales`, `spoiled` shares, prior
    `noise_weights`. Weights sum to 1."""

    sizes: Floats
    rates: Floats
    weights: Floats
    scales: Floats
    spoiled: Floats
    noise_weights: Floats


def grid_of(setup: SearchSetup) -> Grid:
    """The grid in which "slower" is up; readings are turned to it by `turned`."""
    steps = [(size, 1.0, weight) for size, weight in zip(SIZES, SIZE_WEIGHTS, strict=True)]
    draws = [(size, rate, 1.0) for size in LOTTERY_SIZES for rate in LOTTERY_RATES]
    signs = (1.0, -1.0) if setup.look_for == "any" else (1.0,)
    kinds = [
        (sign * size * setup.smallest, rate, share * weight / total / len(signs))
        for sign in signs
        for group, share in ((steps, 1 - LOTTERY_SHARE), (draws, LOTTERY_SHARE))
        for total in (sum(weight for _, _, weight in group),)
        for size, rate, weight in group
    ]
    sd = sqrt(2) * max(setup.launch_sd, LEAST_SD_SHARE * setup.smallest)
    noises = [
        (sd * scale, spoiled, scale_weight * spoiled_weight)
        for scale, scale_weight in zip(SCALES, SCALE_WEIGHTS, strict=True)
        for spoiled, spoiled_weight in zip(SPOILED_SHARES, SPOILED_WEIGHTS, strict=True)
    ]
    sizes_K, rates_K, weights_K = np.array(kinds).T
    scales_V, spoiled_V, weights_V = np.array(noises).T
    return Grid(
        sizes=sizes_K,
        rates=rates_K,
        weights=weights_K,
        scales=scales_V,
        spoiled=spoiled_V,
        noise_weights=weights_V,
    )


def turned(setup: SearchSetup, log_slowdown: float) -> float:
    return -log_slowdown if setup.look_for == "faster" else log_slowdown


def density(off: float | Floats, scale: Floats, spoiled: Floats) -> Floats:
    """f of the module docstring for readings that are `off` from their mean."""
    core = T_PEAK * np.exp(-(DF + 1) / 2 * np.log1p((off / scale) ** 2 / DF)) / scale
    wide = np.exp(-0.5 * (off / SPOILED_SD) ** 2) / (SPOILED_SD * sqrt(2 * pi))
    return np.asarray((1 - spoiled) * core + spoiled * wide)


@dataclass(frozen=True, kw_only=True)
class Likelihood:
    """Log densities of one reading: before any change (V), past a change (K, V), on each ramp (W, K, V)."""

    before: Floats
    past: Floats
    ramps: Floats


# Likelihoods of readings already seen in the same search; saves time and changes nothing.
Memo = dict[Reading, Likelihood]


def likelihood_of(setup: SearchSetup, grid: Grid, reading: Reading) -> Likelihood:
    r = turned(setup, reading.log_slowdown)
    scale_V = reading.relative_sd * grid.scales
    shares = [ramp_share(ramp, np.array(reading.position)) for ramp in ramps_of(setup.num_candidates)]
    size_WK = np.array([1.0, *shares])[:, None] * grid.sizes
    wider_WKV = np.sqrt(scale_V**2 + (BETWEEN_SIZES * size_WK[:, :, None]) ** 2)
    before_V = density(r, scale_V, grid.spoiled)
    past_WKV = density((r - size_WK)[:, :, None], wider_WKV, grid.spoiled)
    rate_K1 = grid.rates[:, None]
    mixed_WKV = np.log((1 - rate_K1) * before_V + rate_K1 * past_WKV)
    return Likelihood(before=np.log(before_V), past=mixed_WKV[0], ramps=mixed_WKV[1:])


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """Weights, up to one common factor: nothing changed, each stretch it may have grown over by kind, and each span of
    candidates by kind, per unit of prior mass in it.

    `ends`: last candidate of each span, the last one N. `noise`: expected sd of one launch.
    """

    none: float
    ramps: Floats
    spans: Floats
    ends: Numbers
    noise: float


def weigh(setup: SearchSetup, grid: Grid, readings: Sequence[Reading], memo: Memo) -> Evidence:
    """Likelihoods of all readings, averaged over sizes and noise."""
    for reading in readings:
        if reading not in memo:
            memo[reading] = likelihood_of(setup, grid, reading)
    found = [memo[reading] for reading in readings]
    base_V = np.sum([one.before for one in found], axis=0) if found else np.zeros_like(grid.scales)
    ends_U, gain_UKV = _gains(setup, grid, readings, found)
    logs_UKV = base_V + gain_UKV
    empty_WKV = np.zeros((len(ramps_of(setup.num_candidates)), len(grid.sizes), len(grid.scales)))
    ramps_WKV = np.sum([one.ramps for one in found], axis=0) if found else empty_WKV
    # The largest weight becomes 1, so that none overflows.
    top = max(float(logs.max(initial=-np.inf)) for logs in (base_V, logs_UKV, ramps_WKV))
    prior_KV = grid.weights[:, None] * grid.noise_weights
    weights_UKV = np.exp(logs_UKV - top) * prior_KV
    none_V = np.exp(base_V - top) * grid.noise_weights
    by_noise_V = none_V + weights_UKV.sum(axis=(0, 1)) / len(ends_U)
    return Evidence(
        none=float(none_V.sum()),
        ramps=(np.exp(ramps_WKV - top) * prior_KV).sum(axis=2),
        spans=weights_UKV.sum(axis=2),
        ends=ends_U,
        noise=float(by_noise_V @ grid.scales / by_noise_V.sum() / sqrt(2)),
    )


def _gains(
    setup: SearchSetup, grid: Grid, readings: Sequence[Reading], found: Sequence[Likelihood]
) -> tuple[Numbers, Floats]:
    """Spans of candidates between measured positions, and what the readings at or past each span's end say for it.

    The last span may end at BAD unmeasured: no reading speaks for it.
    """
    ends = sorted({reading.position for reading in readings} | {setup.num_candidates})
    row_of = {end: row for row, end in enumerate(ends)}
    gain_UKV = np.zeros((len(ends), len(grid.sizes), len(grid.scales)))
    for reading, one in zip(readings, found, strict=True):
        gain_UKV[row_of[reading.position]] += one.past - one.before
    return np.array(ends), np.cumsum(gain_UKV[::-1], axis=0)[::-1]


def ramps_of(num_candidates: int) -> list[tuple[float, float]]:
    """Stretches (from, to) over which a change may have grown evenly: the whole range and halves of it.

    None where they would be shorter than LEAST_RAMP commits; such a stretch is searched commit by commit.
    """
    stretches = [(start * num_candidates, end * num_candidates) for start, end in RAMPS]
    return [(start, end) for start, end in stretches if end - start >= LEAST_RAMP]


def ramp_share(ramp: tuple[float, float], position: Numbers) -> Floats:
    start, end = ramp
    return np.asarray(np.clip((position - start) / (end - start), 0.0, 1.0))


def prior_of(setup: SearchSetup) -> Floats:
    """Prior share of each candidate among those that can have changed, sums to 1. None is so small that evidence
    could not outweigh it."""
    weights_N = np.array(setup.weights if setup.weights else np.ones(setup.num_candidates), dtype=float)
    weights_N = np.maximum(weights_N, LEAST_WEIGHT * weights_N.mean())
    return np.asarray(weights_N / weights_N.sum())


@dataclass(frozen=True, kw_only=True)
class Beliefs:
    """The posterior, its `p_change` as an array (N), and by position 1..N:

    `contrast`: how far the hypotheses disagree on what a reading at each position will show (variance, log^2).
    """

    posterior: Posterior
    by_candidate: Floats
    contrast: Floats


def beliefs_of(
    setup: SearchSetup,
    readings: Sequence[Reading],
    refuted: frozenset[int] = frozenset(),
    memo: Memo | None = None,
) -> Beliefs:
    """What is believed after the readings (none: the prior).

    `refuted`: candidates that the verdict procedure found equal to what came before them.
    """
    grid = grid_of(setup)
    found = weigh(setup, grid, readings, {} if memo is None else memo)
    prior_N = prior_of(setup) * (1 - GRADUAL_SHARE)
    prior_N[[candidate - 1 for candidate in refuted]] *= REFUTED
    span_N = np.searchsorted(found.ends, np.arange(1, setup.num_candidates + 1))
    mass_U = np.bincount(span_N, weights=prior_N, minlength=len(found.ends))
    change_K = mass_U @ found.spans
    ramps_W = GRADUAL_SHARE * found.ramps.sum(axis=-1) / max(1, len(found.ramps))
    total = found.none + float(ramps_W.sum()) + float(change_K.sum())
    p_N = prior_N * found.spans.sum(axis=1)[span_N] / total
    sizes_N, sizes_W = _typical(grid, found.spans)[span_N], _typical(grid, found.ramps)
    by_kind_K = change_K / max(float(change_K.sum()), TINY)
    is_lottery_K = grid.rates < 1
    p_lottery = float(by_kind_K[is_lottery_K].sum())
    posterior = Posterior(
        p_none=found.none / total,
        p_gradual=float(ramps_W.sum()) / total,
        p_change=tuple(p_N.tolist()),
        p_lottery=p_lottery,
        slow_rate=float(by_kind_K[is_lottery_K] @ grid.rates[is_lottery_K]) / max(p_lottery, TINY),
        log_slowdown=turned(setup, float(by_kind_K @ grid.sizes)),
        noise=found.noise,
    )
    return Beliefs(posterior=posterior, by_candidate=p_N, contrast=_contrast(p_N, sizes_N, ramps_W / total, sizes_W))


def _typical(grid: Grid, weights_UK: Floats) -> Floats:
    """Root mean square of what a reading past the change shows, under each row of weights; sign left aside."""
    shown_K = (grid.sizes * grid.rates) ** 2
    return np.asarray(
        np.sqrt(weights_UK.reshape(-1, len(shown_K)) @ shown_K / np.maximum(weights_UK.sum(axis=-1), TINY))
    )


def _contrast(p_N: Floats, sizes_N: Floats, p_W: Floats, sizes_W: Floats) -> Floats:
    """Variance over the hypotheses of the expected reading, at positions 1..N.

    With one known size it is size^2 q (1 - q) for a change at or before the position with probability q: largest where
    the posterior splits in half. With gradual change alive it is largest where a step and a ramp differ.
    """
    mean_N, square_N = np.cumsum(p_N * sizes_N), np.cumsum(p_N * sizes_N**2)
    position = np.arange(1, len(p_N) + 1)
    for ramp, p, size in zip(ramps_of(len(p_N)), p_W, sizes_W, strict=True):
        shown_N = size * ramp_share(ramp, position)
        mean_N, square_N = mean_N + p * shown_N, square_N + p * shown_N**2
    return np.asarray(square_N - mean_N**2)


def log_odds(p: float) -> float:
    """ln(p / (1 - p)), kept finite."""
    p = min(max(p, 1e-12), 1 - 1e-12)
    return log(p / (1 - p))
