"""Stage two of one suspected metric: do fresh blocks with fresh builds say the same? A pure function of them.

Confirms by blocks of stage two only, so that its coin tosses are independent of the suspicion. What the suspicion saw
may withhold an acquittal: slow launches of head that base never had do not vanish because fresh blocks drew none.
"""

from dataclasses import dataclass
from typing import Literal

from perfguard.stats.design import MIN_CONFIRM_BLOCKS, Rules
from perfguard.stats.effects import Estimate, Numbers, Series, clipped_estimate, first, weighted_estimate
from perfguard.stats.lottery import find_lottery, is_open
from perfguard.stats.placebo import Placebo, fresh_builds_differ, has_failed, has_one_pair, measure_placebo, passes
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
    """Stage two after some of its blocks. `placebo` is None where builds are not known; `is_lottery_open`: the
    suspicion saw slow launches of head among fast ones, and none of base."""

    series: Series
    is_lottery_open: bool
    found: Estimate
    placebo: Placebo | None
    has_crossed: bool


def end_of_stage_two(
    rules: Rules, series: Series, builds_Q4: Numbers, direction: int, seed: int, *, suspected: Series | None = None
) -> ConfirmEnd:
    """The first end met when stage-two blocks are added one by one; `suspected`: the blocks that raised the suspicion.

    Confirmed: at some look the order test agrees, and then or at a later block the estimate is still beyond the
    margin and the builds of each arm agree. Waiting for the placebo can only withhold a report, never add one.
    """
    num_blocks = min(len(series.effects), rules.max_confirm_blocks)
    is_lottery_open = suspected is not None and is_open(find_lottery(suspected, rules.margin))
    has_crossed = False
    for q in range(MIN_CONFIRM_BLOCKS, num_blocks + 1):
        so_far = first(series, q)
        found = weighted_estimate(so_far)
        alpha = _alpha_at(rules, q, so_far, suspected)
        has_crossed = has_crossed or is_beyond_luck(rules, so_far, found, direction, alpha, seed)
        placebo = placebo_of(so_far, builds_Q4[:q])
        moment = _Moment(
            series=so_far, is_lottery_open=is_lottery_open, found=found, placebo=placebo, has_crossed=has_crossed
        )
        kind = _kind_at(rules, moment, q, direction)
        if kind != "open":
            return ConfirmEnd(kind=kind, at=q)
    return ConfirmEnd(kind="open", at=num_blocks)


def _alpha_at(rules: Rules, q: int, fresh: Series, suspected: Series | None) -> float:
    """Both stages share alpha, unless fresh builds differ: then the suspicion was luck and has nothing to share."""
    builds = (rules.build_luck_alpha, rules.margin)
    is_luck = suspected is not None and fresh_builds_differ(suspected, fresh, *builds)
    return (rules.design.own_looks if is_luck else rules.design.confirm_looks).get(q, 0.0)


def placebo_of(series: Series, builds_Q4: Numbers) -> Placebo | None:
    """None where no two builds of an arm meet in every block: each trial had its own, or none was made."""
    return measure_placebo(series, builds_Q4) if has_one_pair(series, builds_Q4) else None


def _kind_at(rules: Rules, moment: _Moment, q: int, direction: int) -> Kind:
    found, placebo = moment.found, moment.placebo
    builds_agree = placebo is None or passes(placebo, found.effect, rules.margin)
    if moment.has_crossed and builds_agree and direction * found.effect >= rules.margin:
        return "confirmed"
    may_refute = builds_agree and not moment.has_crossed and not moment.is_lottery_open
    if may_refute and may_be_equivalent(rules, moment.series, found):
        return "refuted"
    if q == rules.max_confirm_blocks:
        return "unconfirmed" if builds_agree else "placebo"
    if q < second_look(rules.design.confirm_looks, rules.max_confirm_blocks):
        return "open"
    if placebo is not None and has_failed(placebo, found.effect, rules.margin):
        return "placebo"
    expected = clipped_estimate(moment.series, rules.clip_spreads)
    is_futile = chance_of_confirmation(rules, expected, q, direction) < rules.futility
    return "unconfirmed" if is_futile and not moment.has_crossed else "open"
