"""Other tools' bisects on the same simulated machines: their rule for "which way", nothing else of them.

Rules and defaults as read in their sources. Each takes `run(position)`, which gives the log time of one launch, and
the number of candidates. git-bayesect is its own code, if it is installed in this environment.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from scipy import stats

MAX_TRIALS = 300
MAX_ATTEMPTS = 160
# Pinpoint, `thresholds.py`: below LOW two samples differ; above the high threshold for their size they are the same.
LOW = 0.01
HIGH = {10: 0.5708, 20: 0.0859, 40: 0.0032, 80: 0.0032, 160: 0.0032}

Run = Callable[[int], float]


@dataclass(kw_only=True)
class Bench:
    """Runs and keeps launches of positions."""

    run: Run
    logs: dict[int, list[float]] = field(default_factory=dict)

    def more(self, position: int, num: int) -> list[float]:
        """Launches until `num` of this position are there."""
        kept = self.logs.setdefault(position, [])
        kept.extend(self.run(position) for _ in range(num - len(kept)))
        return kept

    @property
    def num_trials(self) -> int:
        return sum(len(logs) for logs in self.logs.values())


@dataclass(frozen=True, kw_only=True)
class Named:
    """Candidates a tool blamed (none: it says nothing changed), or that it gave up; what that cost."""

    culprits: frozenset[int]
    trials: int
    builds: int
    has_given_up: bool = False


def _named(bench: Bench, culprits: set[int], has_given_up: bool = False) -> Named:
    return Named(
        culprits=frozenset(culprits), trials=bench.num_trials, builds=len(bench.logs), has_given_up=has_given_up
    )


def _halve(num: int, is_bad: Callable[[int], bool]) -> int:
    good, bad = 0, num
    while bad - good > 1:
        middle = (good + bad) // 2
        good, bad = (good, middle) if is_bad(middle) else (middle, bad)
    return bad


def git_bisect_once(run: Run, num: int) -> Named:
    """`git bisect run` with one launch a commit, bad beyond the middle of one launch of GOOD and one of BAD."""
    bench = Bench(run=run)
    limit = (bench.more(0, 1)[0] + bench.more(num, 1)[0]) / 2
    return _named(bench, {_halve(num, lambda i: bench.more(i, 1)[0] > limit)})


def git_bisect_five(run: Run, num: int) -> Named:
    """`git bisect run` with five launches a commit, bad if Welch's t test against five of GOOD says slower at 5 %."""
    bench = Bench(run=run)
    good = bench.more(0, 5)

    def is_bad(position: int) -> bool:
        result = stats.ttest_ind(bench.more(position, 5), good, equal_var=False, alternative="greater")
        return bool(result.pvalue < 0.05)

    return _named(bench, {_halve(num, is_bad)})


def asv_find(run: Run, num: int) -> Named:
    """`asv find`: one launch of both ends and the middle; on into the half with the larger step."""
    bench = Bench(run=run)
    low, high = 0, num
    while high - low > 1:
        middle = (low + high) // 2
        a, b, c = (bench.more(i, 1)[0] for i in (low, middle, high))
        low, high = (middle, high) if c - b > b - a else (low, middle)
    return _named(bench, {high})


def pinpoint(run: Run, num: int) -> Named:
    """Pinpoint: 10 launches of each end, doubled while unclear, p = min(U, KS); into every half that differs."""
    bench = Bench(run=run)
    open_ranges, culprits = [(0, num)], set()
    while open_ranges:
        low, high = open_ranges.pop()
        if not _differ(bench, low, high):
            continue
        if high - low == 1:
            culprits.add(high)
            continue
        middle = (low + high) // 2
        open_ranges += [(low, middle), (middle, high)]
    return _named(bench, culprits)


def _differ(bench: Bench, one: int, other: int) -> bool:
    attempts = 10
    while True:
        a, b = bench.more(one, attempts), bench.more(other, attempts)
        p = min(stats.mannwhitneyu(a, b).pvalue, stats.ks_2samp(a, b).pvalue)
        if p <= LOW:
            return bool(np.mean(b) > np.mean(a))
        size = min(len(a), len(b))
        if p > HIGH[min(MAX_ATTEMPTS, size)] or size >= MAX_ATTEMPTS:
            return False
        attempts = 2 * size


def git_bayesect(run: Run, num: int) -> Named:
    """git-bayesect's own posterior and choice of commit; a launch fails beyond the middle of one of GOOD and one of
    BAD; the culprit at its 95 %, or given up after 300 launches. Raises ImportError where it is not installed."""
    from git_bayesect import Bisector

    bench = Bench(run=run)
    limit = (bench.more(0, 1)[0] + bench.more(num, 1)[0]) / 2
    bisector = Bisector(np.ones(num))  # index 0 is its newest commit, BAD
    launches = {0: 1, num: 1}
    while bisector.distribution.max() < 0.95 and sum(launches.values()) < MAX_TRIALS:
        index = bisector.select()
        position = num - index
        launches[position] = launches.get(position, 0) + 1
        bisector.record(index, bench.more(position, launches[position])[-1] > limit)
    best = num - int(bisector.distribution.argmax())
    is_sure = bool(bisector.distribution.max() >= 0.95)
    return _named(bench, {best} if is_sure else set(), has_given_up=not is_sure)


TOOLS: dict[str, Callable[[Run, int], Named]] = {
    "git bisect, one run": git_bisect_once,
    "git bisect, five runs, t test": git_bisect_five,
    "asv find": asv_find,
    "git-bayesect": git_bayesect,
    "Pinpoint": pinpoint,
}
