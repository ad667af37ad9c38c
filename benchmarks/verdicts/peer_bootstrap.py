"""criterion.rs' comparison: a bootstrapped t test, then a bootstrapped interval of the change. Vectorised.

All comparisons of one call share their resamples (as counts of how often each value was drawn), so that a bootstrap
is a matrix product. Each comparison alone is an ordinary bootstrap; criterion draws 100,000 resamples, here 2,000.
"""

import numpy as np

from benchmarks.verdicts.scenarios import Flags, Floats

RESAMPLES = 2000
SIGNIFICANCE = 0.05
NOISE_THRESHOLD = 0.01
CONFIDENCE = 0.95
SEED = 11


def criterion(base: Floats, head: Floats) -> Flags:
    """Changed: p of Welch's t below 0.05 among resamples of both sides thrown together, and the 95 % interval of the
    ratio of means wholly beyond 1 % ("within noise threshold" is not a change).
    """
    rng = np.random.default_rng(SEED)
    scale = base.mean(axis=1, keepdims=True)
    base, head = base / scale, head / scale
    low, high = _change_interval(base, head, rng)
    is_beyond = (low > NOISE_THRESHOLD) | (high < -NOISE_THRESHOLD)
    return (_pooled_p(base, head, rng) < SIGNIFICANCE) & is_beyond


def _pooled_p(base: Floats, head: Floats, rng: np.random.Generator) -> Floats:
    """Two-sided p: twice the smaller share of resampled t below, or not below, the observed one."""
    both = np.concatenate([head, base], axis=1)
    sizes = head.shape[1], base.shape[1]
    drawn = [_counts(both.shape[1], size, rng) for size in sizes]
    resampled = _t(*(part for counts in drawn for part in _moments(both, counts)), *sizes)
    observed = _t(head.mean(axis=1), head.var(axis=1), base.mean(axis=1), base.var(axis=1), *sizes)
    below = (resampled < observed[:, None]).mean(axis=1)
    return 2 * np.minimum(below, 1 - below)


def _t(mean_a: Floats, var_a: Floats, mean_b: Floats, var_b: Floats, n: int, m: int) -> Floats:
    """Welch's t from means and variances that were divided by the number of values."""
    return np.asarray((mean_a - mean_b) / np.sqrt(var_a / (n - 1) + var_b / (m - 1)))


def _change_interval(base: Floats, head: Floats, rng: np.random.Generator) -> tuple[Floats, Floats]:
    means = [_moments(side, _counts(side.shape[1], side.shape[1], rng))[0] for side in (head, base)]
    tail = 50 * (1 - CONFIDENCE)
    low, high = np.percentile(means[0] / means[1] - 1, [tail, 100 - tail], axis=1)
    return low, high


def _counts(num_values: int, num_drawn: int, rng: np.random.Generator) -> Floats:
    """(RESAMPLES, num_values): how often each value was drawn, as shares of the draws."""
    return rng.multinomial(num_drawn, np.full(num_values, 1 / num_values), RESAMPLES) / num_drawn


def _moments(values: Floats, shares: Floats) -> tuple[Floats, Floats]:
    """Means and variances (divided by n) of all resamples of all comparisons: (N, RESAMPLES)."""
    centred = values - 1.0
    means = centred @ shares.T
    return means + 1.0, np.maximum(centred**2 @ shares.T - means**2, 1e-300)
