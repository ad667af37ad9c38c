"""The controller: all valid blocks so far -> measure on, confirm, or done, and with what outcome.

A pure function of blocks in the order they ran: called on every prefix of a stored campaign it replays the
campaign. No I/O, no clock, no state. Validity, exact outputs and origin are `verdict.py`'s.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from perfguard.errors import UsageError
from perfguard.policy import Policy
from perfguard.records import BlockValues, Decision, Extension, Metric, MetricResult, Outcome, Reason
from perfguard.stats.design import Rules
from perfguard.stats.effects import Numbers, Series, first, series
from perfguard.stats.exact import metric_equality
from perfguard.stats.extension import Part, is_suspicion, parts_of
from perfguard.stats.placebo import build_numbers
from perfguard.stats.results import MetricState, blocks_needed_by, outcome_of, result_of
from perfguard.stats.secondary import secondary_results
from perfguard.stats.stage_one import StageEnd, end_of_stage_one
from perfguard.stats.stage_two import end_of_stage_two

# What the comparison says when its primary metrics disagree: the first of these that any of them ended with.
PRECEDENCE = (
    Outcome.REGRESSION,
    Outcome.INVALID,
    Outcome.SUSPECT,
    Outcome.INCONCLUSIVE,
    Outcome.IMPROVEMENT,
    Outcome.EQUIVALENT,
)


# An extension goes on only with metrics that ended otherwise.
UNDECIDED = (Outcome.INCONCLUSIVE, Outcome.SUSPECT)


def decide(
    policy: Policy,
    metrics: Sequence[Metric],
    blocks: Sequence[BlockValues],
    *,
    seed: int = 0,
    slow_rate: float = 0.0,
    extensions: Sequence[Extension] = (),
) -> Decision:
    """What to do next after these valid blocks, in the order they ran.

    Every primary metric is followed until its stage one has ended; a decided one is frozen. Then the suspected
    ones are confirmed on blocks of stage 2. `seed` (the campaign's) serves Monte Carlo draws beyond 14 blocks of
    a stage. `slow_rate` in (0, 1) asks EQUIVALENT to exclude slow launches at this rate. Each of the `extensions`
    registered so far (numbers from 1) closes what ran before it and goes on with what that left undecided. Values
    must be positive and finite. Raises UsageError where no metric is primary.
    """
    primaries = [metric for metric in metrics if metric.primary]
    if not primaries:
        raise UsageError("no metric is primary, so nothing can be decided", "mark one metric `primary = true`")
    parts = parts_of(policy, len(primaries), slow_rate, blocks, extensions)
    states = [_state(parts, metric, seed) for metric in primaries]
    results = tuple(result_of(parts[state.part], state, seed) for state in states)
    state = next_state(states)
    suspicion_blocks = [block for block in blocks if is_suspicion(block.stage)]
    others = secondary_results(parts[0].rules, metrics, suspicion_blocks, seed, is_done=state == "done")
    outcome = overall([outcome_of(s) for s in states])
    return Decision(
        state=state,
        outcome=outcome,
        metrics=in_order(metrics, (*results, *others)),
        reasons=decisive_reasons(results, outcome),
        blocks_needed=_blocks_needed(parts, states),
    )


def _state(parts: Sequence[Part], metric: Metric, seed: int) -> MetricState:
    """Part after part, until one has decided the metric: there it stays frozen."""
    original = parts[0]
    ran = [*original.ones, *original.twos]
    if metric.exact and original.ones and metric_equality(metric, ran) == "equal":
        return MetricState(metric=metric, one=StageEnd(kind="equivalent", at=len(original.ones)), two=None)
    state = _state_in(original, metric, seed)
    for number, part in enumerate(parts[1:], start=1):
        if outcome_of(state) not in UNDECIDED:
            break
        was_suspect = outcome_of(state) is Outcome.SUSPECT
        state = replace(_state_in(part, metric, seed), part=number, was_suspect=was_suspect)
    return state


def _state_in(part: Part, metric: Metric, seed: int) -> MetricState:
    earlier = series(metric, part.earlier) if part.earlier else None
    ones, twos = series(metric, part.ones), series(metric, part.twos)
    return follow(part.rules, metric, ones, twos, build_numbers(part.twos), seed, earlier)


def follow(
    rules: Rules,
    metric: Metric,
    ones: Series,
    twos: Series,
    builds_Q4: Numbers,
    seed: int,
    earlier: Series | None = None,
) -> MetricState:
    """Where one metric stands after these blocks of each stage; `builds_Q4`: the builds of stage two.

    `earlier`: suspicion blocks of the parts before an extension.
    """
    one = end_of_stage_one(rules, ones, seed, earlier)
    if one.kind != "suspect" or not rules.is_confirmed:
        return MetricState(metric=metric, one=one, two=None)
    two = end_of_stage_two(rules, twos, builds_Q4, one.direction, seed, suspected=first(ones, one.at))
    return MetricState(metric=metric, one=one, two=two)


def next_state(states: Sequence[MetricState]) -> Literal["measure", "confirm", "done"]:
    """ "measure" until stage one has ended for all, then "confirm" until stage two has for every suspect."""
    if any(state.is_open_in_stage_one for state in states):
        return "measure"
    return "confirm" if any(state.is_open_in_stage_two for state in states) else "done"


def overall(outcomes: Sequence[Outcome]) -> Outcome:
    return min(outcomes, key=PRECEDENCE.index)


def in_order(metrics: Sequence[Metric], results: Sequence[MetricResult]) -> tuple[MetricResult, ...]:
    """Results in the order in which the metrics were declared."""
    by_name = {result.metric.name: result for result in results}
    return tuple(by_name[metric.name] for metric in metrics)


def decisive_reasons(results: Sequence[MetricResult], outcome: Outcome) -> tuple[Reason, ...]:
    """Reasons of the metrics that made the outcome, with their names where there are several primary metrics."""
    return tuple(
        Reason(code=reason.code, text=f"{result.metric.name}: {reason.text}") if len(results) > 1 else reason
        for result in results
        if result.outcome is outcome
        for reason in result.reasons
    )


def _blocks_needed(parts: Sequence[Part], states: Sequence[MetricState]) -> int | None:
    needed = (blocks_needed_by(parts[state.part], state) for state in states)
    return max((n for n in needed if n is not None), default=None)
