"""The whole verdict on a comparison: the sequential decision, and what validity and outputs make of it.

Pure. Conditions, origin and comparability are judged elsewhere and arrive as reasons.
"""

from collections.abc import Sequence
from dataclasses import replace

from perfguard.policy import Policy
from perfguard.records import BlockValues, Decision, Extension, Metric, MetricResult, Outcome, Reason, Trial
from perfguard.stats.exact import changed_reason, digest_reasons, metric_equality
from perfguard.stats.sequential import decide, overall
from perfguard.stats.validity import carry_over_reasons, failure_reasons, void_reasons

# The machine was bad, but what was measured in spite of it still convicts. Every other reason voids everything.
SPARES_A_REGRESSION = frozenset({"TOO_MANY_VOID"})


def verdict(
    policy: Policy,
    metrics: Sequence[Metric],
    blocks: Sequence[BlockValues],
    trials: Sequence[Trial],
    *,
    num_void: int,
    seed: int,
    slow_rate: float = 0.0,
    invalid: Sequence[Reason] = (),
    extensions: Sequence[Extension] = (),
) -> Decision:
    """The decision after these valid blocks and all trials so far, in the order they ran.

    `invalid`: reasons found elsewhere why nothing can be concluded (same code, environment). See `decide` for
    `seed`, `slow_rate` and `extensions`. Raises UsageError where no metric is primary.
    """
    decision = decide(policy, metrics, blocks, seed=seed, slow_rate=slow_rate, extensions=extensions)
    is_final = decision.state == "done"
    found = (
        *invalid,
        *failure_reasons(policy, trials),
        *void_reasons(policy, num_valid=len(blocks), num_void=num_void, is_final=is_final),
        *(carry_over_reasons(policy, metrics, blocks, seed) if is_final else ()),
    )
    notes = (*output_reasons(trials), *exact_reasons(metrics, blocks))
    return conclude(decision, invalid=found, notes=notes)


def output_reasons(trials: Sequence[Trial]) -> tuple[Reason, ...]:
    return digest_reasons([(t.side, t.digests) for t in trials if t.stage > 0 and t.status == "ok"])


def exact_reasons(metrics: Sequence[Metric], blocks: Sequence[BlockValues]) -> tuple[Reason, ...]:
    """Counts that differ between the arms in every launch: a change of function, said before any speed."""
    exact = [m for m in metrics if m.exact and blocks and all(m.name in block.values for block in blocks)]
    return tuple(changed_reason(m, blocks) for m in exact if metric_equality(m, blocks) == "changed")


def conclude(decision: Decision, *, invalid: Sequence[Reason] = (), notes: Sequence[Reason] = ()) -> Decision:
    """Puts notes first and lets reasons of invalidity end the comparison.

    A confirmed regression outlasts void blocks, nothing else. A faster head with other output is not an
    improvement: it ends INCONCLUSIVE, and says so first.
    """
    fatal = [r for r in invalid if r.code not in SPARES_A_REGRESSION]
    reasons = (*notes, *invalid, *decision.reasons)
    if fatal or (invalid and decision.outcome is not Outcome.REGRESSION):
        metrics = tuple(replace(result, outcome=Outcome.INVALID) for result in decision.metrics)
        return replace(decision, state="done", outcome=Outcome.INVALID, metrics=metrics, reasons=reasons)
    if any(note.code == "OUTPUT_CHANGED" for note in notes):
        metrics = tuple(_without_improvement(result) for result in decision.metrics)
        outcome = overall([result.outcome for result in metrics if result.metric.primary])
        return replace(decision, outcome=outcome, metrics=metrics, reasons=reasons)
    return replace(decision, reasons=reasons)


def _without_improvement(result: MetricResult) -> MetricResult:
    if result.outcome is not Outcome.IMPROVEMENT:
        return result
    reason = Reason(code="OUTPUT_CHANGED", text="faster, but the output is another one: not an improvement")
    return replace(result, outcome=Outcome.INCONCLUSIVE, reasons=(reason, *result.reasons))
