"""Values of blocks -> logs in which up is worse, block effects and their weighted mean. The only place that
knows whether lower or higher is better. Never decides anything.

Shape suffixes: Q blocks, 4 slots of a block. Units: natural logs throughout.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp

import numpy as np
from numpy.typing import NDArray

from perfguard.records import BlockValues, Metric

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Numbers = NDArray[np.int64]

# A block whose spread exceeds twice the median spread counts less: a clock flip or an outlier fell into it.
SPREAD_LIMIT = 2.0
LARGEST_LOG = 700.0


@dataclass(frozen=True, kw_only=True)
class Series:
    """One metric over Q blocks: oriented logs (Q, 4), which slots are head (Q, 4), block effects (Q) and the sum
    of squares of each block around its own mean (Q), which knows no labels."""

    logs: Floats
    is_head: Flags
    effects: Floats
    squares: Floats


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """Slowdown of head in logs, its standard error, the standard deviation of one trial, degrees of freedom."""

    effect: float
    se: float
    sd: float
    df: int


def oriented_logs(metric: Metric, values: Floats) -> Floats:
    """Natural logs of positive values, signed so that larger is worse. The one function that knows `better`."""
    return np.log(values) if metric.better == "lower" else -np.log(values)


def as_ratio(log_ratio: float) -> float:
    """exp, kept finite where values lie many orders of magnitude apart."""
    return exp(min(log_ratio, LARGEST_LOG))


def series(metric: Metric, blocks: Sequence[BlockValues]) -> Series:
    """Series of one metric over blocks whose values are positive and finite (a trial with any other is not valid)."""
    values = np.array([block.values[metric.name] for block in blocks], dtype=float).reshape(-1, 4)
    return series_of_logs(oriented_logs(metric, values), head_slots(blocks))


def head_slots(blocks: Sequence[BlockValues]) -> Flags:
    return np.array([[arm == "B" for arm in block.order] for block in blocks], dtype=bool).reshape(-1, 4)


def series_of_logs(logs_Q4: Floats, is_head_Q4: Flags) -> Series:
    centred_Q4 = logs_Q4 - logs_Q4.mean(axis=1, keepdims=True)
    # Centred values of a block sum to zero, so mean(head) - mean(base) is the sum over its two head slots.
    effects_Q = (centred_Q4 * is_head_Q4).sum(axis=1)
    squares_Q = (centred_Q4**2).sum(axis=1)
    return Series(logs=logs_Q4, is_head=is_head_Q4, effects=effects_Q, squares=squares_Q)


def first(series: Series, num_blocks: int) -> Series:
    """The series as it stood after its first blocks."""
    return Series(
        logs=series.logs[:num_blocks],
        is_head=series.is_head[:num_blocks],
        effects=series.effects[:num_blocks],
        squares=series.squares[:num_blocks],
    )


def joined(one: Series, other: Series) -> Series:
    """The blocks of one series, then those of the other."""
    return Series(
        logs=np.concatenate([one.logs, other.logs]),
        is_head=np.concatenate([one.is_head, other.is_head]),
        effects=np.concatenate([one.effects, other.effects]),
        squares=np.concatenate([one.squares, other.squares]),
    )


def weights(squares_Q: Floats) -> Floats:
    """w = min(1, (2 median S / S)^2) with S^2 = squares / 3, a function of values without labels.

    The median is taken over blocks with any spread, so that constant blocks (weight 1) never silence others.
    """
    has_spread_Q = squares_Q > 0
    weights_Q = np.ones_like(squares_Q)
    if has_spread_Q.any():
        spread = np.sqrt(squares_Q[has_spread_Q])
        weights_Q[has_spread_Q] = np.minimum(1.0, (SPREAD_LIMIT * float(np.median(spread)) / spread) ** 2)
    return weights_Q


def clipped(logs_Q4: Floats, squares_Q: Floats, spreads: float) -> Floats:
    """Values no further than `spreads` median S (S^2 = squares / 3) from the median of their block; 0 clips nothing.

    A function of values without labels, and within a block monotone: heads that were the two slowest stay it.
    """
    has_spread_Q = squares_Q > 0
    if spreads == 0 or not has_spread_Q.any():
        return logs_Q4
    limit = spreads * float(np.median(np.sqrt(squares_Q[has_spread_Q] / 3.0)))
    middle_Q1 = np.median(logs_Q4, axis=1, keepdims=True)
    return np.asarray(np.clip(logs_Q4, middle_Q1 - limit, middle_Q1 + limit))


def estimate(series: Series, weights_Q: Floats | None = None) -> Estimate:
    """Weighted mean of block effects and its standard error (all weights 1 if none are given).

    Residual variance s^2 = (sum w squares - (sum w) effect^2) / (3 q - 1) after block means and one effect;
    se = s / sqrt(sum w). Both may be 0. Needs at least one block.
    """
    num_blocks = len(series.effects)
    w_Q = np.ones(num_blocks) if weights_Q is None else weights_Q
    total = float(w_Q.sum())
    effect = float(w_Q @ series.effects) / total
    df = 3 * num_blocks - 1
    # The difference can come out negative by rounding where there is no spread beside the effect.
    variance = max(0.0, float(w_Q @ series.squares) - total * effect**2) / df
    sd = float(np.sqrt(variance))
    return Estimate(effect=effect, se=sd / float(np.sqrt(total)), sd=sd, df=df)


def weighted_estimate(series: Series) -> Estimate:
    return estimate(series, weights(series.squares))


def log_ratio(metric: Metric, base: float, head: float) -> float:
    """ln of head against base, two positive values; above 0 is worse."""
    before, after = oriented_logs(metric, np.array([base, head]))
    return float(after - before)


def clipped_estimate(series: Series, spreads: float) -> Estimate:
    """The weighted estimate of clipped values: what to expect of blocks to come, few of which hold an outlier."""
    held = series_of_logs(clipped(series.logs, series.squares, spreads), series.is_head)
    return estimate(held, weights(series.squares))
