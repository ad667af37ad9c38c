"""The placebo inside stage two: do two builds of the same code differ? Never looks at head against base.

Per-build luck (code layout, autotuner, caches, path length) is invisible to randomised orders. Stage two runs two
builds of each arm in every block, so the trials that confirm a change also measure what a rebuild alone does.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from perfguard.records import BlockValues
from perfguard.stats.effects import Flags, Floats, Series, weights
from perfguard.stats.equivalence import t_quantile

ALPHA = 0.025


@dataclass(frozen=True, kw_only=True)
class Placebo:
    """Build 2 against build 1 of each arm: distance in logs, and the half-width of its 97.5 % bounds."""

    base_difference: float
    head_difference: float
    half_width: float

    @property
    def largest(self) -> float:
        return max(self.base_difference, self.head_difference)


def second_builds(blocks: Sequence[BlockValues]) -> Flags:
    return np.array([[build == "2" for build in block.builds] for block in blocks], dtype=bool).reshape(-1, 4)


def has_two_builds(series: Series, is_second_Q4: Flags) -> bool:
    """Each arm ran both its builds in every block."""
    head_Q = (series.is_head & is_second_Q4).sum(axis=1)
    return bool((head_Q == 1).all() and (is_second_Q4.sum(axis=1) == 2).all())


def measure_placebo(series: Series, is_second_Q4: Flags) -> Placebo:
    """Weighted mean build difference of each arm over blocks, with one variance for both arms, 2 (q - 1) df.

    Needs two blocks of two builds an arm.
    """
    w_Q = weights(series.squares)
    base_Q = _differences(series, is_second_Q4, ~series.is_head)
    head_Q = _differences(series, is_second_Q4, series.is_head)
    means = [float(w_Q @ d_Q / w_Q.sum()) for d_Q in (base_Q, head_Q)]
    df = 2 * (len(w_Q) - 1)
    squares = sum(float(w_Q @ (d_Q - mean) ** 2) for d_Q, mean in zip((base_Q, head_Q), means, strict=True))
    half_width = t_quantile(ALPHA, df) * float(np.sqrt(squares / df / w_Q.sum()))
    return Placebo(base_difference=abs(means[0]), head_difference=abs(means[1]), half_width=half_width)


def _differences(series: Series, is_second_Q4: Flags, is_arm_Q4: Flags) -> Floats:
    signs_Q4 = np.where(is_second_Q4, 1.0, -1.0) * is_arm_Q4
    return np.asarray((series.logs * signs_Q4).sum(axis=1))


def tolerance(effect: float, margin: float) -> float:
    """Largest build difference that leaves a change of this size (logs) credible."""
    return max(margin, abs(effect) / 2)


def passes(placebo: Placebo, effect: float, margin: float) -> bool:
    """No arm's builds are seen to differ by more than the tolerance.

    The estimate decides and the bound is reported. To demand the bound within the tolerance would keep most true
    changes unreported wherever noise is not far below the margin (simulated at a launch sd of the margin: a change of
    2.5 margins reported in 35 % of cases instead of 99 %) and only halve the reports that build luck causes.
    """
    return placebo.largest <= tolerance(effect, margin)


def has_failed(placebo: Placebo, effect: float, margin: float) -> bool:
    """An arm's builds differ by more than the tolerance beyond their 97.5 % bound: more blocks will not mend it."""
    return placebo.largest - placebo.half_width > tolerance(effect, margin)
