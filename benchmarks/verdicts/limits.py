"""Confidence limits of simulated rates and means, and how they are shown. Pure."""

import numpy as np
from scipy import special

from benchmarks.verdicts.cells import Tally

CONFIDENCE = 0.95
NORMAL = 1.96


def clopper_pearson(count: int, num: int) -> tuple[float, float]:
    """Two-sided 95 % limits of a rate seen `count` times in `num` (C. Clopper, E. Pearson, Biometrika 26, 1934)."""
    tail = (1 - CONFIDENCE) / 2
    low = 0.0 if count == 0 else float(special.betaincinv(count, num - count + 1, tail))
    high = 1.0 if count == num else float(special.betaincinv(count + 1, num - count, 1 - tail))
    return low, high


def limits(tally: Tally, *outcomes: str) -> tuple[float, float]:
    """Limits of the rate of these outcomes, in percent."""
    low, high = clopper_pearson(tally.count(*outcomes), tally.num)
    return 100 * low, 100 * high


def rate(tally: Tally, *outcomes: str) -> str:
    """A rate in percent with its limits; for no case at all the upper limit alone."""
    low, high = limits(tally, *outcomes)
    if not tally.count(*outcomes):
        return f"0 (< {high:.2g})"
    return f"{_percent(tally.percent(*outcomes))} ({_percent(low)}–{_percent(high)})"


def trials(tally: Tally) -> str:
    """Mean trials with the half width of their 95 % interval."""
    return f"{tally.mean_trials:.1f} ± {NORMAL * tally.trials_error:.1f}"


def _percent(value: float) -> str:
    """Two digits that count, three from 10 % on."""
    return (
        f"{value:.1f}".removesuffix(".0")
        if value >= 10
        else f"{float(np.format_float_positional(value, 2, fractional=False)):g}"
    )
