"""Decision rules of other tools on the same simulated machines: base's trials first, then head's, as they run them.

Rules and defaults as read in their sources; each takes times (N, n) of base and of head and says "changed" or not.
Only the rule is compared: what else a tool does (warm-up, tuning, calibration) is not simulated.
"""

from collections.abc import Callable
from math import comb

import numpy as np
from numpy.typing import NDArray
from scipy import special

from benchmarks.verdicts.scenarios import Batch, Flags, Floats, Noise

TRIALS_A_SIDE = 10

Rule = Callable[[Floats, Floats], Flags]


def one_run(base: Floats, head: Floats) -> Flags:
    """One run of each, ten trials later, more than 5 % apart."""
    return np.abs(head[:, 0] / base[:, 0] - 1) > 0.05


def pyperf(base: Floats, head: Floats) -> Flags:
    """`pyperf compare_to`: Student's t with pooled variance, two-sided 95 %."""
    n = base.shape[1]
    pooled = (base.var(axis=1, ddof=1) + head.var(axis=1, ddof=1)) / 2
    t = (head.mean(axis=1) - base.mean(axis=1)) / np.sqrt(pooled * 2 / n)
    return np.abs(t) >= special.stdtrit(2 * n - 2, 0.975)


def welch(base: Floats, head: Floats) -> Flags:
    """Welch's t test, two-sided 5 %."""
    n = base.shape[1]
    a, b = base.var(axis=1, ddof=1) / n, head.var(axis=1, ddof=1) / n
    df = (a + b) ** 2 / ((a**2 + b**2) / (n - 1))
    return np.abs(head.mean(axis=1) - base.mean(axis=1)) / np.sqrt(a + b) >= special.stdtrit(df, 0.975)


def benchstat(base: Floats, head: Floats) -> Flags:
    """`benchstat`: Mann-Whitney U, exact, two-sided 5 %."""
    return _u_test_p(base, head) <= 0.05


def asv(base: Floats, head: Floats) -> Flags:
    """`asv continuous`: medians a factor 1.1 apart, and Mann-Whitney U below 0.002."""
    ratio = np.median(head, axis=1) / np.median(base, axis=1)
    return ((ratio > 1.1) | (ratio < 1 / 1.1)) & (_u_test_p(base, head) < 0.002)


def action_benchmark(base: Floats, head: Floats) -> Flags:
    """`github-action-benchmark`: the new value is twice the last one."""
    return head[:, 0] / base[:, 0] > 2.0


RULES: dict[str, Rule] = {
    "one run each, 5 %": one_run,
    "pyperf compare_to": pyperf,
    "Welch's t, 5 %": welch,
    "benchstat": benchstat,
    "asv": asv,
    "github-action-benchmark": action_benchmark,
}


def changed_share(rule: Rule, noise: Noise, *, effect: float, sd: float, num: int, seed: int) -> float:
    """How often the rule says "changed" when head is slower by `effect`; 10 trials a side, one side after the other."""
    rng = np.random.default_rng(seed)
    is_head = np.zeros((num, 2 * TRIALS_A_SIDE // 4, 4), dtype=bool)
    is_head.reshape(num, -1)[:, TRIALS_A_SIDE:] = True
    batch = Batch(is_head=is_head, builds=np.ones(is_head.shape, dtype=np.int64), num_ones=is_head.shape[1], sd=sd)
    times = np.exp(noise(batch, rng) + np.log1p(effect) * is_head).reshape(num, -1)
    return float(rule(times[:, :TRIALS_A_SIDE], times[:, TRIALS_A_SIDE:]).mean())


def _u_test_p(base: Floats, head: Floats) -> Floats:
    """Two-sided exact p values of the U test for samples without ties."""
    below = (base[:, :, None] < head[:, None, :]).sum(axis=(1, 2))
    n = base.shape[1]
    smaller = np.minimum(below, n * n - below)
    return np.minimum(1.0, 2 * _u_distribution(n)[smaller])


def _u_distribution(n: int) -> NDArray[np.float64]:
    """P(U <= u) for two samples of n: subsets of n of 2n ranks, counted by their sum."""
    most = n * (3 * n + 1) // 2
    ways = np.zeros((n + 1, most + 1))
    ways[0, 0] = 1
    for rank in range(1, 2 * n + 1):
        for size in range(min(rank, n), 0, -1):
            ways[size, rank:] += ways[size - 1, : most + 1 - rank]
    least = n * (n + 1) // 2
    return np.asarray(np.cumsum(ways[n, least:]) / comb(2 * n, n))
