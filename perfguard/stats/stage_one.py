"""Stage one of one metric: equivalent, suspect, or undecided? A pure function of the blocks so far.

Knows one metric and no builds; `sequential.py` puts metrics together, `stage_two.py` confirms.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from perfguard.stats.design import Rules
from perfguard.stats.effects import Estimate, Series, first, joined, weighted_estimate
from perfguard.stats.equivalence import is_equivalent
from perfguard.stats.lottery import find_lottery, is_open, launches_to_exclude
from perfguard.stats.order_test import order_p
from perfguard.stats.power import chance_of_verdict

# Alphas such as 6^-3 are reached exactly; rounding must not miss them.
ROUNDING = 1e-9


@dataclass(frozen=True, kw_only=True)
class StageEnd:
    """How stage one stands. `at`: blocks used when it ended (all so far while "open"); `direction`: +1 head slower."""

    kind: Literal["open", "equivalent", "suspect", "futile", "exhausted"]
    at: int
    direction: int = 0


def end_of_stage_one(rules: Rules, series: Series, seed: int, earlier: Series | None = None) -> StageEnd:
    """The first end met when blocks are added one by one, so that a longer series never changes an earlier end.

    `earlier`: what an extension knows from the parts before it. It counts for equivalence only; a suspicion rests on
    the fresh orders alone, which owe nothing to the results that made somebody extend.
    """
    num_blocks = min(len(series.effects), rules.max_blocks)
    for q in range(rules.min_blocks, num_blocks + 1):
        end = _end_at(rules, first(series, q), q, seed, earlier)
        if end is not None:
            return end
    return StageEnd(kind="exhausted" if num_blocks == rules.max_blocks else "open", at=num_blocks)


def _end_at(rules: Rules, series: Series, q: int, seed: int, earlier: Series | None) -> StageEnd | None:
    found = weighted_estimate(series)
    every = series if earlier is None else joined(earlier, series)
    found_in_every = weighted_estimate(every)
    if may_be_equivalent(rules, every, found_in_every):
        return StageEnd(kind="equivalent", at=q)
    direction = 1 if found.effect > 0 else -1
    if is_beyond_luck(rules, series, found, direction, rules.design.looks.get(q, 0.0), seed):
        return StageEnd(kind="suspect", at=q, direction=direction)
    is_late = second_look(rules.design.looks, rules.max_blocks) <= q < rules.max_blocks
    num_earlier = len(every.effects) - q
    if is_late and chance_of_verdict(rules, found, q, every=found_in_every, num_earlier=num_earlier) < rules.futility:
        return StageEnd(kind="futile", at=q)
    return None


def may_be_equivalent(rules: Rules, series: Series, found: Estimate) -> bool:
    """Both bounds within the margin, no lottery open, and the clean launches that a slow rate asked for needs."""
    if abs(found.effect) > rules.margin or not is_equivalent(series, rules.margin, rules.tost_alpha):
        return False
    lottery = find_lottery(series, rules.margin)
    if rules.slow_rate == 0:
        return not is_open(lottery)
    is_clean = lottery is None or lottery.num_slow_head == 0
    return is_clean and 2 * len(series.effects) >= launches_to_exclude(rules.slow_rate)


def is_beyond_luck(rules: Rules, series: Series, found: Estimate, direction: int, alpha: float, seed: int) -> bool:
    """The estimate is beyond the margin in this direction and the order test says so at alpha (0: no look)."""
    if alpha == 0 or direction * found.effect < rules.margin:
        return False
    return p_of(rules, series, direction, seed) <= alpha * (1 + ROUNDING)


def p_of(rules: Rules, series: Series, direction: int, seed: int) -> float:
    """The order test as these rules ask for it."""
    return order_p(series, direction=direction, credit=rules.floor, seed=seed, clip_spreads=rules.clip_spreads)


def second_look(looks: Mapping[int, float], max_blocks: int) -> int:
    """Nobody gives up before it: a spread from fewer blocks is too uncertain."""
    return sorted(looks)[1] if len(looks) > 1 else max_blocks
