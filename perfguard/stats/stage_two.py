"""Stage two of one suspected metric: do fresh blocks with fresh builds say the same? A pure function of them.

Uses blocks of stage two only, so that its coin tosses are independent of the suspicion.
"""

from dataclasses import dataclass
from typing import Literal

from perfguard.stats.design import MIN_CONFIRM_BLOCKS, Rules
from perfguard.stats.effects import Estimate, Numbers, Series, first, weighted_estimate
from perfguard.stats.placebo import Placebo, has_failed, has_one_pair, measure_placebo, passes
from perfguard.stats.power import chance_of_confirmation
from perfguard.stats.stage_one import is_beyond_luck, may_be_equivalent, second_look

Kind = Literal["open", "confirmed", "refuted", "unconfirmed", "placebo"]


@dataclass(frozen=True, kw_only=True)
class ConfirmEnd:
    """How stage two stands. "refuted": fresh blocks lie within the margin. `at` counts stage-two blocks."""

    kind: Kind
    at: int


@dataclass(frozen=True, kw_only=True)
class _Moment:
    """Stage two after some of its blocks. `placebo` is None where builds are not known."""

    series: Series
    found: Estimate
    placebo: Placebo | None
    has_crossed: bool


def end_of_stage_two(rules: Rules, series: Series, builds_Q4: Numbers, direction: int, seed: int) -> ConfirmEnd:
    """The first end met when stage-two blocks are added one by one.

    Confirmed: at some look the order test agrees, and then or at a later block the estimate is still beyond the
    margin and the builds of each arm agree. Waiting for the placebo can only withhold a report, never add one.
    """
    num_blocks = min(len(series.effects), rules.max_confirm_blocks)
    has_crossed = False
    for q in range(MIN_CONFIRM_BLOCKS, num_blocks + 1):
        so_far = first(series, q)
        found = weighted_estimate(so_far)
        alpha = rules.design.confirm_looks.get(q, 0.0)
        has_crossed = has_crossed or is_beyond_luck(rules, so_far, found, direction, alpha, seed)
        placebo = placebo_of(so_far, builds_Q4[:q])
        moment = _Moment(series=so_far, found=found, placebo=placebo, has_crossed=has_crossed)
        kind = _kind_at(rules, moment, q, direction)
        if kind != "open":
            return ConfirmEnd(kind=kind, at=q)
    return ConfirmEnd(kind="open", at=num_blocks)


def placebo_of(series: Series, builds_Q4: Numbers) -> Placebo | None:
    """None where no two builds of an arm meet in every block: each trial had its own, or none was made."""
    return measure_placebo(series, builds_Q4) if has_one_pair(series, builds_Q4) else None


def _kind_at(rules: Rules, moment: _Moment, q: int, direction: int) -> Kind:
    found, placebo = moment.found, moment.placebo
    builds_agree = placebo is None or passes(placebo, found.effect, rules.margin)
    if moment.has_crossed and builds_agree and direction * found.effect >= rules.margin:
        return "confirmed"
    if not moment.has_crossed and builds_agree and may_be_equivalent(rules, moment.series, found):
        return "refuted"
    if q == rules.max_confirm_blocks:
        return "unconfirmed" if builds_agree else "placebo"
    if q < second_look(rules.design.confirm_looks, rules.max_confirm_blocks):
        return "open"
    if placebo is not None and has_failed(placebo, found.effect, rules.margin):
        return "placebo"
    is_futile = chance_of_confirmation(rules, found, q, direction) < rules.futility
    return "unconfirmed" if is_futile and not moment.has_crossed else "open"
