"""One stored campaign for a terminal: what was asked for, every trial whatever became of it, the verdict."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Console

from perfguard.policy import Policy
from perfguard.records import Arm, BlockPlan, Campaign, Metric, Trial
from perfguard.report import machine, outcomes, terminal, units

ASKED_FIRST = ("margin", "alpha", "max_blocks")


def render_show(
    campaign: Campaign,
    blocks: Sequence[BlockPlan],
    trials: Sequence[Trial],
    comparison: Mapping[str, Any] | None,
    console: Console,
) -> None:
    """`comparison` is the latest verdict, None when there is none yet."""
    terminal.render_facts(_facts(campaign, blocks), console)
    console.print()
    terminal.render_rows(TRIAL_COLUMNS, [_trial_cells(trial, campaign.workload.metrics) for trial in trials], console)
    if comparison is not None:
        console.print()
        terminal.render_comparison(comparison, trials, console)


def _facts(campaign: Campaign, blocks: Sequence[BlockPlan]) -> dict[str, object]:
    workload, shared = campaign.workload, outcomes.many_alike([arm.env for arm in campaign.arms])
    return {
        "campaign": f"{campaign.id}, {campaign.kind}, created {campaign.created_at}, "
        f"scope {outcomes.scope({'scope': campaign.scope, 'method': campaign.method})}",
        "repository": campaign.repository,
        "workload": _named(f"{workload.name} ({workload.runner})", workload.params),
        **({"command": " ".join(workload.command)} if workload.command else {}),
        **{arm.side: _arm(arm, shared) for arm in campaign.arms},
        **({"both have": ", ".join(shared)} if shared else {}),
        "policy": _named("", _own_policy(campaign.policy)),
        "seed": campaign.seed,
        "machine": ", ".join(machine.facts(campaign.machine)) or "not recorded",
        "planned": ", ".join(f"{b.stage}.{b.index} {b.order} {b.builds}" for b in blocks) or "no blocks",
    }


def _own_policy(policy: Mapping[str, Any]) -> dict[str, Any]:
    """The three that every reader looks for, and whatever is not as it is by default."""
    usual = asdict(Policy())
    return {key: item for key, item in policy.items() if key in ASKED_FIRST or usual.get(key) != item}


def _arm(arm: Arm, shared: Sequence[str]) -> str:
    revision = arm.revision
    patch = f"+ patch of {units.value(len(revision.patch), 'bytes')}" if revision.is_dirty else ""
    head = "  ".join(part for part in (revision.name, revision.commit, patch) if part)
    return f"{_named(head, {**outcomes.without(arm.env, shared), **arm.params})}  {revision.subject}".rstrip()


def _named(head: str, parameters: Mapping[str, Any]) -> str:
    return "  ".join([head, *(f"{key}={item}" for key, item in parameters.items())]).strip()


TRIAL_COLUMNS = ("block", "slot", "side", "build", "attempt", "status", "wall", "measured", "values and reasons")


def _trial_cells(trial: Trial, metrics: Sequence[Metric]) -> tuple[str, ...]:
    shown = [metric for metric in metrics if metric.primary and metric.name in trial.values]
    values = [f"{metric.name} {units.value(trial.values[metric.name], metric.unit)}" for metric in shown]
    reasons = [f"{reason.code}: {reason.text}" for reason in trial.reasons]
    block = f"{trial.stage}.{trial.block}" if trial.stage > 0 else "first run"
    return (
        block,
        str(trial.slot),
        trial.side,
        str(trial.build),
        str(trial.attempt),
        trial.status,
        units.duration(trial.wall_s),
        units.duration(trial.measured_s),
        "; ".join([*values, *reasons]),
    )
