"""A machine's own history: what a campaign adds to it, and what a step in it says. Pure.

The reference arm's absolute level shows the machine as long as commit, parameters, environment and measuring program
are the same; all of them are in the reading's name.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from perfguard.conditions.moved import ALPHA, step_now
from perfguard.conditions.readings import Recorded
from perfguard.records import Campaign, MachineReading, Trial

LINK_PARTS = ("generation", "width")
# Links of so many campaigns are remembered: a card that stays in a slower slot is the machine as it is now.
LINK_CAMPAIGNS = 5


def machine_of(fingerprint: Mapping[str, Any]) -> str:
    """The machine whatever its driver and kernel: a history goes on over their changes, which are what it shows."""
    return str((fingerprint.get("host") or {}).get("hostname_sha256", ""))


def facts_of(fingerprint: Mapping[str, Any]) -> dict[str, str]:
    """What may explain a step, as flat texts: driver, kernel, slots, memory policy, and all else in the fingerprint."""
    gpus = (fingerprint.get("gpu") or {}).get("gpus") or []
    flat = {
        f"{room}.{name}": value
        for room in fingerprint
        for name, value in (fingerprint.get(room) or {}).items()
        if name not in ("gpus", "unknown", "hostname_sha256")
    }
    flat |= {f"{gpu.get('uuid')}.{name}": value for gpu in gpus for name, value in gpu.items() if name != "unknown"}
    return {name: str(value) for name, value in sorted(flat.items()) if value not in (None, "", {}, [])}


def campaign_readings(
    campaign: Campaign, trials: Sequence[Trial], seen: Sequence[Recorded], measured_at: str
) -> list[MachineReading]:
    """Levels of base, and each card's link and clock under load."""
    facts = facts_of(campaign.machine)
    values = {**_levels(campaign, trials), **_of_cards(seen)}
    return [
        MachineReading(name=name, unit=unit, value=value, measured_at=measured_at, source=campaign.id, facts=facts)
        for name, (value, unit) in values.items()
    ]


def _levels(campaign: Campaign, trials: Sequence[Trial]) -> dict[str, tuple[float, str]]:
    base = [t for t in trials if t.side == "base" and t.stage > 0 and t.status == "ok"]
    found = {}
    for metric in campaign.workload.metrics:
        values = [t.values[metric.name] for t in base if t.values.get(metric.name, 0.0) > 0]
        if values and metric.primary and not metric.exact:
            found[f"level/{campaign.workload.name}/{metric.name}/{_what(campaign)}"] = median(values), metric.unit
    return found


def _what(campaign: Campaign) -> str:
    """What was measured in base, in twelve hex digits."""
    arm, workload = campaign.arms[0], campaign.workload
    program = "" if workload.runner == "command" else str(campaign.method.get("runner_sha256"))
    what = [
        arm.revision.commit,
        hashlib.sha256(arm.revision.patch).hexdigest(),
        dict(arm.env),
        {**workload.params, **arm.params},
        list(workload.command),
        list(workload.modes),
        campaign.scope,
        program,
    ]
    return hashlib.sha256(json.dumps(what, sort_keys=True, default=str).encode()).hexdigest()[:12]


def _of_cards(seen: Sequence[Recorded]) -> dict[str, tuple[float, str]]:
    links = [(gpu.uuid, part, gpu.link[part]) for one in seen for gpu in one.gpus if gpu.is_used for part in gpu.link]
    found = {}
    for uuid, part in dict.fromkeys((uuid, part) for uuid, part, _ in links):
        best = max(value for card, of, value in links if (card, of) == (uuid, part))
        if best > 0:
            found[link_name(uuid, part)] = best, ""
    return found


def link_name(uuid: str, part: str) -> str:
    return f"pcie_{part}/{uuid}"


def known_link(history: Sequence[MachineReading]) -> float | None:
    """The best of the latest campaigns."""
    return max((one.value for one in history[-LINK_CAMPAIGNS:]), default=None)


def notice_of(history: Sequence[MachineReading]) -> dict[str, Any] | None:
    """What is to be told if the newest reading makes a step certain; None if it does not. `history`: oldest first."""
    step = step_now([one.value for one in history])
    if step is None:
        return None
    first, last = history[step.index], history[-1]
    changed = _changed(history[step.index - 1].facts, last.facts)
    words = f"{first.name} moved from {step.before:.5g} to {step.after:.5g} {first.unit}".rstrip()
    since = f"({100 * step.change:+.1f} %) with the readings from {first.measured_at} on"
    cause = f"changed meanwhile: {'; '.join(changed)}" if changed else "nothing else is known to have changed"
    return {
        "code": "MACHINE_MOVED",
        "text": f"{words} {since}; {cause}. The machine moved; this accuses no commit.",
        "name": first.name,
        "unit": first.unit,
        "before": step.before,
        "after": step.after,
        "change": step.change,
        "since": first.measured_at,
        "p": step.p,
        "false_alarm_rate": ALPHA,
        "changed": changed,
    }


def _changed(then: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """ "gpu.driver was 570.1 and is 580.2" for each fact that is another one than just before the step."""
    names = [name for name in sorted(then.keys() | now.keys()) if then.get(name) != now.get(name)]
    return [f"{name} was {then.get(name, 'unknown')} and is {now.get(name, 'unknown')}" for name in names]
