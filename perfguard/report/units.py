"""The only place that formats numbers with units. Inside perfguard: seconds, bytes, ratios."""

import math
from dataclasses import dataclass

from perfguard import changes

MISSING = "–"
# From here on powers of ten are read more easily than digits; an unscaled count of bytes stays below.
LONG = 1e16

_SECONDS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))
_BYTES = ((2.0**40, "TiB"), (2.0**30, "GiB"), (2.0**20, "MiB"), (2.0**10, "KiB"), (1.0, "B"))


@dataclass(frozen=True, kw_only=True)
class Scale:
    """What a value is divided by to be shown with `symbol` behind it."""

    divisor: float
    symbol: str


def scale(unit: str, magnitude: float) -> Scale:
    """A scale at which a value of this magnitude reads well. One scale serves a whole row, so that it compares."""
    steps = {"s": _SECONDS, "bytes": _BYTES, "byte": _BYTES, "B": _BYTES}.get(unit)
    if steps is None:
        return Scale(divisor=1.0, symbol="" if unit == "1" else unit)
    fitting = [step for step in steps if abs(magnitude) >= step[0]]
    divisor, symbol = fitting[0] if fitting else (steps[0] if magnitude == 0 else steps[-1])
    return Scale(divisor=divisor, symbol=symbol)


def number(value: float | None, digits: int = 4) -> str:
    """`digits` significant digits, thousands grouped: 12,345; 1.233; 0.0005."""
    if value is None:
        return MISSING
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    if not 1e-4 <= abs(value) < 1e15:
        return f"{value:.{digits - 1}e}"
    # Rounding first: 9.9996 has five digits less one decimal than its logarithm says.
    exponent = math.floor(math.log10(abs(float(f"{value:.{digits - 1}e}"))))
    return f"{value:,.{max(0, digits - 1 - exponent)}f}"


def value(amount: float | None, unit: str) -> str:
    """1.233 ms, 82.10 token/s, 1.500 GiB, 15 B; a number alone for unit "1"."""
    if amount is None:
        return MISSING
    chosen = scale(unit, amount)
    shown = exact(amount) if chosen.symbol == "B" else number(amount / chosen.divisor)
    return f"{shown} {chosen.symbol}".rstrip()


def exact(amount: float | None) -> str:
    """Every digit, for what is compared by equality: two numbers that differ never look the same."""
    if amount is None:
        return MISSING
    return f"{int(amount):,}" if float(amount).is_integer() and abs(amount) < LONG else repr(float(amount))


def told_apart(base: float | None, head: float | None) -> tuple[str, str]:
    """Two exact numbers as short as six digits go, in full where those would make them look the same."""
    if base is None or head is None:
        return exact(base), exact(head)
    short = tuple(exact(float(f"{amount:.6g}")) if abs(amount) < 1e6 else exact(amount) for amount in (base, head))
    return (exact(base), exact(head)) if base != head and short[0] == short[1] else (short[0], short[1])


def slowdown(ratio: float | None) -> str:
    """1.031 is "+3.1 %". Two decimals below one percent, where launch noise of a good machine lies."""
    return MISSING if ratio is None else changes.signed(ratio)


def interval(low: float | None, high: float | None) -> str:
    """+2.7 to +3.5 %; a bound that could not be computed is missing."""
    if low is None or high is None:
        return MISSING
    return changes.interval(low, high)


def share(part: float | None) -> str:
    """0.02 is "2 %"."""
    return MISSING if part is None else f"{part * 100:.3g} %"


def probability(p: float | None) -> str:
    return MISSING if p is None else f"{p:.2g}"


def moment(utc: str) -> str:
    """2026-11-30 09:54 UTC, of a time as it is stored."""
    return f"{utc[:16].replace('T', ' ')} UTC" if utc.endswith(("+00:00", "Z")) else utc


def counted(number: int, noun: str) -> str:
    """`1 commit`, `2 commits`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def duration(seconds: float) -> str:
    """8 s, 3 min 20 s, 2 h 5 min."""
    whole = round(seconds)
    if whole < 60:
        return f"{seconds:.2g} s" if seconds < 9.5 else f"{whole} s"
    if whole < 3600:
        minutes, rest = divmod(whole, 60)
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes} min" if minutes else f"{hours} h"
