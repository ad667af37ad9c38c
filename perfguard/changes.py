"""How a change is written, everywhere: as the slowdown of head against base, in percent with its sign. Pure.

Whatever the metric and whichever way is better, + is slower (or worse) and - is faster (or better), so that a sentence
and the table below it show the same number.
"""

from collections.abc import Mapping
from typing import Any

LEGEND = "A slowdown is of head against base: + is slower (worse), - is faster (better)."
VISIBLE = 0.005  # a table shows a digit behind the point of a percent
OTHERWISE = "It is taken within blocks; base and head are medians of all launches, which may point the other way."


def slowdown(before: float, after: float, better: str) -> float:
    """Of two levels, both above 0: 1.05 is 5 % slower (or worse), whichever way is `better` ("lower", "higher")."""
    return after / before if better == "lower" else before / after


def signed(ratio: float) -> str:
    """1.031 is "+3.1 %". Two decimals below one percent, where launch noise of a good machine lies."""
    return f"{_percent(ratio)} %"


def interval(low: float, high: float) -> str:
    """ "+2.7 to +3.5 %"."""
    return f"{_percent(low)} to {_percent(high)} %"


def _percent(ratio: float) -> str:
    change = (ratio - 1) * 100
    rounded = round(change, 1 if abs(change) >= 0.995 else 2)
    decimals = 1 if abs(rounded) >= 1 else 2
    return f"{rounded:+.{decimals}f}" if rounded else "0.00"


def points_otherwise(metric: Mapping[str, Any]) -> bool:
    """Whether medians of a metric of a comparison visibly differ in the other direction than its slowdown says."""
    found, base, head = (metric.get(name) for name in ("slowdown", "base_median", "head_median"))
    if not found or not base or not head:
        return False
    found, by_medians = float(found), slowdown(base, head, metric["better"])
    return (found - 1) * (by_medians - 1) < 0 and min(abs(found - 1), abs(by_medians - 1)) >= VISIBLE
