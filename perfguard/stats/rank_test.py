"""Rank test of two small groups, exact, with ties. Knows nothing of what is compared; standard library only."""

from collections import Counter
from collections.abc import Sequence
from math import comb, erfc, sqrt

# Up to so many values all divisions into two groups are counted; beyond, the normal approximation is good to 0.002.
MAX_EXACT = 40


def rank_sum_p(xs: Sequence[float], ys: Sequence[float]) -> float:
    """Two-sided p value of the Wilcoxon rank-sum test with midranks; 1 where a group is empty.

    Exact over all divisions of the pooled values into groups of these sizes (E. L. Lehmann, *Nonparametrics*, 1975,
    section 1.4): the share of them whose rank sum lies at least as far from its mean.
    """
    xs, ys = sorted((xs, ys), key=len)  # counting goes by the smaller group
    n, m = len(xs), len(ys)
    if not n or not m:
        return 1.0
    doubled = _doubled_midranks([*xs, *ys])
    off = abs(2 * sum(doubled[:n]) - 2 * n * (n + m + 1))  # twice the distance of the doubled sum from its mean
    return _exact(doubled, n, off) if n + m <= MAX_EXACT else _normal(doubled, n, off)


def _doubled_midranks(values: Sequence[float]) -> list[int]:
    """Twice the rank from 1; equal values share the mean of theirs, so that doubling makes it whole."""
    counts = Counter(values)
    below, ranks = 0, {}
    for value in sorted(counts):
        ranks[value] = 2 * below + counts[value] + 1
        below += counts[value]
    return [ranks[value] for value in values]


def _exact(doubled: Sequence[int], n: int, off: int) -> float:
    """Number of subsets by size and sum, grown value by value."""
    ways: list[Counter[int]] = [Counter() for _ in range(n + 1)]
    ways[0][0] = 1
    for rank in doubled:
        for size in range(n, 0, -1):
            for total, count in ways[size - 1].items():
                ways[size][total + rank] += count
    mean_twice = 2 * n * (len(doubled) + 1)
    far = sum(count for total, count in ways[n].items() if abs(2 * total - mean_twice) >= off)
    return far / comb(len(doubled), n)


def _normal(doubled: Sequence[int], n: int, off: int) -> float:
    """Normal approximation; the variance over all divisions takes ties into account, half a step for continuity."""
    size = len(doubled)
    mean = sum(doubled) / size
    squares = sum((rank - mean) ** 2 for rank in doubled)
    sd = sqrt(n * (size - n) / (size * (size - 1)) * squares)
    return 1.0 if sd == 0 else min(1.0, erfc(max(0.0, off / 2 - 1.0) / sd / sqrt(2)))
