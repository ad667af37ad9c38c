"""What is recorded of one side of a stored campaign, as named fields by hypothesis. Pure; judges nothing.

A field that is absent was not recorded. A hypothesis with an entry in `unknown` cannot be ruled out.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from perfguard.explaining.environment import ALSO, environment_fields, given_variables, places, reported_prefixes
from perfguard.explaining.surroundings import gpu_fields, machine_fields, neighbour_fields, no_gpu
from perfguard.protocol import ENVIRONMENT_PREFIXES
from perfguard.records import Arm, Campaign, Metric, Side, Trial

CODE, METHOD, ENVIRONMENT, SOFTWARE = "code", "method", "environment", "software"
GPU_STATE, MACHINE, NEIGHBOURS, NOISE = "GPU state", "machine", "neighbours", "noise"
HYPOTHESES = (CODE, METHOD, ENVIRONMENT, SOFTWARE, GPU_STATE, MACHINE, NEIGHBOURS, NOISE)
NO_RECORD = "no launch of it has a record"


@dataclass(frozen=True, kw_only=True)
class Facts:
    """One run as it is known. `fields[hypothesis][name]` is a text or a number, `unknown[hypothesis]` what lacks.

    `values[metric]`: one number a launch. `loaded`: files of the code under test that ran, module -> sha256, where
    they are all of it. `asked`: variables that were asked for. `places[variable]`: where it was changed on its way.
    `reported`: beginnings of the variables that would be named if they were set. `given`: all that launches were given
    beside those, None where that is not known: what is not in it was not set.
    """

    label: str
    values: Mapping[str, Sequence[float]] = field(default_factory=dict)
    metrics: Sequence[Metric] = ()
    fields: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    unknown: Mapping[str, str] = field(default_factory=dict)
    loaded: Mapping[str, str] = field(default_factory=dict)
    asked: Mapping[str, str] = field(default_factory=dict)
    places: Mapping[str, str] = field(default_factory=dict)
    reported: tuple[str, ...] = (*ENVIRONMENT_PREFIXES, *ALSO)
    given: Mapping[str, str] | None = None
    id: str = ""
    side: str = ""
    commit: str = ""
    created_at: str = ""
    workload: str = ""
    command: Sequence[str] = ()


def claimed_facts(metric: Metric, value: float) -> Facts:
    """A number that somebody believes: nothing of it was recorded."""
    nothing = dict.fromkeys(HYPOTHESES, "nothing was recorded with the claimed number")
    return Facts(
        label=f"{value:g} {metric.unit} (claimed)", values={metric.name: (value,)}, metrics=(metric,), unknown=nothing
    )


def facts_of(campaign: Campaign, side: Side, trials: Sequence[Trial], label: str = "") -> Facts:
    """Of the trials of one side, all or those a person named. Values are of valid measured launches only."""
    arm = next(arm for arm in campaign.arms if arm.side == side)
    own = [trial for trial in trials if trial.side == side]
    measured = [trial for trial in own if trial.stage > 0 and trial.status == "ok"]
    recorded = [trial for trial in (measured or own) if trial.record]
    record = recorded[-1].record if recorded else {}
    first_run = next((trial.record for trial in reversed(own) if trial.stage == 0 and trial.record), {})
    asked = dict(arm.env)
    fields, unknown = _fields(campaign, arm, record, first_run, recorded)
    return Facts(
        label=label or f"{campaign.id} {side}",
        values=_values(campaign, measured),
        metrics=campaign.workload.metrics,
        fields=fields,
        unknown=unknown,
        loaded=_loaded(campaign, record, first_run),
        asked=asked,
        places=places(record, first_run),
        reported=reported_prefixes(record),
        given=given_variables(record),
        id=campaign.id,
        side=side,
        commit=arm.revision.commit,
        created_at=campaign.created_at,
        workload=campaign.workload.name,
        command=campaign.workload.command,
    )


def _values(campaign: Campaign, measured: Sequence[Trial]) -> dict[str, tuple[float, ...]]:
    found = {
        metric.name: tuple(trial.values[metric.name] for trial in measured if metric.name in trial.values)
        for metric in campaign.workload.metrics
    }
    return {name: values for name, values in found.items() if values}


def _loaded(campaign: Campaign, record: Mapping[str, Any], first_run: Mapping[str, Any]) -> dict[str, str]:
    """Of built-in runners only: a command may read files that no Python process loads."""
    if campaign.workload.runner == "command":
        return {}
    origin = record.get("origin") or first_run.get("origin") or {}
    return {name: file["sha256"] for name, file in origin.items()}


def _fields(
    campaign: Campaign,
    arm: Arm,
    record: Mapping[str, Any],
    first_run: Mapping[str, Any],
    recorded: Sequence[Trial],
) -> tuple[dict[str, dict[str, Any]], dict[str, str]]:
    software = software_of(record, first_run)
    conditions = [trial.record["conditions"] for trial in recorded if trial.record.get("conditions")]
    fields = {
        CODE: code_fields(arm),
        METHOD: method_fields(campaign, arm, record),
        ENVIRONMENT: environment_fields(record, first_run, arm.env),
        SOFTWARE: software_fields(software, campaign.machine, arm.python) | _told(record),
        GPU_STATE: gpu_fields(conditions),
        MACHINE: machine_fields(campaign.machine),
        NEIGHBOURS: neighbour_fields(conditions),
    }
    lacking = {
        ENVIRONMENT: "" if record else NO_RECORD,
        SOFTWARE: "" if software.get("packages") else "installed packages were not recorded",
        GPU_STATE: "" if fields[GPU_STATE] or no_gpu(campaign.machine) else "no telemetry was recorded",
        MACHINE: "" if fields[MACHINE] else "the machine was not recorded",
        NEIGHBOURS: "" if fields[NEIGHBOURS] else "the load by others was not recorded",
    }
    return fields, {name: why for name, why in lacking.items() if why}


def code_fields(arm: Arm) -> dict[str, Any]:
    """The tree covers commit and patch; commit and patch say how to get it back."""
    revision = arm.revision
    patch = hashlib.sha256(revision.patch).hexdigest() if revision.patch else "none"
    return {"tree": revision.tree, "commit": revision.commit, "patch": patch}


def method_fields(campaign: Campaign, arm: Arm, record: Mapping[str, Any]) -> dict[str, Any]:
    """What was measured and how."""
    workload = campaign.workload
    fields = {
        "workload": workload.name,
        "runner": workload.runner,
        "command": " ".join(workload.command),
        "read": workload.read if workload.command else "",
        "setup": workload.setup,
        "modes": ", ".join(sorted(workload.modes)),
        "world_size": workload.world_size,
        "scope": campaign.scope,
        "perfguard": campaign.method.get("perfguard", ""),
    }
    if not workload.command:
        fields["runner_sha256"] = campaign.method.get("runner_sha256", "")
    fields |= {f"param {name}": value for name, value in {**workload.params, **arm.params}.items()}
    fields |= {f"metric {m.name}": f"{m.unit}, {m.better} is better" for m in workload.metrics}
    files = record.get("versions", {}).get("files_sha256", {})
    return fields | {f"file {name}": digest for name, digest in files.items()}


def software_of(record: Mapping[str, Any], first_run: Mapping[str, Any]) -> dict[str, Any]:
    """As rank 0 says, else as the largest group of a command's Python processes does."""
    ranks, processes = record.get("ranks") or (), first_run.get("processes") or ()
    told = (ranks[0].get("software") if ranks else None) or (processes[0].get("software") if processes else None) or {}
    versions = record.get("versions", {})
    session = versions.get("session", {}).get("versions", {})
    torch = told.get("torch") or {"version": versions.get("torch"), **session}
    known = {key: torch.get(key) for key in ("version", "cuda", "cudnn", "nccl") if torch.get(key)}
    python = str(told.get("python") or versions.get("python") or "").split(" ")[-1]
    return {"python": python, "torch": known, "packages": told.get("packages", {})}


def software_fields(software: Mapping[str, Any], machine: Mapping[str, Any], python: str) -> dict[str, Any]:
    host, gpu = machine.get("host", {}), machine.get("gpu", {})
    fields = {
        "python": software.get("python"),
        "interpreter": python or "that of perfguard",
        **{f"torch {name}" if name != "version" else "torch": v for name, v in software.get("torch", {}).items()},
        "driver": gpu.get("driver"),
        "driver cuda": gpu.get("cuda_driver"),
        "kernel": host.get("kernel"),
    }
    fields |= {f"package {name}": version for name, version in software.get("packages", {}).items()}
    return {name: value for name, value in fields.items() if value not in (None, "")}


def _told(record: Mapping[str, Any]) -> dict[str, Any]:
    """State of compile caches before a measured launch, and the MoE kernel settings an engine named."""
    told: dict[str, Any] = {}
    if caches := record.get("caches"):
        told["compile caches"] = "filled" if caches.get("num_files") else "empty"
    if moe := record.get("moe_configuration"):
        told["moe configuration"] = moe
    return told
