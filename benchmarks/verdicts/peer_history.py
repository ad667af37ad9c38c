"""Rules of tools that judge a new value, or new values, by a stored history: bencher, conbench, otava. Vectorised.

Each takes the history (N, n) and what came after it (N, m), one value a commit, and says "changed" (N). otava's search
for change points goes through one series at a time; all its candidate splits are tried at once.
"""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from scipy import special

from benchmarks.verdicts.scenarios import Flags, Floats

BENCHER_BOUNDARY = 0.99
CONBENCH_Z = 5.0
CONBENCH_TRIM = 0.05
OTAVA_WINDOW = 50
OTAVA_P = 0.001

Split = tuple[int, int, int]  # where it starts, where it splits, where it ends


def bencher(history: Floats, new: Floats) -> Flags:
    """bencher's built-in threshold: above the one-sided 99 % t prediction limit; deviation divided by n, not n - 1."""
    n = history.shape[1]
    spread = history.std(axis=1) * np.sqrt(1 + 1 / n)
    return new[:, 0] > history.mean(axis=1) + special.stdtrit(n - 1, BENCHER_BOUNDARY) * spread


def conbench(history: Floats, new: Floats) -> Flags:
    """conbench's lookback z: more than 5 deviations from the mean; values that jumped and jumped back are left out.

    The deviation is that of every value from the mean of those before it.
    """
    kept = ~_conbench_outliers(history)
    count = np.cumsum(kept, axis=1)
    total = np.cumsum(np.where(kept, history, 0.0), axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        before = (total - np.where(kept, history, 0.0)) / (count - kept)
    residuals = np.where(kept & (count > 1), history - before, 0.0)
    num = count[:, -1]
    mean_residual = residuals.sum(axis=1) / num
    squares = np.where(kept, (residuals - mean_residual[:, None]) ** 2, 0.0).sum(axis=1)
    z = (new[:, 0] - total[:, -1] / num) / np.sqrt(squares / (num - 1))
    return np.abs(z) > CONBENCH_Z


def _conbench_outliers(history: Floats) -> Flags:
    """A step beyond 5 deviations that is followed by another; deviations of steps so far, the extreme 5 % cut off."""
    steps = np.diff(history, axis=1)
    low, high = np.quantile(steps, [CONBENCH_TRIM, 1 - CONBENCH_TRIM], axis=1)[..., None]
    is_kept = (steps >= low) & (steps <= high)
    count = np.cumsum(is_kept, axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.cumsum(np.where(is_kept, steps, 0.0), axis=1) / count
        squares = np.cumsum(np.where(is_kept, steps**2, 0.0), axis=1)
        variance = np.maximum(squares - count * mean**2, 0.0) / (count - 1)
        is_shift = (count > 1) & (np.abs(steps - mean) > CONBENCH_Z * np.sqrt(variance))
    found = np.zeros(history.shape, dtype=bool)
    found[:, 1:-1] = is_shift[:, :-1] & is_shift[:, 1:]
    return found


def otava(history: Floats, new: Floats) -> Flags:
    """otava (once hunter), its defaults: any change point left in the series of both."""
    return np.array([bool(change_points(series)) for series in np.concatenate([history, new], axis=1)])


def change_points(series: Floats) -> list[int]:
    """Split windows where the energy statistic is largest while a t test agrees at 0.01, then drop the weakest."""
    found: set[int] = set()
    start, step = 0, OTAVA_WINDOW // 2
    while start < len(series):
        window = series[start : start + OTAVA_WINDOW]
        last = [start + at for at in _divided(window)]
        found.update(last)
        start = max(last[-1] if last else 0, start + step)
    return _merged(series, sorted(found))


def _divided(window: Floats) -> list[int]:
    """Splits of one window, best first, until the best one is not significant; sorted."""
    cuts: list[int] = []
    prefix = np.zeros((len(window) + 1, len(window) + 1))
    prefix[1:, 1:] = np.abs(window[:, None] - window).cumsum(axis=0).cumsum(axis=1)
    while True:
        edges = [0, *cuts, len(window)]
        pairs = [(a, b) for a, b in pairwise(edges) if b - a > 1]
        best = max((_best_split(prefix, a, b) for a, b in pairs), default=None)
        if best is None or _p(window, best[1]) > 10 * OTAVA_P:
            return cuts
        cuts = sorted([*cuts, best[1][1]])


def _best_split(prefix: Floats, start: int, stop: int) -> tuple[float, Split]:
    """Largest energy distance between [start, t) and [t, k) over all t < k <= stop; the test then takes all to stop."""
    t, k = np.arange(start + 1, stop)[:, None], np.arange(start + 2, stop + 1)[None, :]
    n, m = t - start, np.maximum(k - t, 1)
    between = prefix[t, k] - prefix[start, k] - prefix[t, t] + prefix[start, t]
    left = (prefix[t, t] - prefix[start, t] - prefix[t, start] + prefix[start, start]) / 2
    right = (prefix[k, k] - prefix[t, k] - prefix[k, t] + prefix[t, t]) / 2
    inner = m / np.maximum(n - 1, 1) * left + n / np.maximum(m - 1, 1) * right
    q = np.where(k > t, 2 / (n + m) * (between - inner), -np.inf)
    row, column = np.unravel_index(int(np.argmax(q)), q.shape)
    return float(q[row, column]), (start, start + 1 + int(row), stop)


def _p(series: Floats, split: Split) -> float:
    """Student's t with pooled variance from deviations divided by n (as otava does), two-sided."""
    start, at, stop = split
    left, right = series[start:at], series[at:stop]
    n, m = len(left), len(right)
    if n + m <= 2:
        return 1.0
    pooled = ((n - 1) * left.var() + (m - 1) * right.var()) / (n + m - 2)
    if pooled == 0:
        return 0.0 if left.mean() != right.mean() else 1.0
    t = abs(left.mean() - right.mean()) / np.sqrt(pooled * (1 / n + 1 / m))
    return float(2 * special.stdtr(n + m - 2, -t))


def _merged(series: Floats, cuts: Sequence[int]) -> list[int]:
    """Without the weakest point, again and again, until every one has p below 0.001 between its neighbours.

    As in otava 0.8.0 the neighbour on the left keeps the p it had before the point on its right was dropped.
    """
    left = list(cuts)
    ps = [_p_between(series, left, i) for i in range(len(left))]
    while left and max(ps) >= OTAVA_P:
        weakest = ps.index(max(ps))
        del left[weakest], ps[weakest]
        if weakest < len(left):
            ps[weakest] = _p_between(series, left, weakest)
    return left


def _p_between(series: Floats, cuts: Sequence[int], i: int) -> float:
    edges = [0, *cuts, len(series)]
    return _p(series, (edges[i], edges[i + 1], edges[i + 2]))
