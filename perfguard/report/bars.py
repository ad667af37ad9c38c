"""Numbers as a line of block characters, one a column, for whatever plots in a terminal. Pure."""

from collections.abc import Iterable

LEVELS = "▁▂▃▄▅▆▇█"


def bars(values: Iterable[float | None], low: float, high: float) -> str:
    """Eight equal steps from `low` to `high`, the middle one where these are the same; None is a gap."""
    return "".join(" " if value is None else LEVELS[_level(value, low, high)] for value in values)


def _level(value: float, low: float, high: float) -> int:
    count = len(LEVELS)
    return count // 2 if low == high else min(count - 1, int((value - low) / (high - low) * count))
