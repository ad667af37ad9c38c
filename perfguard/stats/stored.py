"""Is the difference between two stored sets of launches larger than launch noise? It can raise a suspicion, no more.

The sets were not measured interleaved: drift between them is not in this noise, so "larger" convicts nobody.
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

# A difference of 3 standard deviations; the same two-sided probability (0.27 %) of Student's t where the deviation
# comes from the few launches themselves.
SIGMAS = 3.0
MIN_DEGREES = 2


@dataclass(frozen=True, kw_only=True)
class StoredChange:
    """`change`: difference of the mean logarithms, b less a. `noise`: standard deviation of ln(value) between launches.

    `tolerance`: what noise alone may make of `change`; both None, and `is_larger` too, where noise is not known.
    `basis`: "history" (other campaigns of this machine) or "launches" (these themselves), "" where neither tells.
    """

    change: float
    noise: float | None
    tolerance: float | None
    basis: str

    @property
    def is_larger(self) -> bool | None:
        return None if self.tolerance is None else abs(self.change) > self.tolerance


def judge_stored(a: Sequence[float], b: Sequence[float], history: float | None = None) -> StoredChange:
    """`a`, `b`: positive values, one a launch, at least one each. `history`: launch noise from elsewhere, if any."""
    logs_a, logs_b = [math.log(value) for value in a], [math.log(value) for value in b]
    change = statistics.fmean(logs_b) - statistics.fmean(logs_a)
    spread = math.sqrt(1 / len(a) + 1 / len(b))
    degrees = len(a) + len(b) - 2
    if history is not None:
        return StoredChange(change=change, noise=history, tolerance=SIGMAS * history * spread, basis="history")
    if degrees < MIN_DEGREES:
        return StoredChange(change=change, noise=None, tolerance=None, basis="")
    squares = sum((x - statistics.fmean(logs)) ** 2 for logs in (logs_a, logs_b) for x in logs)
    noise = math.sqrt(squares / degrees)
    return StoredChange(
        change=change, noise=noise, tolerance=_same_quantile(degrees) * noise * spread, basis="launches"
    )


def _same_quantile(degrees: int) -> float:
    """Of Student's t, with as much beyond it as a normal deviate has beyond SIGMAS."""
    from scipy import special  # here: most commands need no quantile, and it takes 0.2 s (scipy.stats a second)

    return float(-special.stdtrit(degrees, special.ndtr(-SIGMAS)))
