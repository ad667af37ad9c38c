"""What findings by arm do to a decision. Pure.

A limit can only slow the arm that it meets, and through the clock it can slow it by no more than the clock it costs.
So a verdict that it can have made is INVALID, and every other one stands with the finding beside it: an arm that is
slower although the other one was limited, or by far more than its clock was, is slower.
"""

from collections.abc import Sequence
from dataclasses import replace
from math import log

from perfguard.conditions.findings import Finding
from perfguard.records import Decision, MetricResult, Outcome

# A limit that accounts for less than this share of an effect (or of the margin that EQUIVALENT allows) did not make it.
BLAMED_SHARE = 0.5


def with_findings(decision: Decision, findings: Sequence[Finding], margin: float) -> Decision:
    """Findings that are at least said come first among the reasons; those that decide make it INVALID and end it.

    `margin`: ratio, as in the policy. A finding to "void" speaks when the decision is done, one to "stop" at once.
    """
    said = [one for one in findings if one.action != "record"]
    deciding = [one for one in said if _decides(one, decision, margin)]
    reasons = (*dict.fromkeys(one.reason for one in said), *decision.reasons)
    if not deciding:
        return replace(decision, reasons=reasons)
    metrics = tuple(replace(result, outcome=Outcome.INVALID) for result in decision.metrics)
    return replace(decision, state="done", outcome=Outcome.INVALID, metrics=metrics, reasons=reasons)


def _decides(one: Finding, decision: Decision, margin: float) -> bool:
    if one.action == "stop":
        return True
    if one.action != "void" or decision.state != "done":
        return False
    return any(_can_have_made(one, result, margin) for result in decision.metrics if result.metric.primary)


def _can_have_made(one: Finding, result: MetricResult, margin: float) -> bool:
    """Could this metric have ended as it did only because one arm was limited?"""
    match result.outcome:
        case Outcome.EQUIVALENT:
            return _is_large(one, log(1 + margin))
        case Outcome.REGRESSION | Outcome.IMPROVEMENT | Outcome.SUSPECT if result.slowdown:
            slower = "head" if result.slowdown > 1 else "base"
            return one.limited == slower and _is_large(one, abs(log(result.slowdown)))
    return False


def _is_large(one: Finding, effect: float) -> bool:
    return one.explains is None or one.explains >= BLAMED_SHARE * effect
