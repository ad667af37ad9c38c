"""Launch lottery: code that is fast in most launches and slow in some. The mean hides it, weights bury it.

Finds two modes among launches and counts them by arm. Decides no change; it only withholds EQUIVALENT.
"""

from dataclasses import dataclass
from math import ceil, log

import numpy as np

from perfguard.stats.effects import Floats, Series

# The gap between the modes in standard deviations of the fast one. At 4, noise of half the margin without any modes
# is taken for a lottery in 4 % of cases after two blocks and in 1 % from four on (2,000 simulated each), and withholds
# EQUIVALENT in fewer than 1 %.
GAP_IN_SDS = 4.0
CONFIDENCE_MISS = 0.05


@dataclass(frozen=True, kw_only=True)
class Lottery:
    """Two modes of launches. `gap` is the log distance of their centres; counts are launches by arm."""

    gap: float
    num_base: int
    num_slow_base: int
    num_head: int
    num_slow_head: int


@dataclass(frozen=True, kw_only=True)
class Modes:
    """Two modes among launches of one and the same code; `gap` is the log distance of their centres."""

    gap: float
    num_launches: int
    num_slow: int


def find_modes(logs_Q4: Floats, margin: float) -> Modes | None:
    """The lottery test on launches of one arm: modes further apart than the margin (log), else None."""
    excess = _excess(logs_Q4)
    split = _split(np.sort(excess), margin)
    if split is None:
        return None
    gap, threshold = split
    return Modes(gap=gap, num_launches=excess.size, num_slow=int((excess > threshold).sum()))


def _excess(logs_Q4: Floats) -> Floats:
    """Each launch against the mean of the two fastest of its block, so that drift between blocks drops out."""
    fastest_Q2 = np.sort(logs_Q4, axis=1)[:, :2]
    excess: Floats = (logs_Q4 - fastest_Q2.mean(axis=1, keepdims=True)).ravel()
    return excess


def find_lottery(series: Series, margin: float) -> Lottery | None:
    """Modes further apart than the margin (log), of which at least one arm shows both; else None."""
    excess = _excess(series.logs)
    split = _split(np.sort(excess), margin)
    if split is None:
        return None
    gap, threshold = split
    is_slow, is_head = excess > threshold, series.is_head.ravel()
    lottery = Lottery(
        gap=gap,
        num_base=int((~is_head).sum()),
        num_slow_base=int((is_slow & ~is_head).sum()),
        num_head=int(is_head.sum()),
        num_slow_head=int((is_slow & is_head).sum()),
    )
    return lottery if _shows_both_modes(lottery) else None


def _split(excess: Floats, margin: float) -> tuple[float, float] | None:
    """(distance of the centres, threshold) of the widest valid split of sorted values; the fast mode is the larger."""
    best: tuple[float, float, float] | None = None
    for num_fast in range(len(excess) // 2, len(excess)):
        fast, slow = excess[:num_fast], excess[num_fast:]
        jump, gap = float(slow[0] - fast[-1]), float(slow.mean() - fast.mean())
        is_clear = gap > margin and jump > GAP_IN_SDS * float(fast.std(ddof=1))
        if is_clear and (best is None or jump > best[0]):
            best = (jump, gap, float(fast[-1] + slow[0]) / 2)
    return None if best is None else best[1:]


def _shows_both_modes(lottery: Lottery) -> bool:
    """All of head slow and none of base is a slowdown, not a lottery."""
    return 0 < lottery.num_slow_base < lottery.num_base or 0 < lottery.num_slow_head < lottery.num_head


def is_open(lottery: Lottery | None) -> bool:
    """Head shows slow launches and base does not: EQUIVALENT cannot be said."""
    return lottery is not None and lottery.num_slow_head > 0 and lottery.num_slow_base == 0


def slow_rate_not_excluded(num_clean: int) -> float:
    """Largest rate of slow launches that so many clean launches leave possible at 95 %: 1 - 0.05^(1/n)."""
    return float(1.0 - CONFIDENCE_MISS ** (1.0 / num_clean))


def launches_to_exclude(slow_rate: float) -> int:
    """Clean launches needed to exclude this rate of slow launches at 95 %; 0 if none is asked for."""
    return ceil(log(CONFIDENCE_MISS) / log(1.0 - slow_rate)) if slow_rate > 0 else 0
