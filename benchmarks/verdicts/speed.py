"""What the verdict engine costs: simulated comparisons, and the order test in time and memory.

    python -m benchmarks.verdicts.speed

Prints processor seconds of this machine, the best of some repetitions, since others may use it too. Half a minute.
The page of the calibration holds what `measure` found; no test checks it.
"""

import time
import tracemalloc
from collections.abc import Callable
from functools import partial

import numpy as np

from benchmarks.verdicts.engine import Simulated, simulate, simulate_several
from benchmarks.verdicts.scenarios import iid
from perfguard.policy import Policy
from perfguard.stats.design import rules_of
from perfguard.stats.effects import Series, series_of_logs
from perfguard.stats.order_test import order_p
from perfguard.stats.plan import HEAD_SLOTS

SD = 0.01
COMPARISONS = 1_000
REPETITIONS = 3
BLOCKS = (10, 14)
# The slowest of these is told: no change, a change that is found, one at the margin under more noise.
CASES = ((0.0, 0.01), (0.03, 0.01), (0.02, 0.02))


def measure(num: int = COMPARISONS) -> dict[str, float]:
    """Processor seconds of 1,000 comparisons in the slowest case; milliseconds and peak megabytes of an order test."""
    seconds = max(best_s(partial(one_metric, effect, sd, num), 1) for effect, sd in CASES)
    work = order_test(BLOCKS[0])
    return {
        "comparisons_s": seconds * COMPARISONS / num,
        "order_test_ms": 1000 * best_s(work),
        "order_test_mb": peak_bytes(work) / 1e6,
    }


def best_s(work: Callable[[], object], repetitions: int = REPETITIONS) -> float:
    """Processor seconds of the fastest of some runs."""
    times = []
    for _ in range(repetitions):
        begin = time.process_time()
        work()
        times.append(time.process_time() - begin)
    return min(times)


def peak_bytes(work: Callable[[], object]) -> int:
    """Most that was allocated at once; counted by tracemalloc, in a run of its own, since counting takes time."""
    tracemalloc.start()
    work()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def random_series(num_blocks: int) -> Series:
    """Noise without a difference: the order test then has no short way out."""
    rng = np.random.default_rng(1)
    heads = np.array([[slot in pair for slot in range(4)] for pair in HEAD_SLOTS])
    return series_of_logs(rng.normal(0.0, SD, (num_blocks, 4)), heads[rng.integers(0, 6, num_blocks)])


def one_metric(effect: float, sd: float, num: int) -> list[Simulated]:
    return simulate(rules_of(Policy(), 1), iid, effect=effect, sd=sd, num=num, seed=1)


def two_metrics() -> list[Simulated]:
    rules = rules_of(Policy(), 2)
    return simulate_several(rules, iid, effects=(0.0, 0.0), correlation=0.5, sd=SD, num=COMPARISONS, seed=1)


def order_test(num_blocks: int) -> Callable[[], float]:
    spreads = Policy().clip_spreads
    return partial(order_p, random_series(num_blocks), direction=1, credit=0.005, seed=0, clip_spreads=spreads)


def main() -> None:
    for effect, sd in CASES:
        seconds = best_s(partial(one_metric, effect, sd, COMPARISONS))
        print(f"{COMPARISONS:,} comparisons, head {100 * effect:g} % slower, sd {100 * sd:g} %: {seconds:.2f} s")
    print(f"{COMPARISONS:,} comparisons of two primary metrics, no change: {best_s(two_metrics):.2f} s")
    for num_blocks in BLOCKS:
        work = order_test(num_blocks)
        print(f"order test, {num_blocks} blocks: {1e3 * best_s(work):.1f} ms, {peak_bytes(work) / 1e6:.1f} MB at most")


if __name__ == "__main__":
    main()
