"""Story: is this machine fit to measure? Reads everything once, hands it to the diagnosis, returns JSON data.

Must not judge (perfguard.diagnosis does) and must not change anything.
"""

import os
import shutil
import subprocess
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from perfguard.conditions.leftovers import CHOICES, SETTINGS
from perfguard.diagnosis import diagnose, exit_code
from perfguard.diagnosis.records import MachineState, Setup
from perfguard.diagnosis.setup import nccl_settings
from perfguard.machine.fields import CHEAP, FIELDS
from perfguard.machine.host_state import host_state
from perfguard.machine.nvml import LIMIT_S, bindings_name
from perfguard.machine.reading import Reading, readings_to_json, to_json, unknown
from perfguard.machine.snapshot import Snapshot, snapshot
from perfguard.subject.workspace import cache_root

# Steal and swapping are counters: they are watched for this long at least.
WATCH_S = 0.5
# As telemetry samples while a trial runs.
INTERVAL_S = 0.1
GIT_LIMIT_S = 10.0
CUDA_CHOICE = ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER")


def examine(database: Path, *, with_costs: bool = False, limit_s: float = LIMIT_S) -> dict[str, Any]:
    """Everything that `perfguard doctor` shows. `database`: where results would go. Never raises for the machine."""
    began_s = time.monotonic()
    before = host_state()
    taken = snapshot(tuple(FIELDS), with_costs=with_costs, limit_s=limit_s)
    state = MachineState(
        gpus=taken.gpus,
        nvml_reason=taken.reason,
        unreadable=taken.unreadable,
        parents=taken.parents,
        topology=taken.topology,
        host_before=before,
        host=_later_host(began_s),
        own_pids=frozenset({os.getpid()}),
        setup=_setup(database),
    )
    return _report(state) | ({"self_cost": self_cost(taken)} if with_costs else {})


def self_cost(taken: Snapshot) -> dict[str, Any]:
    """What a sample, and both ends of a trial, cost on all cards, from what each field costs on the first."""
    num_gpus = len(taken.gpus) - len(taken.parents)
    if not taken.costs_s:
        return {"reason": taken.reason or "NVML lists no GPU"}
    sample_s = sum(cost for name, cost in taken.costs_s.items() if name in CHEAP) * num_gpus
    return {
        "num_gpus": num_gpus,
        "interval_s": INTERVAL_S,
        "sample_s": sample_s,
        "share_of_a_core": sample_s / INTERVAL_S,
        "before_and_after_s": 2 * sum(taken.costs_s.values()) * num_gpus,
        "fields_s": dict(taken.costs_s),
    }


def _later_host(began_s: float) -> Mapping[str, Reading]:
    time.sleep(max(0.0, began_s + WATCH_S - time.monotonic()))
    return host_state()


def _report(state: MachineState) -> dict[str, Any]:
    findings = diagnose(state)
    return {
        "schema": "perfguard/doctor@1",
        "exit_code": exit_code(findings),
        "findings": [asdict(finding) for finding in findings],
        "gpus": {uuid: readings_to_json(readings) for uuid, readings in state.gpus.items()},
        "topology": [[a, b, to_json(reading)] for (a, b), reading in state.topology.items()],
        "host": readings_to_json(state.host),
    }


def _setup(database: Path) -> Setup:
    return Setup(
        git=_git(),
        cache_free_bytes=_free_bytes(cache_root()),
        database=_writable(database),
        environment={name: value for name, value in os.environ.items() if name in (*SETTINGS, *CHOICES, *CUDA_CHOICE)},
        nccl_files=_nccl_files(os.environ),
        is_root=os.geteuid() == 0,
        bindings=bindings_name(),
    )


def _git() -> Reading:
    try:
        told = subprocess.run(["git", "--version"], capture_output=True, text=True, timeout=GIT_LIMIT_S, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        return unknown("error", f"git cannot be started: {error}")
    return Reading(value=told.stdout.strip())


def _free_bytes(folder: Path) -> Reading:
    place = _nearest(folder)
    if not os.access(place, os.W_OK | os.X_OK):
        return unknown("no_permission", f"{folder} cannot be written")
    return Reading(value=shutil.disk_usage(place).free)


def _writable(database: Path) -> Reading:
    """Nothing is created: asking must leave no trace."""
    folder = _nearest(database.parent)
    places = [database, folder] if database.exists() else [folder]
    refused = [str(place) for place in places if not os.access(place, os.W_OK) or not folder.is_dir()]
    return unknown("no_permission", f"{', '.join(refused)} cannot be written") if refused else Reading(value=True)


def _nearest(folder: Path) -> Path:
    """The folder, or the lowest one above it that is there."""
    folder = folder.absolute()
    return next(place for place in (folder, *folder.parents) if place.exists())


def _nccl_files(environment: Mapping[str, str]) -> dict[str, list[str]]:
    """NCCL reads these whatever the environment says."""
    paths = [Path("/etc/nccl.conf"), Path(environment.get("NCCL_CONF_FILE") or Path.home() / ".nccl.conf")]
    found = {}
    for path in paths:
        try:
            found[str(path)] = nccl_settings(path.read_text(errors="replace"))
        except OSError:
            continue
    return found
