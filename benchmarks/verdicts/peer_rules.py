"""Other tools' decision rules for two samples, vectorised. Rules and defaults as read in their sources.

Each takes times (N, n) of base and (N, m) of head, N comparisons at once, and says "changed" (N) or not, in either
direction. Only the rule is here: how a tool takes its samples is in `peers.py`. No rule is an opinion of ours.
"""

from math import comb

import numpy as np
from numpy.typing import NDArray
from scipy import special

from benchmarks.verdicts.scenarios import Flags, Floats

# pyperf reads the 95 % point of t from a printed table: exact to 30 degrees of freedom, then the row at or below.
PYPERF_ROWS = (30, 40, 50, 60, 80, 100)
PYPERF_LARGE = 200
NVBENCH_GAP = 0.005


def single_run(base: Floats, head: Floats) -> Flags:
    """One run of each, more than 5 % apart: what a person does by hand."""
    return np.abs(head[:, 0] / base[:, 0] - 1) > 0.05


def action_benchmark(base: Floats, head: Floats) -> Flags:
    """github-action-benchmark: the new value is more than 200 % of the last one."""
    return head[:, 0] / base[:, 0] > 2.0


def pyperf(base: Floats, head: Floats) -> Flags:
    """`pyperf compare_to`: Student's t with pooled variance, two-sided 95 %; every value counts as independent."""
    n = base.shape[1]
    pooled = (base.var(axis=1, ddof=1) + head.var(axis=1, ddof=1)) / 2
    t = (head.mean(axis=1) - base.mean(axis=1)) / np.sqrt(pooled * 2 / n)
    return np.abs(t) >= pyperf_critical(2 * n - 2)


def pyperf_critical(df: int) -> float:
    if df >= PYPERF_LARGE:
        return 1.960
    row = df if df <= PYPERF_ROWS[0] else max(row for row in PYPERF_ROWS if row <= df)
    return round(float(special.stdtrit(row, 0.975)), 3)


def welch(base: Floats, head: Floats) -> Flags:
    """Welch's t test, two-sided 5 %: what the script that comes with hyperfine does, and most hand-made checks."""
    n, m = base.shape[1], head.shape[1]
    a, b = base.var(axis=1, ddof=1) / n, head.var(axis=1, ddof=1) / m
    df = (a + b) ** 2 / (a**2 / (n - 1) + b**2 / (m - 1))
    t = np.abs(head.mean(axis=1) - base.mean(axis=1)) / np.sqrt(a + b)
    return 2 * special.stdtr(df, -t) < 0.05


def hyperfine(base: Floats, head: Floats) -> Flags:
    """hyperfine's summary, "1.03 ± 0.02 times faster", read as people read it: 1 lies outside the bar.

    The bar is one propagated standard deviation of single runs; hyperfine itself gives no verdict.
    """
    mean_base, mean_head = base.mean(axis=1), head.mean(axis=1)
    ratio = np.maximum(mean_base, mean_head) / np.minimum(mean_base, mean_head)
    parts = (base.std(axis=1, ddof=1) / mean_base) ** 2 + (head.std(axis=1, ddof=1) / mean_head) ** 2
    return ratio - ratio * np.sqrt(parts) > 1


def benchstat(base: Floats, head: Floats) -> Flags:
    """benchstat: Mann-Whitney U, exact for small samples, two-sided 5 %."""
    return exact_u_p(base, head) <= 0.05


def google_benchmark(base: Floats, head: Floats) -> Flags:
    """google/benchmark's compare.py: Mann-Whitney U through scipy, which is normal, corrected, above 8 samples."""
    return normal_u_p(base, head) < 0.05


def asv(base: Floats, head: Floats) -> Flags:
    """`asv continuous`: medians a factor 1.1 apart, and Mann-Whitney U below 0.002 (exact to 20 samples a side)."""
    low, high = np.median(base, axis=1), np.median(head, axis=1)
    return ((low < high / 1.1) | (high < low / 1.1)) & (exact_u_p(base, head) < 0.002)


def nvbench_legacy(base: Floats, head: Floats) -> Flags:
    """nvbench-compare: means further apart than the smaller of both relative standard deviations."""
    mean_base, mean_head = base.mean(axis=1), head.mean(axis=1)
    noise = np.minimum(base.std(axis=1, ddof=1) / mean_base, head.std(axis=1, ddof=1) / mean_head)
    return np.abs(mean_head - mean_base) / mean_base > noise


def nvbench_robust(base: Floats, head: Floats) -> Flags:
    """nvbench-compare-robust, default preset: the intervals [minimum, third quartile] are 0.5 % apart.

    It asks the same of cycles; with the same clock on both sides, as here, that is the same question.
    """
    return _is_above(base, head) | _is_above(head, base)


def _is_above(low: Floats, high: Floats) -> Flags:
    rank = (75 * (low.shape[1] - 1) + 50) // 100
    upper = np.sort(low, axis=1)[:, rank]
    return (high.min(axis=1) - upper) / upper >= NVBENCH_GAP


def smaller_u(base: Floats, head: Floats) -> NDArray[np.int64]:
    """Mann-Whitney's U, the smaller of both, for samples without ties."""
    below = (base[:, :, None] < head[:, None, :]).sum(axis=(1, 2))
    return np.minimum(below, base.shape[1] * head.shape[1] - below)


def exact_u_p(base: Floats, head: Floats) -> Floats:
    """Two-sided exact p values of the U test for samples of one size without ties."""
    return np.minimum(1.0, 2 * _u_distribution(base.shape[1])[smaller_u(base, head)])


def normal_u_p(base: Floats, head: Floats) -> Floats:
    """Two-sided p values of the U test by the normal approximation, half a step of continuity correction."""
    n, m = base.shape[1], head.shape[1]
    z = (n * m / 2 - smaller_u(base, head) - 0.5) / np.sqrt(n * m * (n + m + 1) / 12)
    return np.minimum(1.0, 2 * special.ndtr(-z))


def _u_distribution(n: int) -> Floats:
    """P(U <= u) for two samples of n: subsets of n of 2n ranks, counted by their sum."""
    most = n * (3 * n + 1) // 2
    ways = np.zeros((n + 1, most + 1))
    ways[0, 0] = 1
    for rank in range(1, 2 * n + 1):
        for size in range(min(rank, n), 0, -1):
            ways[size, rank:] += ways[size - 1, : most + 1 - rank]
    least = n * (n + 1) // 2
    return np.asarray(np.cumsum(ways[n, least:]) / comb(2 * n, n))
