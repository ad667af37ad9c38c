"""May these trials be compared at all? Pure checks of failures by arm, void blocks and carry-over.

Blind to whether a value is good or bad: nothing is thrown out for being slow. Reasons only; `verdict.py` concludes.
"""

from collections.abc import Sequence
from math import comb

import numpy as np

from perfguard.policy import Policy
from perfguard.records import BlockValues, Metric, Reason, Trial
from perfguard.stats.effects import Floats, Series, series, weighted_estimate, weights
from perfguard.stats.order_test import TOLERANCE, tail_share
from perfguard.stats.plan import HEAD_SLOTS


def failure_reasons(policy: Policy, trials: Sequence[Trial]) -> tuple[Reason, ...]:
    """ARM_FAILS if one arm's launches fail (invalid, crashed, timed out; every attempt counts) beyond luck."""
    counted = [trial for trial in trials if trial.stage > 0]
    base, head = (_failures(counted, side) for side in ("base", "head"))
    p = fisher_p(base[0], base[1] - base[0], head[0], head[1] - head[0])
    if p >= policy.fisher_alpha:
        return ()
    text = (
        f"{head[0]} of {head[1]} head launches and {base[0]} of {base[1]} base launches failed or were invalid: "
        f"one side causes it (Fisher's exact test, p = {p:.2g})"
    )
    return (Reason(code="ARM_FAILS", text=text),)


def _failures(trials: Sequence[Trial], side: str) -> tuple[int, int]:
    of_side = [trial for trial in trials if trial.side == side]
    return sum(trial.status != "ok" for trial in of_side), len(of_side)


def fisher_p(a: int, b: int, c: int, d: int) -> float:
    """Two-sided p value of Fisher's exact test on the table [[a, b], [c, d]]: all tables no more likely than it."""
    row, column, total = a + b, a + c, a + b + c + d
    possible = range(max(0, row + column - total), min(row, column) + 1)
    ways = [comb(row, k) * comb(total - row, column - k) for k in possible]
    own = comb(row, a) * comb(total - row, c)
    return sum(way for way in ways if way <= own) / sum(ways)


def void_reasons(policy: Policy, *, num_valid: int, num_void: int, is_final: bool) -> tuple[Reason, ...]:
    """TOO_MANY_VOID once more than the allowed share of blocks is void.

    While measuring goes on, only if the share would be passed even if the longest comparison had no further one.
    """
    num_blocks = num_void + (num_valid if is_final else max(num_valid, policy.max_blocks))
    if num_void <= policy.max_void_share * num_blocks:
        return ()
    text = f"{num_void} of {num_void + num_valid} blocks are void: too many to trust the rest"
    return (Reason(code="TOO_MANY_VOID", text=text),)


def carry_over_reasons(
    policy: Policy, metrics: Sequence[Metric], blocks: Sequence[BlockValues], seed: int
) -> tuple[Reason, ...]:
    """CARRY_OVER if trials of a primary metric depend on which arm ran just before, beyond luck."""
    primaries = [metric for metric in metrics if metric.primary]
    found = []
    for metric in primaries if blocks else ():
        p = carry_over_p(series(metric, blocks), seed)
        if p * len(primaries) <= policy.carry_over_alpha:
            text = f"{metric.name} depends on which side ran just before (order test, p = {p:.2g})"
            found.append(Reason(code="CARRY_OVER", text=text))
    return tuple(found)


def carry_over_p(over: Series, seed: int) -> float:
    """Two-sided order test of residuals against the predecessor's arm, within blocks (slots 2 to 4).

    Residuals are values less the estimated effect of head; orders are re-randomised around them. Twice the
    smaller tail, at most 1.
    """
    logs_Q4 = over.logs - weighted_estimate(over).effect * over.is_head
    follower_Q3 = logs_Q4[:, 1:] - logs_Q4[:, 1:].mean(axis=1, keepdims=True)
    w_Q = weights(over.squares)
    observed = float(w_Q @ (follower_Q3 * over.is_head[:, :3]).sum(axis=1))
    choices_Q6 = follower_Q3 @ _predecessors_36() * w_Q[:, None]
    slack = TOLERANCE * float(w_Q @ np.abs(logs_Q4).max(axis=1))
    upper, lower = tail_share(choices_Q6, observed - slack, seed), tail_share(-choices_Q6, -observed - slack, seed)
    return min(1.0, 2 * min(upper, lower))


def _predecessors_36() -> Floats:
    """Whether the predecessor of slot 2, 3, 4 is head, for each of the six orders."""
    return np.array([[float(slot in head) for head in HEAD_SLOTS] for slot in range(3)])
