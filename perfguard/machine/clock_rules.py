"""Which clock to lock, and whether a lock was held: pure rules.

A lock is a request: the driver says yes to clocks that the power limit does not allow under load. So a rule that aims
high must be checked against what was seen while a trial ran. Must not speak to NVML.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from perfguard.machine.samples import Sample, time_quantile, within

# Before a calibration has found better: below what a card reaches in short bursts, low enough that no common decode
# loop meets the power limit, and no further.
CAUTIOUS_SHARE = 0.75
# Sensors show the clock in steps of 15 MHz; one step beside the lock is no loss.
STEP_MHZ = 15
# A lock holds if the clock was there for this share of the loaded time: the rest is ramps at both ends.
HELD_SHARE = 0.95
# A card that works at all is near 100 %; starting and loading stay well below.
BUSY_PERCENT = 50
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


def busy_span(utilisation: Sequence[Sample], until_s: float) -> tuple[float, float]:
    """From the first to the last moment at which the card was busy; (0, until_s) where that is not known.

    `utilisation`: collapsed (time, percent), 0 where the measured part begins.
    """
    ends = [time_s for time_s, _ in utilisation[1:]] + [until_s]
    busy = [
        (max(0.0, time_s), end)
        for (time_s, percent), end in zip(utilisation, ends, strict=True)
        if is_number(percent) and percent >= BUSY_PERCENT and end > 0
    ]
    return (busy[0][0], busy[-1][1]) if busy else (0.0, until_s)


def is_number(value: object) -> bool:
    return isinstance(value, int | float)


def next_candidate(locked_mhz: float, seen: Sequence[LoadedClock]) -> float | None:
    """The clock to try next in a search for the highest that is held; None when `locked_mhz` is that clock.

    `seen`: every card under the lock tried last. All cards get one clock: the slowest decides, since ranks wait for
    each other.
    """
    if all(card.held_share >= HELD_SHARE for card in seen):
        return None
    return min(min(card.low_mhz for card in seen), locked_mhz - STEP_MHZ)


def clocks_of_launch(conditions: Mapping[str, Any], locked_mhz: int | None) -> list[LoadedClock]:
    """What each card's SM clock was while it was busy. `conditions`: of one trial; cards not seen are left out."""
    found = []
    for card in conditions.get("gpus", {}).values():
        during = card.get("during")
        if during is None:
            continue
        fields, until_s = during["fields"], during["until_s"]
        span = busy_span(fields["utilisation_percent"], until_s)
        found.append(loaded_clock(fields["sm_clock_mhz"], *span, locked_mhz))
    return [clock for clock in found if clock is not None]
