"""Records -> the JSON of a comparison (schema perfguard/comparison@1). Pure; every output format starts from it."""

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from perfguard.errors import EXIT_CODES
from perfguard.records import Arm, Campaign, Decision, MetricResult, Reason, Trial

SCHEMA = "perfguard/comparison@1"


def arm_json(arm: Arm) -> dict[str, Any]:
    revision = arm.revision
    patch = hashlib.sha256(revision.patch).hexdigest() if revision.patch else None
    return {
        "revision": revision.name,
        "commit": revision.commit,
        "subject": revision.subject,
        "committed_at": revision.committed_at,
        "patch_sha256": patch,
        "env": dict(arm.env),
        "params": dict(arm.params),
        "python": arm.python,
    }


def metric_json(result: MetricResult) -> dict[str, Any]:
    metric = result.metric
    return {
        "name": metric.name,
        "unit": metric.unit,
        "better": metric.better,
        "primary": metric.primary,
        "exact": metric.exact,
        "outcome": str(result.outcome),
        "slowdown": result.slowdown,
        "ci_low": result.ci_low,
        "ci_high": result.ci_high,
        "base_median": result.base_median,
        "head_median": result.head_median,
        "p_order": result.p_order,
        "mde": result.mde,
        "decided_at": result.decided_at,
        "reasons": [reason_json(r) for r in result.reasons],
    }


def reason_json(reason: Reason) -> dict[str, str]:
    return {"code": reason.code, "text": reason.text}


def workload_json(campaign: Campaign) -> dict[str, Any]:
    workload = campaign.workload
    return {
        "name": workload.name,
        "runner": workload.runner,
        "modes": list(workload.modes),
        "params": dict(workload.params),
        "world_size": workload.world_size,
        "command": list(workload.command),
        "read": workload.read,
        "setup": workload.setup,
    }


def trials_json(trials: Sequence[Trial]) -> dict[str, int]:
    """Measured trials by status; the unmeasured first runs of each build are not among them."""
    counted = Counter(t.status for t in trials if t.stage > 0)
    return {status: counted.get(status, 0) for status in ("ok", "invalid", "crashed", "timed_out")}


def comparison_json(
    campaign: Campaign,
    decision: Decision,
    trials: Sequence[Trial],
    *,
    used_blocks: int,
    void_blocks: int,
    sentence: str,
    conclusions: Mapping[str, str],
    next_step: str,
    stopped: str = "",
) -> dict[str, Any]:
    """The whole comparison, ready for `json.dumps`: no NaN, no records."""
    base, head = campaign.arms
    return {
        "schema": SCHEMA,
        "id": campaign.id,
        "kind": campaign.kind,
        "created_at": campaign.created_at,
        "outcome": str(decision.outcome),
        "exit_code": EXIT_CODES[decision.outcome],
        "scope": campaign.scope,
        "sentence": sentence,
        "base": arm_json(base),
        "head": arm_json(head),
        "workload": workload_json(campaign),
        "seed": campaign.seed,
        "margin": campaign.policy["margin"],
        "alpha": campaign.policy["alpha"],
        "policy": dict(campaign.policy),
        "metrics": [metric_json(m) for m in decision.metrics],
        "blocks": {"used": used_blocks, "void": void_blocks, "needed": decision.blocks_needed},
        "trials": trials_json(trials),
        "reasons": [reason_json(r) for r in decision.reasons],
        "conclusions": dict(conclusions),
        "next": next_step,
        "stopped": stopped,
        "claimed": _claimed(campaign),
        "machine": dict(campaign.machine),
        "method": {k: v for k, v in campaign.method.items() if k != "repo_modules"},
    }


def _claimed(campaign: Campaign) -> dict[str, Any]:
    return {"value": campaign.method["claimed"]} if "claimed" in campaign.method else {}
