"""All trials of a campaign through all gates: what is judged, and the tables that reports show. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from perfguard.conditions.arm_gates import arm_findings, counted
from perfguard.conditions.coverage import coverage_json
from perfguard.conditions.findings import GATES, Finding, is_at_least, worst
from perfguard.conditions.leftovers import leftover_settings
from perfguard.conditions.plausible import read_trials
from perfguard.conditions.readings import Recorded
from perfguard.conditions.trial_gates import Links, campaign_findings
from perfguard.gate_policy import GatePolicy
from perfguard.records import Campaign, Reason, Side, Trial

SIDES: tuple[Side, Side] = ("base", "head")
# What is plotted, and which card speaks for a trial of several: the slowest, the hottest, the hungriest.
PLOTTED = {"sm_clock_mhz": min, "temperature_c": max, "power_average_w": max}


@dataclass(frozen=True, kw_only=True)
class Assessment:
    """`of_trials` in the order they ran, first runs included; `of_arms` compares those that count."""

    seen: tuple[Recorded, ...]
    of_trials: tuple[tuple[Trial, list[Finding]], ...]
    of_arms: tuple[Finding, ...]

    @property
    def stops(self) -> list[Reason]:
        """Why the campaign cannot go on, each once."""
        found = (f.reason for _, findings in self.of_trials for f in findings if is_at_least(f.action, "stop"))
        return list(dict.fromkeys(found))


def assess(gates: GatePolicy, trials: Sequence[Trial], links: Links) -> Assessment:
    """`trials` in the order they ran; `links`: see `trial_gates.gated`."""
    seen = read_trials(trials)
    return Assessment(
        seen=tuple(seen),
        of_trials=tuple(campaign_findings(gates, seen, links)),
        of_arms=tuple(arm_findings(gates, seen)),
    )


def links_of(campaign: Campaign) -> Links:
    """The links known when the campaign was planned."""
    found: Links = campaign.method.get("links", {})
    return found


def conditions_json(
    campaign: Campaign, trials: Sequence[Trial], gates: GatePolicy, found: Assessment
) -> dict[str, Any]:
    """{"coverage", "gates": [row], "trials": [what is plotted], "settings": [sentence]} of a comparison."""
    num_counted = sum(t.stage > 0 and t.status == "ok" for t in trials)
    return {
        "coverage": coverage_json(counted(found.seen), num_counted, campaign.machine),
        "gates": [_row(gates, gate, found) for gate in GATES] if found.seen else [],
        "trials": [_plotted(one) for one in found.seen if one.trial.stage > 0],
        "settings": _settings(campaign, trials),
    }


def _row(gates: GatePolicy, gate: str, found: Assessment) -> dict[str, Any]:
    """How many measured trials of each arm the gate spoke in, and what came of it."""
    of_trials = [(t, f) for t, findings in found.of_trials if t.stage > 0 for f in findings if f.gate == gate]
    of_arms = [f for f in found.of_arms if f.gate == gate]
    findings = [*of_arms, *(f for _, f in of_trials)]
    return {
        "gate": gate,
        "what": GATES[gate],
        **{side: _count(side, of_trials, found) for side in SIDES},
        "action": worst([f.action for f in findings]) if findings else getattr(gates, gate),
        "found": list(dict.fromkeys(f"{f.code}: {f.text}" for f in findings)),
    }


def _count(side: Side, of_trials: Sequence[tuple[Trial, Finding]], found: Assessment) -> dict[str, int]:
    measured = [one.trial.id for one in found.seen if one.trial.stage > 0 and one.trial.side == side]
    return {"trials": len({t.id for t, _ in of_trials if t.side == side}), "of": len(measured)}


def _plotted(one: Recorded) -> dict[str, Any]:
    trial = one.trial
    place = {"stage": trial.stage, "block": trial.block, "slot": trial.slot, "side": trial.side, "status": trial.status}
    means: dict[str, float | None] = {}
    for name, choose in PLOTTED.items():
        values = [mean for gpu in one.gpus if gpu.is_used and (mean := gpu.loaded_mean(name)) is not None]
        means[name] = choose(values) if values else None
    return {**place, **means}


def _settings(campaign: Campaign, trials: Sequence[Trial]) -> list[str]:
    """Forgotten variables that trials ran under, by arm where only one did."""
    by_side = {arm.side: list(dict.fromkeys(_of_arm(arm.side, arm.env, trials))) for arm in campaign.arms}
    both = [text for text in by_side.get("base", []) if text in by_side.get("head", [])]
    own = [f"{side}: {text}" for side, texts in by_side.items() for text in texts if text not in both]
    return [*both, *own]


def _of_arm(side: Side, wanted: Mapping[str, str], trials: Sequence[Trial]) -> Iterator[str]:
    for trial in trials:
        environment = trial.record.get("environment")
        if trial.side == side and isinstance(environment, Mapping):
            yield from leftover_settings(environment, wanted)
