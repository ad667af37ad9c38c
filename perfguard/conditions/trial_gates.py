"""One trial through all gates, at the moment it ended and again on replay. Pure, and blind to what it measured.

Reads the trial's own conditions, those of earlier trials of its campaign, and the links known from this machine's
history, which the campaign carries.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from perfguard.conditions.findings import Finding, finding, is_at_least
from perfguard.conditions.gpu_gates import gpu_findings, name_of
from perfguard.conditions.host_gates import host_findings
from perfguard.conditions.plausible import read_trials
from perfguard.conditions.readings import GpuRecord, Recorded, host_of, number, recorded
from perfguard.gate_policy import GatePolicy
from perfguard.records import Trial

# What must not change while a campaign runs: a card's own facts, and the host's.
GPU_FACTS = ("driver", "pci_bus_id", "parent_bridge", "vbios", "numa_node", "mig_is_on", "pcie_width_max")
HOST_FACTS = ("kernel", "num_numa_nodes")
Links = Mapping[str, Mapping[str, float]]


def gated(gates: GatePolicy, trial: Trial, earlier: Sequence[Trial], links: Links) -> Trial:
    """The trial as it is to be stored: invalid where a gate voids it. Unmeasured first runs void nothing.

    `earlier`: trials of the campaign that ran before this one. `links`: uuid -> best PCIe generation and width known
    from earlier campaigns on this machine.
    """
    if trial.status != "ok" or trial.stage == 0:
        return trial
    *before, now = read_trials([*earlier, trial]) or [recorded(trial)]
    found = trial_findings(gates, now, before, links) if now.trial is trial else []
    reasons = tuple(dict.fromkeys(f.reason for f in found if is_at_least(f.action, "void")))
    return replace(trial, status="invalid", reasons=(*trial.reasons, *reasons)) if reasons else trial


def is_voided_by_gate(trial: Trial) -> bool:
    """Did a gate alone make it invalid, whatever ran? `gated` voids only what was fine by itself, and gates have codes
    in capitals where a launch's own are in small letters.
    """
    return trial.status == "invalid" and bool(trial.reasons) and all(reason.code.isupper() for reason in trial.reasons)


def campaign_findings(gates: GatePolicy, trials: Sequence[Recorded], links: Links) -> list[tuple[Trial, list[Finding]]]:
    """What the gates say of each trial, in the order they ran."""
    return [(one.trial, trial_findings(gates, one, trials[:place], links)) for place, one in enumerate(trials)]


def trial_findings(gates: GatePolicy, now: Recorded, earlier: Sequence[Recorded], links: Links) -> list[Finding]:
    return [*_of_gpus(gates, now, earlier, links), *_of_the_rest(gates, now, earlier)] if now.conditions else []


def _of_gpus(gates: GatePolicy, now: Recorded, earlier: Sequence[Recorded], links: Links) -> Iterator[Finding]:
    for gpu in (gpu for gpu in now.gpus if gpu.is_used):
        same_card = [one for trial in earlier for one in trial.gpus if one.uuid == gpu.uuid]
        target_mhz = target_of(now.conditions, gpu.uuid)
        yield from gpu_findings(gates, gpu, earlier=same_card, link=links.get(gpu.uuid, {}), target_mhz=target_mhz)


def _of_the_rest(gates: GatePolicy, now: Recorded, earlier: Sequence[Recorded]) -> Iterator[Finding]:
    yield from _telemetry(gates, now.conditions)
    if earlier:
        yield from _identity(gates, earlier[0], now)
    yield from host_findings(gates, now.conditions)


def target_of(conditions: Mapping[str, Any], uuid: str) -> float | None:
    """The SM clock that was locked for this trial; None where clocks were only observed."""
    clocks = conditions.get("clocks") or {}
    own = clocks.get("gpus", {}).get(uuid, clocks)
    return number(own.get("target_mhz")) if isinstance(own, Mapping) else None


def _telemetry(gates: GatePolicy, conditions: Mapping[str, Any]) -> Iterator[Finding]:
    telemetry = conditions.get("telemetry") or {}
    if telemetry.get("status") in ("died", "hung"):
        text = f"GPU telemetry {telemetry['status']} during the trial: {telemetry.get('why') or 'no word why'}"
        yield finding(gates, "telemetry", text)


def _identity(gates: GatePolicy, first: Recorded, now: Recorded) -> Iterator[Finding]:
    then_gpus, now_gpus = ({gpu.uuid: gpu for gpu in one.gpus if gpu.is_used} for one in (first, now))
    # A sampler that died names no cards at all: that is its own gate.
    if then_gpus and now_gpus and then_gpus.keys() != now_gpus.keys():
        gone, new = sorted(then_gpus.keys() - now_gpus.keys()), sorted(now_gpus.keys() - then_gpus.keys())
        words = [f"{', '.join(gone)} gone"] * bool(gone) + [f"{', '.join(new)} new"] * bool(new)
        text = f"other cards than at the first trial: {', '.join(words)}"
        yield finding(gates, "identity", text, code="MACHINE_CHANGED")
    for uuid in sorted(then_gpus.keys() & now_gpus.keys()):
        yield from _gpu_facts(gates, then_gpus[uuid], now_gpus[uuid])
    for name in HOST_FACTS:
        then, later = (host_of(one.conditions, "before", name) for one in (first, now))
        if then is not None and later is not None and then != later:
            text = f"{name} was {then} at the first trial and is {later}"
            yield finding(gates, "identity", text, code="MACHINE_CHANGED")


def _gpu_facts(gates: GatePolicy, first: GpuRecord, now: GpuRecord) -> Iterator[Finding]:
    for name in GPU_FACTS:
        then, values = first.at("before", name), [now.at("before", name), now.at("after", name)]
        if changed := [value for value in values if then is not None and value is not None and value != then]:
            text = f"{name_of(now)}: {name} was {then} at the first trial and is {changed[0]}"
            yield finding(gates, "identity", text, code="MACHINE_CHANGED")
