"""The placebo inside stage two: do two builds of the same code differ? Never looks at head against base.

Per-build luck (code layout, autotuner, caches, path length) is invisible to randomised orders as long as an arm keeps
its build. Stage two therefore runs fresh builds. Where there are many, each trial has its own and luck is noise like
any other. Where builds are dear, one pair of each arm serves all blocks, and the trials that confirm a change also
measure what a rebuild alone does: the placebo.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from perfguard.records import BlockValues
from perfguard.stats.effects import Flags, Floats, Numbers, Series, weights
from perfguard.stats.equivalence import t_quantile
from perfguard.stats.plan import builds_of

ALPHA = 0.025
# Standard deviation of a trial with a build of its own, as a share of the margin: luck of less makes no suspicion.
MATERIAL = 1 / 3


@dataclass(frozen=True, kw_only=True)
class Placebo:
    """The two builds of each arm against each other: distance in logs, and the half-width of its 97.5 % bounds."""

    base_difference: float
    head_difference: float
    half_width: float

    @property
    def largest(self) -> float:
        return max(self.base_difference, self.head_difference)


def fresh_builds_differ(suspected: Series, fresh: Series, alpha: float, margin: float) -> bool:
    """Whether two trials of an arm in one block differ more in `fresh`, each with a build of its own, than in
    `suspected`, where they have the same: a one-sided F test on the mean squares of their differences. And by enough
    that luck of a build could be a change beyond the margin (logs).

    Blind to which arm is slower. Sees nothing where both builds of an arm are fast, and both of the other slow.
    """
    from scipy import special  # here: most commands judge no confirmation, and it takes 0.2 s

    (squares, num), (squares_one, num_one) = _pairs(fresh), _pairs(suspected)
    # A difference of two trials has twice the variance of one.
    if alpha == 0 or squares / num / 2 <= (MATERIAL * margin) ** 2:
        return False
    # Survival function of F(num, num_one) at f: the upper tail of its cumulative distribution.
    return squares_one == 0 or bool(special.fdtrc(num, num_one, squares / num / (squares_one / num_one)) <= alpha)


def _pairs(series: Series) -> tuple[float, int]:
    """Sum of squared differences between the two trials of each arm in each block, and how many there are."""
    pairs_P2 = np.concatenate([series.logs[is_arm].reshape(-1, 2) for is_arm in (series.is_head, ~series.is_head)])
    return float(np.square(pairs_P2[:, 0] - pairs_P2[:, 1]).sum()), len(pairs_P2)


def build_numbers(blocks: Sequence[BlockValues]) -> Numbers:
    """(Q, 4): the build that each slot ran."""
    return np.array([builds_of(block.builds) for block in blocks], dtype=np.int64).reshape(-1, 4)


def has_one_pair(series: Series, builds_Q4: Numbers) -> bool:
    """Each arm ran the same two builds in every block, so that they can be compared."""
    pairs = [np.sort(builds_Q4[is_arm].reshape(-1, 2), axis=1) for is_arm in (series.is_head, ~series.is_head)]
    return all(bool((pair == pair[0]).all() and pair[0, 0] != pair[0, 1]) for pair in pairs)


def num_fresh_builds(series: Series, builds_Q4: Numbers) -> int:
    """Different builds of the arm that had fewer; 1 means nothing is known of rebuilds."""
    return min(len(np.unique(builds_Q4[is_arm])) for is_arm in (series.is_head, ~series.is_head))


def measure_placebo(series: Series, builds_Q4: Numbers) -> Placebo:
    """Weighted mean build difference of each arm over blocks, with one variance for both arms, 2 (q - 1) df.

    Needs two blocks in which each arm ran the same two builds.
    """
    last_of_head, last_of_base = builds_Q4[series.is_head].max(), builds_Q4[~series.is_head].max()
    is_second_Q4 = builds_Q4 == np.where(series.is_head, last_of_head, last_of_base)
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
