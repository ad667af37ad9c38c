"""A claimed number against what is measured now. Pure. It retires a number; it never accuses a commit."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

# A launch within this many standard deviations of launch noise, or within the margin, gives the claimed number.
SIGMAS = 3.0


@dataclass(frozen=True, kw_only=True)
class Claim:
    """`noise`: standard deviation of ln(value) between launches. `distances`: ln(measured / claimed) by launch."""

    claimed: float
    distances: tuple[float, ...]
    tolerance: float
    noise: float | None

    @property
    def is_reproduced(self) -> bool:
        """One launch that gives the number is enough: a number is retired only if no launch gives it."""
        return any(abs(distance) <= self.tolerance for distance in self.distances)


def judge_claim(values: Sequence[float], claimed: float, *, noise: float | None, margin: float) -> Claim:
    """`values`: one positive number a launch. `noise` None: unknown, so only the margin counts."""
    tolerance = max(math.log1p(margin), SIGMAS * (noise or 0.0))
    distances = tuple(math.log(value / claimed) for value in values)
    return Claim(claimed=claimed, distances=distances, tolerance=tolerance, noise=noise)
