"""Exact order test: how many of the orders that could have been drawn look at least as slow as the drawn one?

Validity rests on our recorded coin tosses and on no model of the noise (re-randomisation test; neither weights nor
clipping depend on labels). Knows nothing of looks, margins or alpha.
"""

import numpy as np

from perfguard.stats.effects import Flags, Floats, Series, clipped, series_of_logs, weights
from perfguard.stats.plan import HEAD_SLOTS

# Two lists of 6^7 sums (14 blocks) are 4.5 MB and 0.1 s; one block more on either side is six times that.
MAX_LISTED_SUMS = 6**7
NUM_DRAWS = 1_000_000
DRAWS_AT_ONCE = 100_000
# Sums that are equal but for rounding count as ties.
TOLERANCE = 1e-12


def order_p(series: Series, *, direction: int, credit: float, seed: int, clip_spreads: float = 0.0) -> float:
    """P value against "head is not slower than `credit`" (direction +1) or "not faster" (direction -1).

    `credit` is a log >= 0, given to the accused side. The larger of the p values at no change and at a change
    of `credit` is returned, so that the test is exact for unchanged code as well as at the floor. Never below
    6^-blocks. `seed` serves Monte Carlo draws only, beyond 14 blocks. `clip_spreads`: see `clipped`.
    """
    return max(_sharp_p(series, direction, shift, seed, clip_spreads) for shift in {0.0, credit})


def _sharp_p(series: Series, direction: int, credit: float, seed: int, clip_spreads: float) -> float:
    """Exact p value of the sharp hypothesis that head trials are slower by `credit` and else exchangeable."""
    logs_Q4 = direction * series.logs - credit * series.is_head
    squares_Q = series_of_logs(logs_Q4, series.is_head).squares
    w_Q, held_Q4 = weights(squares_Q), clipped(logs_Q4, squares_Q, clip_spreads)
    scale = float(w_Q @ np.abs(logs_Q4).max(axis=1))
    observed = float(w_Q @ series_of_logs(held_Q4, series.is_head).effects)
    return tail_share(effects_by_order(held_Q4, w_Q), observed - TOLERANCE * scale, seed)


def effects_by_order(logs_Q4: Floats, weights_Q: Floats) -> Floats:
    """Weighted effect of every block under each of the six orders of `plan.ORDERS`: shape (Q, 6)."""
    centred_Q4 = logs_Q4 - logs_Q4.mean(axis=1, keepdims=True)
    sums_Q6 = np.stack([centred_Q4[:, i] + centred_Q4[:, j] for i, j in HEAD_SLOTS], axis=1)
    return np.asarray(sums_Q6 * weights_Q[:, None])


def tail_share(choices_QC: Floats, threshold: float, seed: int) -> float:
    """Share of all ways to take one number from each of Q rows (of C each) whose sum is >= threshold.

    Meet in the middle: the sums of each half are listed, one list is sorted, the other looks itself up. Where a list
    would pass MAX_LISTED_SUMS, seeded Monte Carlo, (1 + k) / (1 + N). At least one way is always counted.
    """
    num_rows, num_choices = choices_QC.shape
    middle = num_rows // 2
    if num_choices ** (num_rows - middle) > MAX_LISTED_SUMS:
        return _drawn_share(choices_QC, threshold, seed)
    left, right = _all_sums(choices_QC[:middle]), np.sort(_all_sums(choices_QC[middle:]))
    num_below = int(np.searchsorted(right, threshold - left, side="left").sum())
    num_ways = int(num_choices) ** num_rows
    return float(max(1, num_ways - num_below) / num_ways)


def _all_sums(choices_QC: Floats) -> Floats:
    sums = np.zeros(1)
    for row in choices_QC:
        sums = np.add.outer(sums, row).ravel()
    return sums


def _drawn_share(choices_QC: Floats, threshold: float, seed: int) -> float:
    generator = np.random.Generator(np.random.PCG64(seed))
    num_rows, num_choices = choices_QC.shape
    rows, count = np.arange(num_rows), 0
    for _ in range(NUM_DRAWS // DRAWS_AT_ONCE):
        columns = generator.integers(0, num_choices, size=(DRAWS_AT_ONCE, num_rows), dtype=np.int8)
        count += int((choices_QC[rows, columns].sum(axis=1) >= threshold).sum())
    return (1 + count) / (1 + NUM_DRAWS)


def num_separated(series: Series, direction: int) -> int:
    """Blocks in which both head trials are strictly the two slowest (direction +1) or fastest (-1): luck in 1 of 6."""
    logs_Q4 = direction * series.logs
    lowest_head_Q = _extreme(logs_Q4, series.is_head, np.inf).min(axis=1)
    highest_base_Q = _extreme(logs_Q4, ~series.is_head, -np.inf).max(axis=1)
    return int((lowest_head_Q > highest_base_Q).sum())


def _extreme(logs_Q4: Floats, is_kept_Q4: Flags, filler: float) -> Floats:
    return np.where(is_kept_Q4, logs_Q4, filler)
