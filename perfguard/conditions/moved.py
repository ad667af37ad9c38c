"""Has the machine itself moved? A step in the history of one of its own readings, told from spikes and creep. Pure.

False alarms: where the machine did not change, so that its readings could have come in any order, a test alarms with
probability at most ALPHA, whatever their distribution (exact rank test of the newest three against what came
before); the band makes it rarer. Readings that wander slowly are not exchangeable and alarm more often. The newest
reading alone never alarms, nor do two.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import log
from statistics import median

from perfguard.stats.rank_test import rank_sum_p

ALPHA = 0.01
NEWEST = 3
# The least number of earlier readings that three newer ones can be told from at ALPHA: 2 / C(12, 3) = 0.0091.
MIN_EARLIER = 9
# More are not looked at: a machine is compared with its recent self.
MAX_EARLIER = 30
# Robust standard deviations (1.4826 median absolute deviations) that every one of the newest must be away.
BAND = 4.0
# Smaller steps concern nobody, and constant readings have no spread to measure by.
MIN_CHANGE = 0.01
MAD_TO_SD = 1.4826


@dataclass(frozen=True, kw_only=True)
class Step:
    """A step between two readings. `index`: the first reading after it; `seen_at`: the one that made it certain.

    `before`, `after`: medians, in the reading's unit. `p`: the rank test's.
    """

    index: int
    seen_at: int
    before: float
    after: float
    p: float

    @property
    def change(self) -> float:
        """0.07 is seven percent more."""
        return self.after / self.before - 1


def steps(values: Sequence[float]) -> list[Step]:
    """All steps in the order they became certain; after one the history begins anew. `values`: positive, in time."""
    found: list[Step] = []
    start = 0
    for newest in range(len(values)):
        step = _step(values, start, newest)
        if step is not None:
            found.append(step)
            start = step.index
    return found


def step_now(values: Sequence[float]) -> Step | None:
    """The step that the newest reading made certain; None if there is none, or if it was certain before."""
    found = steps(values)
    return found[-1] if found and found[-1].seen_at == len(values) - 1 else None


def _step(values: Sequence[float], start: int, newest: int) -> Step | None:
    first = newest - NEWEST + 1
    earlier, late = values[max(start, first - MAX_EARLIER) : max(start, first)], values[first : newest + 1]
    if len(earlier) < MIN_EARLIER:
        return None
    if not _is_outside(earlier, late) or (p := rank_sum_p(earlier, late)) > ALPHA:
        return None
    return Step(index=first, seen_at=newest, before=median(earlier), after=median(late), p=p)


def _is_outside(earlier: Sequence[float], late: Sequence[float]) -> bool:
    """All of the newest on one side, each beyond the band of what came before; in logs, up and down alike."""
    logs, middle = [log(value) for value in earlier], log(median(earlier))
    spread = MAD_TO_SD * median(abs(one - middle) for one in logs)
    band = max(BAND * spread, log(1 + MIN_CHANGE))
    offs = [log(value) - middle for value in late]
    return all(off > band for off in offs) or all(off < -band for off in offs)
