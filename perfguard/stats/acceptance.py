"""How often drafted tokens are accepted, position by position, and whether that looks like a draft that is wired wrong.

A draft that is merely weak loses agreement slowly from position to position. One that gets wrong inputs (tap layers,
token ids, positions) fails at the first already, whatever later positions do. Pure counts; judges no speed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Literal

# Two-sided 99 % limits of a rate: a finding withholds advice, so that it should not come of chance.
Z = 2.576
# Fewer cycles say too little of a rate.
MIN_TRIED = 30
# A first rate surely below this is collapsed: trained drafts have 0.5 to 0.8 there, those served with wrong taps or ids
# near 0 (an accept length of 1.00 where the right ones give 2.4).
COLLAPSED_RATE = 0.1
# Or one surely below this share of the rate of later positions, which a draft fed rightly never shows: they rest on
# the draft's own guesses, the first on the target's features.
COLLAPSED_SHARE = 0.5

Wiring = Literal["good", "collapsed", "unknown"]


@dataclass(frozen=True, kw_only=True)
class Rate:
    """Of `tried` drafted tokens at a position (those before it were accepted) `accepted` were; limits by Wilson."""

    position: int
    tried: int
    accepted: int

    @property
    def rate(self) -> float:
        return self.accepted / self.tried if self.tried else 0.0

    @property
    def low(self) -> float:
        return wilson(self.accepted, self.tried)[0]

    @property
    def high(self) -> float:
        return wilson(self.accepted, self.tried)[1]


def wilson(accepted: int, tried: int) -> tuple[float, float]:
    """Limits of a rate (E. B. Wilson, "Probable inference", JASA 22, 1927); (0, 1) where nothing was tried."""
    if not tried:
        return 0.0, 1.0
    share, z2 = accepted / tried, Z * Z / tried
    middle, reach = share + z2 / 2, Z * sqrt(share * (1 - share) / tried + z2 / (4 * tried))
    return max(0.0, (middle - reach) / (1 + z2)), min(1.0, (middle + reach) / (1 + z2))


def rates_by_position(cycles: int, accepted: Sequence[int]) -> tuple[Rate, ...]:
    """`accepted[i]`: in how many of `cycles` the token drafted at position i + 1 was accepted, with all before it.

    Raises ValueError where no cycle could have given such counts.
    """
    before = [cycles, *accepted[:-1]] if accepted else []
    if any(now > earlier or now < 0 for earlier, now in zip(before, accepted, strict=True)):
        raise ValueError(f"{list(accepted)} accepted by position do not descend from {cycles} cycles")
    pairs = zip(before, accepted, strict=True)
    return tuple(Rate(position=i, tried=tried, accepted=now) for i, (tried, now) in enumerate(pairs, start=1))


def wiring(rates: Sequence[Rate]) -> Wiring:
    """ "collapsed": the first position fails by itself. "unknown": too few cycles."""
    if not rates or rates[0].tried < MIN_TRIED:
        return "unknown"
    later_tried = sum(rate.tried for rate in rates[1:])
    later_low, _ = wilson(sum(rate.accepted for rate in rates[1:]), later_tried)
    is_far_below = later_tried >= MIN_TRIED and rates[0].high < COLLAPSED_SHARE * later_low
    return "collapsed" if rates[0].high < COLLAPSED_RATE or is_far_below else "good"


def accept_length(rates: Sequence[float]) -> float:
    """Tokens a cycle emits, bonus included: 1 + r1 + r1 r2 + …, `rates` given that all before were accepted."""
    length, reached = 1.0, 1.0
    for rate in rates:
        reached *= rate
        length += reached
    return length
