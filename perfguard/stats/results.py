"""How one metric stands -> the MetricResult people read. Describes what stages decided; decides nothing itself."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from perfguard.records import BlockValues, Metric, MetricResult, Outcome, Reason
from perfguard.stats import reasons
from perfguard.stats.design import MIN_CONFIRM_BLOCKS, Rules
from perfguard.stats.effects import Series, as_ratio, series, weighted_estimate
from perfguard.stats.equivalence import t_quantile
from perfguard.stats.extension import Part
from perfguard.stats.lottery import find_lottery, is_open
from perfguard.stats.placebo import Placebo, build_numbers, fresh_builds_differ, num_fresh_builds
from perfguard.stats.power import blocks_still_needed, smallest_detectable
from perfguard.stats.stage_one import StageEnd, p_of
from perfguard.stats.stage_two import ConfirmEnd, placebo_of

CI_ALPHA = 0.025


@dataclass(frozen=True, kw_only=True)
class MetricState:
    """Where one primary metric stands. `two` is None unless stage one made it suspect and confirmation is on.

    `part`: the part of the comparison that decided it or is about to; `was_suspect`: how the part before left it.
    """

    metric: Metric
    one: StageEnd
    two: ConfirmEnd | None
    part: int = 0
    was_suspect: bool = False

    @property
    def is_open_in_stage_one(self) -> bool:
        return self.one.kind == "open"

    @property
    def is_open_in_stage_two(self) -> bool:
        return self.two is not None and self.two.kind == "open"


def outcome_of(state: MetricState) -> Outcome:
    if state.one.kind == "equivalent" or (state.two is not None and state.two.kind == "refuted"):
        return Outcome.EQUIVALENT
    if state.one.kind != "suspect":
        # A suspicion outlasts an extension that was stopped before it came to an end.
        return Outcome.SUSPECT if state.was_suspect and state.is_open_in_stage_one else Outcome.INCONCLUSIVE
    if state.two is None or state.two.kind != "confirmed":
        return Outcome.SUSPECT
    return Outcome.REGRESSION if state.one.direction > 0 else Outcome.IMPROVEMENT


def result_of(part: Part, state: MetricState, seed: int) -> MetricResult:
    """The result on the blocks that count for it: confirming ones alone as soon as two of them exist, those that
    made it suspect while there are none, else all suspicion blocks so far."""
    is_confirming = state.two is not None and state.two.at >= MIN_CONFIRM_BLOCKS
    ones = part.ones[: state.one.at] if state.one.kind == "suspect" else (*part.earlier, *part.ones[: state.one.at])
    used = part.twos[: state.two.at] if state.two is not None and is_confirming else ones
    is_ended = not state.is_open_in_stage_one and not state.is_open_in_stage_two
    ended_at = part.num_before + (state.one.at if state.two is None else len(part.ones) + state.two.at)
    found = _reasons(part.rules, state, series(state.metric, ones), part.twos, seed) if used else ()
    return describe(
        part.rules,
        state.metric,
        used,
        seed,
        outcome=outcome_of(state),
        decided_at=ended_at if is_ended else None,
        reasons=found,
    )


def describe(
    rules: Rules,
    metric: Metric,
    blocks: Sequence[BlockValues],
    seed: int,
    *,
    outcome: Outcome,
    decided_at: int | None = None,
    reasons: tuple[Reason, ...] = (),
) -> MetricResult:
    """Estimate, interval, medians and p value of a metric over these blocks; no numbers without blocks."""
    if not blocks:
        return MetricResult(metric=metric, outcome=outcome, decided_at=decided_at, reasons=reasons)
    over = series(metric, blocks)
    found = weighted_estimate(over)
    half_width = t_quantile(CI_ALPHA, found.df) * found.se
    mde = smallest_detectable(rules, found.sd, len(blocks))
    base, head = _medians(metric, blocks)
    return MetricResult(
        metric=metric,
        outcome=outcome,
        slowdown=as_ratio(found.effect),
        ci_low=as_ratio(found.effect - half_width),
        ci_high=as_ratio(found.effect + half_width),
        base_median=base,
        head_median=head,
        p_order=p_of(rules, over, 1 if found.effect > 0 else -1, seed),
        mde=None if mde is None else as_ratio(mde),
        decided_at=decided_at,
        reasons=reasons,
    )


def _medians(metric: Metric, blocks: Sequence[BlockValues]) -> tuple[float, float]:
    by_arm: dict[str, list[float]] = {"A": [], "B": []}
    for block in blocks:
        for arm, value in zip(block.order, block.values[metric.name], strict=True):
            by_arm[arm].append(value)
    return median(by_arm["A"]), median(by_arm["B"])


def blocks_needed_by(part: Part, state: MetricState) -> int | None:
    """Further blocks an undecided metric would need, from its estimate so far; None where it cannot be said.

    A change can only be shown by the blocks of one part, so only equivalence profits from those before.
    """
    used = (*part.earlier, *part.ones[: state.one.at])
    if outcome_of(state) is not Outcome.INCONCLUSIVE or not used:
        return None
    found = weighted_estimate(series(state.metric, used))
    return blocks_still_needed(part.rules, found, len(used) if abs(found.effect) <= part.rules.margin else state.one.at)


def _reasons(
    rules: Rules, state: MetricState, over: Series, confirm_blocks: Sequence[BlockValues], seed: int
) -> tuple[Reason, ...]:
    if state.one.kind == "suspect":
        suspicion = _suspect_reasons(rules, state, over, seed)
        return (*suspicion, *_confirm_reasons(rules, state, over, confirm_blocks, seed))
    if state.metric.exact and state.one.kind == "equivalent" and not over.squares.any():
        return (reasons.exact_equal(over.logs.size),)
    ends = {"futile": reasons.futile(rules), "exhausted": reasons.exhausted(state.one.at)}
    if state.was_suspect and state.is_open_in_stage_one:
        return (reasons.suspected_before(),)
    end = (ends[state.one.kind],) if state.one.kind in ends else ()
    return (*end, *_launch_reasons(rules, over, is_equivalent=state.one.kind == "equivalent"))


def _launch_reasons(rules: Rules, over: Series, *, is_equivalent: bool) -> tuple[Reason, ...]:
    """Modes among launches, or the rate of slow ones that so many clean launches leave possible."""
    found = find_lottery(over, rules.margin)
    if found is not None:
        return (reasons.lottery(found), reasons.lottery_open()) if is_open(found) else (reasons.lottery(found),)
    return (reasons.slow_rate(2 * len(over.effects)),) if is_equivalent else ()


def _suspect_reasons(rules: Rules, state: MetricState, over: Series, seed: int) -> tuple[Reason, ...]:
    direction = state.one.direction
    p = p_of(rules, over, direction, seed)
    found = find_lottery(over, rules.margin)
    modes = () if found is None else (reasons.lottery(found),)
    return (reasons.odds(over, direction, p), *modes)


def _confirm_reasons(
    rules: Rules, state: MetricState, over: Series, confirm_blocks: Sequence[BlockValues], seed: int
) -> tuple[Reason, ...]:
    if state.two is None:
        return (reasons.confirmation_off(),)
    suspected, num_blocks, direction = weighted_estimate(over), state.two.at, state.one.direction
    if num_blocks < MIN_CONFIRM_BLOCKS:
        return (reasons.not_confirmed(suspected, None, 0),)
    fresh = series(state.metric, confirm_blocks[:num_blocks])
    found = weighted_estimate(fresh)
    numbers = build_numbers(confirm_blocks[:num_blocks])
    placebo = placebo_of(fresh, numbers)
    if state.two.kind == "placebo" and placebo is not None:
        return (reasons.placebo_failed(placebo, found.effect, rules.margin),)
    is_confirmed = state.two.kind == "confirmed"
    builds = [_builds_reason(placebo, num_fresh_builds(fresh, numbers), is_confirmed=is_confirmed)]
    if fresh_builds_differ(over, fresh, rules.build_luck_alpha, rules.margin):
        builds.append(reasons.builds_differ())
    if is_confirmed:
        p = p_of(rules, fresh, direction, seed)
        return (reasons.confirmed(fresh, direction, p), *builds)
    launches = _launch_reasons(rules, fresh, is_equivalent=state.two.kind == "refuted")
    return (reasons.not_confirmed(suspected, found, num_blocks), *builds, *launches)


def _builds_reason(placebo: Placebo | None, num_builds: int, *, is_confirmed: bool) -> Reason:
    if placebo is not None:
        return reasons.placebo_passed(placebo)
    return reasons.own_builds(num_builds, is_confirmed=is_confirmed) if num_builds > 1 else reasons.builds_unknown()
