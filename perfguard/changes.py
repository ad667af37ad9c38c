"""How a change is written, everywhere: as the slowdown of head against base, in percent with its sign. Pure.

Whatever the metric and whichever way is better, + is slower (or worse) and - is faster (or better), so that a sentence
and the table below it show the same number.
"""

LEGEND = "A slowdown is of head against base: + is slower (worse), - is faster (better)."


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
