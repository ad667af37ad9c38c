"""Outcomes that what is known of the sides does not allow, whatever the numbers are. Pure."""

from dataclasses import replace

from perfguard.records import Campaign, Decision, Outcome, Reason
from perfguard.stats.judge import CHANGES


def withhold_equivalence(decision: Decision, note: str) -> Decision:
    """Two equal numbers of code that nobody saw may be one code measured twice."""
    reason = Reason(code="CODE_UNKNOWN", text=f"{note}; EQUIVALENT is withheld (python -E and -I hide what is loaded)")
    is_equivalent = decision.outcome is Outcome.EQUIVALENT
    outcome = Outcome.INCONCLUSIVE if is_equivalent else decision.outcome
    return replace(decision, outcome=outcome, reasons=(reason, *decision.reasons))


def are_same(campaign: Campaign) -> bool:
    """Whether the sides are one commit with the same settings."""
    base, head = campaign.arms
    return replace(head, side=base.side, revision=replace(head.revision, name=base.revision.name)) == base


def withhold_change(campaign: Campaign, decision: Decision) -> Decision:
    """Between sides that are the same in everything a report would be a phantom, whatever the numbers are."""
    if decision.outcome not in CHANGES or not are_same(campaign):
        return decision
    text = f"both sides are the same commit with the same settings: {decision.outcome} would be a phantom"
    metrics = tuple(
        replace(result, outcome=Outcome.INVALID) if result.outcome in CHANGES else result for result in decision.metrics
    )
    reasons = (Reason(code="SAME_SIDES", text=text), *decision.reasons)
    return replace(decision, outcome=Outcome.INVALID, metrics=metrics, reasons=reasons)
