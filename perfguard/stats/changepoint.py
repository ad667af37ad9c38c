"""Change points of a series of nightly values, with a stated chance of a false alarm for a whole series.

A scan of rank scores over all splits: spikes weigh no more than the largest rank, any marginal distribution gives the
same scores, and correlation from night to night widens the threshold. Must not alarm on the newest points alone: a
level needs `MIN_SEGMENT` of them. Knows no time, no commit and no orientation.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, pi, sqrt

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

# Chance that a series without a change gets any change point.
ALPHA = 0.01
# Fewer points than this are no level of their own, at either end of a series.
MIN_SEGMENT = 4
# Intervals inside a segment: lengths fall by this factor, down to the shortest; finer ones come with the splits.
SHRINK = 2.0
SHORTEST_INTERVAL = 6 * MIN_SEGMENT
MAX_LAYERS = 5
# Levels whose variances differ more than this are compared by a t distribution.
MAX_VARIANCE_RATIO = 3.0
# Autocorrelation beyond this is a random walk: no level can be told from another.
MAX_PHI = 0.95


@dataclass(frozen=True, kw_only=True)
class ChangePoint:
    """`index`: the first point of the new level. `before`, `after`: medians of the levels on both sides.

    `p_value`: chance of a scan this high in a stationary segment, all splits and intervals counted.
    """

    index: int
    before: float
    after: float
    p_value: float

    @property
    def change(self) -> float:
        """Relative to the level before; NaN where that is 0."""
        return self.after / self.before - 1 if self.before else float("nan")


@dataclass(frozen=True, kw_only=True)
class _Split:
    index: int
    p_value: float


def change_points(values: Sequence[float] | Array, *, alpha: float = ALPHA) -> tuple[ChangePoint, ...]:
    """The change points of finite `values` (n,), oldest first.

    P(any | no change) is about `alpha`, for any distribution of independent values and for AR(1) noise; measured in
    docs/calibration-history.md.
    """
    series = np.asarray(values, dtype=float)
    if len(series) < 2 * MIN_SEGMENT:
        return ()
    splits = sorted(_splits(series, 0, len(series), alpha), key=lambda split: split.index)
    bounds = [0, *(split.index for split in splits), len(series)]
    levels = [float(np.median(series[a:b])) for a, b in itertools.pairwise(bounds)]
    return tuple(
        ChangePoint(index=split.index, before=before, after=after, p_value=split.p_value)
        for split, before, after in zip(splits, levels, levels[1:], strict=False)
    )


def scan_tail(height: float, num_points: int, min_segment: int = MIN_SEGMENT) -> float:
    """P(max over splits of |Z_k| ≥ height) for independent values, k from `min_segment` to n − `min_segment`.

    James, James and Siegmund, Tests for a change-point, Biometrika 74 (1987); the overshoot ν(x) ≈ exp(−0.583 x).
    """
    if height <= 1.0:  # the expansion is for tails
        return 1.0
    t = np.arange(min_segment, num_points - min_segment + 1) / num_points
    spread = t * (1 - t)
    overshoot = np.exp(-0.583 * height / np.sqrt(num_points * spread))
    tail = height * exp(-height * height / 2) / sqrt(2 * pi) * float(np.sum(overshoot / spread)) / num_points
    return min(1.0, tail)


def _splits(values: Array, start: int, end: int, alpha: float) -> list[_Split]:
    """Split where the evidence is strongest, then both sides in turn."""
    best = _strongest(values[start:end])
    if best is None or best.p_value > alpha:
        return []
    middle = _Split(index=start + best.index, p_value=best.p_value)
    return [middle, *_splits(values, start, middle.index, alpha), *_splits(values, middle.index, end, alpha)]


def _strongest(segment: Array) -> _Split | None:
    """The best split of a segment, by itself or inside one of its intervals; half of the chance goes to each."""
    if len(segment) < 2 * MIN_SEGMENT:
        return None
    whole = _scan(segment, phi=None)
    layers = _layers(len(segment))
    if not layers:
        return whole
    halved = _Split(index=whole.index, p_value=min(1.0, 2 * whole.p_value))
    phi = _phi_of_differences(_scores(segment))
    found = [halved]
    for layer in layers:
        share = 2 * len(layers) * len(layer)
        for start, end in layer:
            split = _scan(segment[start:end], phi=phi)
            found.append(_Split(index=start + split.index, p_value=min(1.0, share * split.p_value)))
    return min(found, key=lambda split: split.p_value)


def _layers(num_points: int) -> list[list[tuple[int, int]]]:
    """Half-overlapping intervals of falling length (seeded intervals; Kovács, Li, Bühlmann, Munk 2020)."""
    layers: list[list[tuple[int, int]]] = []
    length = num_points / SHRINK
    while length >= SHORTEST_INTERVAL and len(layers) < MAX_LAYERS:
        num_intervals = 2 * int(np.ceil(num_points / length)) - 1
        starts = np.linspace(0, num_points - length, num_intervals)
        layers.append([(round(start), round(start + length)) for start in starts.tolist()])
        length /= SHRINK
    return layers


def _scan(segment: Array, *, phi: float | None) -> _Split:
    """The highest standardised difference of rank scores over all splits, widened for correlation between nights."""
    scores = _scores(segment)
    n = len(scores)
    k = np.arange(MIN_SEGMENT, n - MIN_SEGMENT + 1)
    heights = np.abs(np.cumsum(scores)[k - 1]) / np.sqrt(k * (n - k) / n)
    at = int(np.argmax(heights))
    index = int(k[at])
    phi = _phi_of_residuals(scores, index) if phi is None else phi
    height = min(float(heights[at]), _unpooled(scores, index)) / sqrt((1 + phi) / (1 - phi))
    return _Split(index=index, p_value=scan_tail(height, n))


def _unpooled(scores: Array, index: int) -> float:
    """The difference of both levels over their own variances (Welch), as a normal deviate: noise is no step."""
    before, after = scores[:index], scores[index:]
    parts = np.array([before.var(ddof=1) / len(before), after.var(ddof=1) / len(after)])
    variance = float(parts.sum())
    if variance == 0:
        return float("inf")
    height = abs(float(after.mean() - before.mean())) / sqrt(variance)
    if max(before.var(), after.var()) < MAX_VARIANCE_RATIO * min(before.var(), after.var()):
        return height
    from scipy.special import ndtri, stdtr  # here: most commands look for no change point, and it takes 0.2 s

    freedom = variance**2 / float(np.sum(parts**2 / (np.array([len(before), len(after)]) - 1)))
    return float(-ndtri(stdtr(freedom, -height)))


def _scores(values: Array) -> Array:
    """Normal scores of ranks (Blom), mean 0 and variance 1; all 0 where every value is the same."""
    from scipy.special import ndtri

    scores: Array = ndtri((_midranks(values) - 0.375) / (len(values) + 0.25))
    scores = scores - scores.mean()
    spread = float(scores.std())
    return scores / spread if spread > 0 else np.zeros_like(scores)


def _midranks(values: Array) -> Array:
    """Ranks from 1; equal values share the mean of theirs. (scipy.stats has it too and takes a second to import.)"""
    _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
    ranks: Array = (np.cumsum(counts) - (counts - 1) / 2)[places]
    return ranks


def _phi_of_residuals(scores: Array, index: int) -> float:
    """AR(1) coefficient after the step at `index` is taken out, its bias (1 + 3 φ)/n given back (Kendall 1954)."""
    residuals = scores.copy()
    residuals[:index] -= scores[:index].mean()
    residuals[index:] -= scores[index:].mean()
    power = float(residuals @ residuals)
    raw = float(residuals[1:] @ residuals[:-1]) / power if power > 0 else 0.0
    return _bounded(raw + (1 + 3 * raw) / len(scores))


def _phi_of_differences(scores: Array) -> float:
    """AR(1) coefficient from differences over two nights and one: E d₂² / E d₁² = 1 + φ, whatever the steps."""
    one = float(np.mean((scores[1:] - scores[:-1]) ** 2))
    two = float(np.mean((scores[2:] - scores[:-2]) ** 2))
    return _bounded(two / one - 1) if one > 0 else 0.0


def _bounded(phi: float) -> float:
    return min(max(phi, 0.0), MAX_PHI)
