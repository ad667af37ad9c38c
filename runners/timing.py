"""Clock, warm-up rule, and the quiet in which loops are timed. Must not decide what is run, only what is kept of it.

The warm-up is found in the data: MSER-5 (K. P. White, M. J. Cobb, S. C. Spratt, "A comparison of five steady-state
truncation heuristics for simulation", Winter Simulation Conference 2000) on medians of five iterations instead of
their means, so that single spikes decide nothing. Whether the rest is steady is asked apart, by the rank test for
trend of H. B. Mann, "Nonparametric tests against trend", Econometrica 13, 1945.
Standard library only.
"""

import gc
import math
import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

clock = time.perf_counter  # monotonic, seconds

BATCH = 5  # iterations; the 5 of MSER-5
# Fewer batches leave no room to tell a start from noise; the series is then kept whole and `found` is false.
MIN_BATCHES = 10
# A series is unsettled where its trend is both clear (one false alarm in about 370 steady series without
# autocorrelation) and large enough to matter: the halves of what is kept differ by more than 1 %.
TREND_Z = 3.0
TREND_SIZE = 0.01


@dataclass(frozen=True, kw_only=True)
class Warmup:
    """`discarded` of `iterations` at the start are left out. `found`: what follows is steady.

    Where nothing steady is found, the first half is left out: what remains is nearest to it.
    """

    iterations: int
    discarded: int
    found: bool


def find_warmup(times_s: Sequence[float]) -> Warmup:
    """Where the steady part of a series of iteration times begins; never beyond its half."""
    medians = batch_medians(times_s)
    if len(medians) < MIN_BATCHES:
        return Warmup(iterations=len(times_s), discarded=0, found=False)
    half = len(medians) // 2
    errors = marginal_errors(medians)[: half + 1]
    start = errors.index(min(errors))
    found = is_steady(medians[start:])
    start = start if found else half
    return Warmup(iterations=len(times_s), discarded=start * BATCH, found=found)


def batch_medians(times_s: Sequence[float]) -> list[float]:
    """Medians of consecutive batches of five; an incomplete last batch is not judged."""
    whole = len(times_s) - len(times_s) % BATCH
    return [statistics.median(times_s[start : start + BATCH]) for start in range(0, whole, BATCH)]


def marginal_errors(values: Sequence[float]) -> list[float]:
    """MSER(d) = sum over i >= d of (x_i - mean_d)^2, divided by (n - d)^2, for each start d < n."""
    level = statistics.median(values)
    shifted = [value - level for value in values]  # exact zeros for a constant series
    errors = []
    for start in range(len(shifted)):
        rest = shifted[start:]
        mean = math.fsum(rest) / len(rest)
        errors.append(math.fsum((value - mean) ** 2 for value in rest) / len(rest) ** 2)
    return errors


def is_steady(values: Sequence[float]) -> bool:
    """No trend that is both clear (Mann's test, |z| <= TREND_Z) and material (halves within TREND_SIZE)."""
    half = len(values) // 2
    first, last = statistics.median(values[:half]), statistics.median(values[-half:])
    if abs(last - first) <= TREND_SIZE * abs(first):
        return True
    return abs(trend_z(values)) <= TREND_Z


def trend_z(values: Sequence[float]) -> float:
    """Mann's S (pairs that rise minus pairs that fall) over its standard deviation without ties."""
    n = len(values)
    pairs = ((values[i], values[j]) for i in range(n) for j in range(i + 1, n))
    score = sum((later > earlier) - (later < earlier) for earlier, later in pairs)
    return score / math.sqrt(n * (n - 1) * (2 * n + 5) / 18)


def end_of_step(begin_s: float, slowdown: float = 1.0) -> float:
    """The time now; with a planted slowdown, once the step has taken that many times as long as it did by itself.

    Busy until then, as slow code would be: a process that sleeps lets clocks and caches rest.
    """
    now = clock()
    if slowdown > 1.0:
        until = begin_s + slowdown * (now - begin_s)
        while now < until:
            now = clock()
    return now


def batches(prompts: Sequence[list[int]], size: int) -> list[Sequence[list[int]]]:
    """Prompts that are decoded together, in their order."""
    return [prompts[start : start + size] for start in range(0, len(prompts), size)]


@contextmanager
def quiet() -> Iterator[None]:
    """No garbage collection inside: a collection is a pause of the harness, not of the subject."""
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.unfreeze()
