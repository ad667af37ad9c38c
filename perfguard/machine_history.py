"""The history of this machine: what a campaign or the bench adds to it, and whether the newest readings are a step.

Joins the store with conditions/. Accuses no code: a step is a notice beside the verdict, never a part of it.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from perfguard.conditions.history import (
    LINK_PARTS,
    campaign_readings,
    known_link,
    link_name,
    machine_of,
    notice_of,
)
from perfguard.conditions.plausible import read_trials
from perfguard.records import Campaign, MachineReading, Trial
from perfguard.store import Store

# Source of readings that no campaign gave.
BENCH = "bench"


def with_links(campaign: Campaign, store: Store) -> Campaign:
    """The campaign with the PCIe links that this machine is known for, so that they are judged by when it replays."""
    machine = machine_of(campaign.machine)
    uuids = [gpu["uuid"] for gpu in campaign.machine.get("gpu", {}).get("gpus", []) if gpu.get("uuid")]
    links: dict[str, dict[str, float]] = {}
    for uuid in uuids:
        for part in LINK_PARTS:
            best = known_link(store.machine_readings(machine, link_name(uuid, part)))
            if best is not None:
                links.setdefault(uuid, {})[part] = best
    return replace(campaign, method={**campaign.method, "links": links}) if links else campaign


def remember(campaign: Campaign, trials: Sequence[Trial], store: Store) -> list[dict[str, Any]]:
    """Keep what this campaign says of the machine; notices of the steps that it makes certain."""
    readings = campaign_readings(campaign, trials, read_trials(trials), now())
    return add_readings(machine_of(campaign.machine), readings, store)


def add_readings(machine: str, readings: Sequence[MachineReading], store: Store) -> list[dict[str, Any]]:
    """Notices of steps, one for each reading that makes one certain. A campaign that goes on adds nothing twice."""
    new = [one for one in readings if one.source == BENCH or not _is_known(machine, one, store)]
    store.add_machine_readings(machine, new)
    found = (notice_of(store.machine_readings(machine, one.name)) for one in new)
    return [notice for notice in found if notice is not None]


def _is_known(machine: str, reading: MachineReading, store: Store) -> bool:
    return any(one.source == reading.source for one in store.machine_readings(machine, reading.name))


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
