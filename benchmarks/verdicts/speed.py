"""How fast the decision code is on this machine, one core: measured for the page, checked by no test."""

import time
import tracemalloc
from collections.abc import Callable

import numpy as np

from benchmarks.verdicts.engine import simulate
from benchmarks.verdicts.scenarios import iid
from perfguard.policy import Policy
from perfguard.stats.design import rules_of
from perfguard.stats.effects import series_of_logs
from perfguard.stats.order_test import order_p
from perfguard.stats.plan import HEAD_SLOTS

COMPARISONS = 1000
CASES = ((0.0, 0.01), (0.03, 0.01), (0.02, 0.02))
BLOCKS = 10
REPEATS = 5


def measure(num: int = COMPARISONS) -> dict[str, float]:
    """Processor seconds of 1,000 comparisons in the slowest case; milliseconds and peak megabytes of an order test."""
    rules = rules_of(Policy(), 1)
    seconds = [_seconds(lambda e=e, sd=sd: simulate(rules, iid, effect=e, sd=sd, num=num, seed=1)) for e, sd in CASES]
    rng = np.random.default_rng(1)
    is_head = np.array([[slot in HEAD_SLOTS[n] for slot in range(4)] for n in rng.integers(0, 6, BLOCKS)])
    series = series_of_logs(rng.normal(0.0, 0.01, (BLOCKS, 4)), is_head)
    times = [_seconds(lambda: order_p(series, direction=1, credit=0.005, seed=0)) for _ in range(REPEATS)]
    tracemalloc.start()
    order_p(series, direction=1, credit=0.005, seed=0)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return {
        "comparisons_s": max(seconds) * COMPARISONS / num,
        "order_test_ms": 1000 * min(times),
        "order_test_mb": peak / 1e6,
    }


def _seconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start
