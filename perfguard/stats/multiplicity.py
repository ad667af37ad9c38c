"""Secondary metrics together: step-down max-T on the same orders, so that many metrics are one question.

Controls the chance of any false finding among them under any dependence (Westfall and Young 1993, section 2.6).
It accuses nobody by itself: secondary metrics never steer an outcome.
"""

from collections.abc import Sequence
from itertools import product

import numpy as np
from numpy.typing import NDArray

from perfguard.stats.effects import Floats, Series, weights
from perfguard.stats.order_test import TOLERANCE, effects_by_order
from perfguard.stats.plan import HEAD_SLOTS

# 6^6 orders of a dozen metrics are a few megabytes; beyond that orders are drawn.
MAX_ENUMERATED_BLOCKS = 6
NUM_DRAWS = 100_000


def adjusted_p(metrics: Sequence[Series], seed: int) -> tuple[tuple[float, int], ...]:
    """(adjusted p, direction) of each metric, two-sided; the series share their blocks and orders.

    z = sum w effect / sqrt(sum w^2 squares) for every order; a metric's p is the share of orders in which the
    largest |z| of it and of all metrics less extreme reaches its own. No smaller than 1 / number of orders.
    """
    if not metrics:
        return ()
    orders_NQ = _orders(len(metrics[0].effects), seed)
    observed_Q = _observed_orders(metrics[0])
    columns = [_statistics(series, orders_NQ, observed_Q) for series in metrics]
    observed = np.array([own for own, _ in columns])
    all_NM = np.abs(np.stack([others for _, others in columns], axis=1))
    p_M = _step_down(np.abs(observed), all_NM, is_drawn=len(observed_Q) > MAX_ENUMERATED_BLOCKS)
    return tuple((float(p), 1 if own >= 0 else -1) for p, own in zip(p_M, observed, strict=True))


def _orders(num_blocks: int, seed: int) -> NDArray[np.int8]:
    if num_blocks <= MAX_ENUMERATED_BLOCKS:
        return np.array(list(product(range(6), repeat=num_blocks)), dtype=np.int8)
    generator = np.random.Generator(np.random.PCG64(seed))
    return generator.integers(0, 6, size=(NUM_DRAWS, num_blocks), dtype=np.int8)


def _observed_orders(series: Series) -> NDArray[np.intp]:
    patterns_64 = np.array([[slot in head for slot in range(4)] for head in HEAD_SLOTS])
    matches_Q6 = (series.is_head[:, None, :] == patterns_64[None]).all(axis=2)
    return np.asarray(matches_Q6.argmax(axis=1))


def _statistics(series: Series, orders_NQ: NDArray[np.int8], observed_Q: NDArray[np.intp]) -> tuple[float, Floats]:
    """z under the observed order and under all others; 0 where the metric never varies within a block."""
    w_Q = weights(series.squares)
    scale = float(np.sqrt((w_Q**2 * series.squares).sum()))
    if scale == 0:
        return 0.0, np.zeros(len(orders_NQ))
    choices_Q6 = effects_by_order(series.logs, w_Q) / scale
    rows = np.arange(len(w_Q))
    return float(choices_Q6[rows, observed_Q].sum()), np.asarray(choices_Q6[rows, orders_NQ].sum(axis=1))


def _step_down(observed_M: Floats, all_NM: Floats, *, is_drawn: bool) -> Floats:
    p_M, running = np.empty(len(observed_M)), 0.0
    ranking = np.argsort(-observed_M, kind="stable")
    for position, metric in enumerate(ranking):
        largest_N = all_NM[:, ranking[position:]].max(axis=1)
        count = int((largest_N >= observed_M[metric] - TOLERANCE * max(1.0, observed_M[metric])).sum())
        share = (1 + count) / (1 + len(all_NM)) if is_drawn else count / len(all_NM)
        running = max(running, share)
        p_M[metric] = running
    return p_M
