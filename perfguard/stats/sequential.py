"""The controller: all valid blocks so far -> measure on, confirm, or done, and with what outcome.

A pure function of blocks in the order they ran: called on every prefix of a stored campaign it replays the
campaign. No I/O, no clock, no state. Validity, exact outputs and origin are `verdict.py`'s.
"""

from collections.abc import Sequence
from typing import Literal

from perfguard.errors import UsageError
from perfguard.policy import Policy
from perfguard.records import BlockValues, Decision, Metric, MetricResult, Outcome, Reason
from perfguard.stats.design import Rules, rules_of
from perfguard.stats.effects import Numbers, Series, series
from perfguard.stats.exact import metric_equality
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


def decide(
    policy: Policy, metrics: Sequence[Metric], blocks: Sequence[BlockValues], *, seed: int = 0, slow_rate: float = 0.0
) -> Decision:
    """What to do next after these valid blocks, in the order they ran.

    Every primary metric is followed until its stage one has ended; a decided one is frozen. Then the suspected
    ones are confirmed on blocks of stage 2. `seed` (the campaign's) serves Monte Carlo draws beyond 14 blocks of
    a stage. `slow_rate` in (0, 1) asks EQUIVALENT to exclude slow launches at this rate. Values must be positive
    and finite. Raises UsageError where no metric is primary.
    """
    primaries = [metric for metric in metrics if metric.primary]
    if not primaries:
        raise UsageError("no metric is primary, so nothing can be decided", "mark one metric `primary = true`")
    rules = rules_of(policy, len(primaries), slow_rate)
    ones = [block for block in blocks if block.stage == 1]
    twos = [block for block in blocks if block.stage > 1]
    states = [_state(rules, metric, ones, twos, seed) for metric in primaries]
    results = tuple(result_of(rules, state, ones, twos, seed) for state in states)
    state = next_state(states)
    others = secondary_results(rules, metrics, ones, seed, is_done=state == "done")
    outcome = overall([outcome_of(s) for s in states])
    return Decision(
        state=state,
        outcome=outcome,
        metrics=in_order(metrics, (*results, *others)),
        reasons=decisive_reasons(results, outcome),
        blocks_needed=_blocks_needed(rules, states, ones),
    )


def _state(
    rules: Rules, metric: Metric, ones: Sequence[BlockValues], twos: Sequence[BlockValues], seed: int
) -> MetricState:
    if metric.exact and ones and metric_equality(metric, [*ones, *twos]) == "equal":
        return MetricState(metric=metric, one=StageEnd(kind="equivalent", at=len(ones)), two=None)
    return follow(rules, metric, series(metric, ones), series(metric, twos), build_numbers(twos), seed)


def follow(rules: Rules, metric: Metric, ones: Series, twos: Series, builds_Q4: Numbers, seed: int) -> MetricState:
    """Where one metric stands after these blocks of each stage; `builds_Q4`: the builds of stage two."""
    one = end_of_stage_one(rules, ones, seed)
    if one.kind != "suspect" or not rules.is_confirmed:
        return MetricState(metric=metric, one=one, two=None)
    two = end_of_stage_two(rules, twos, builds_Q4, one.direction, seed)
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


def _blocks_needed(rules: Rules, states: Sequence[MetricState], ones: Sequence[BlockValues]) -> int | None:
    needed = (blocks_needed_by(rules, state, ones) for state in states)
    return max((n for n in needed if n is not None), default=None)
