"""Which clock to lock, and whether a lock was held: pure rules.

A lock is a request: the driver says yes to clocks that the power limit does not allow under load. So a rule that aims
high must be checked against what was seen while a trial ran. Must not speak to NVML.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from perfguard.machine.samples import Sample, time_quantile, within

# Before a calibration has found better: below what a card reaches in short bursts, low enough that no common decode
# loop meets the power limit, and no further.
CAUTIOUS_SHARE = 0.75
# Sensors show the clock in steps of 15 MHz; one step beside the lock is no loss.
STEP_MHZ = 15
# A lock holds if the clock was there for this share of the loaded time: the rest is ramps at both ends.
HELD_SHARE = 0.95
# The search begins where the unlocked card spent nearly all of its loaded time at least.
LOW_QUANTILE = 0.05


@dataclass(frozen=True, kw_only=True)
class LoadedClock:
    """SM clock of one card over the loaded part of a launch. `low_mhz`: it was above that for 95 % of the time."""

    low_mhz: float
    held_share: float


def nearest_supported(supported: Sequence[int], asked_mhz: float) -> int | None:
    """The highest supported clock at or below the one asked for; the lowest where all are above. None without any."""
    below = [clock for clock in supported if clock <= asked_mhz]
    return max(below) if below else min(supported, default=None)


def cautious_clock(supported: Sequence[int]) -> int | None:
    """What is locked where no calibration has searched: the highest supported at or below 75 % of the maximum."""
    return nearest_supported(supported, CAUTIOUS_SHARE * max(supported, default=0))


def loaded_clock(
    samples: Sequence[Sample], from_s: float, until_s: float, locked_mhz: int | None = None
) -> LoadedClock | None:
    """`samples`: collapsed (time, MHz) of a launch that was under load in [from_s, until_s). None if nothing was seen.

    `held_share`: of that time, the share within a step of `locked_mhz`, or above it.
    """
    seen = within(samples, from_s, until_s)
    low = time_quantile(seen, until_s, LOW_QUANTILE)
    if low is None:
        return None
    marks = [(time_s, float(is_number(mhz) and mhz >= (locked_mhz or 0) - STEP_MHZ)) for time_s, mhz in seen]
    ends = [time_s for time_s, _ in marks[1:]] + [until_s]
    held_s = sum((end - time_s) * mark for (time_s, mark), end in zip(marks, ends, strict=True))
    return LoadedClock(low_mhz=low, held_share=held_s / (until_s - marks[0][0]))


def is_number(value: object) -> bool:
    return isinstance(value, int | float)


def next_candidate(supported: Sequence[int], locked_mhz: int | None, seen: Sequence[LoadedClock]) -> int | None:
    """The clock to try next in a search for the highest that is held; None when `locked_mhz` is that clock.

    `seen`: every card, unlocked (`locked_mhz` None) or under the lock tried last. All cards get one clock: the slowest
    decides, since ranks wait for each other.
    """
    if not seen or not supported:
        return None
    if locked_mhz is not None and all(card.held_share >= HELD_SHARE for card in seen):
        return None
    low = nearest_supported(supported, min(card.low_mhz for card in seen))
    if locked_mhz is None or low is None or low < locked_mhz:
        return low
    return nearest_supported(supported, locked_mhz - STEP_MHZ)
