"""Was the wall clock set, did the machine sleep? From the three clocks of two readings of a host. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass

from perfguard.machine.reading import Reading, unknown

CLOCKS = ("wall_s", "monotonic_s", "boottime_s")
MISSING = unknown("error", "not read")


@dataclass(frozen=True, kw_only=True)
class TimeJump:
    """Between two readings: how far the wall clock was moved (either way), how long the machine slept."""

    wall_s: float
    slept_s: float


def time_jump(before: Mapping[str, Reading], after: Mapping[str, Reading]) -> TimeJump | None:
    """None where a clock is not known. The boot-time clock runs on while the machine sleeps, the monotonic does not."""
    early, late = ([readings.get(name, MISSING).value for name in CLOCKS] for readings in (before, after))
    passed = [
        b - a for a, b in zip(early, late, strict=True) if isinstance(a, int | float) and isinstance(b, int | float)
    ]
    if len(passed) < len(CLOCKS):
        return None
    wall, monotonic, boottime = passed
    return TimeJump(wall_s=wall - boottime, slept_s=boottime - monotonic)
