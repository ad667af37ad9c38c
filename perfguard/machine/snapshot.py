"""All GPUs of this machine read once, in a process of its own: an NVML library that crashes or hangs ends there.

`main` is what that process does; `snapshot` starts it and never raises for the machine.
"""

import ctypes
import json
import os
import signal
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from perfguard.machine.child import Child, ChildGone, answer, start_child
from perfguard.machine.fields import CHEAP, DEAR
from perfguard.machine.nvml import LIMIT_S, OPEN_LIMIT_S, Nvml, open_nvml
from perfguard.machine.reading import Reading, from_json, readings_from_json, readings_to_json, to_json
from perfguard.machine.simulated import is_simulated

LIBRARY = "libnvidia-ml.so.1"
NOT_FOUND = "NVML: NVML Shared Library Not Found"
# The process gives up by itself after a limit to open and one to read; what is left is its start and honest work.
START_S = 30.0
# Its end, after the answer.
CLOSE_S = 5.0
CHEAP_REPEATS, DEAR_REPEATS = 50, 5


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """`reason` says why no card is listed. `gpus`: cards and MIG slices by UUID, in the order of their bus.

    `costs_s`: what reading each field took on the first card; empty unless asked for.
    """

    reason: str = ""
    gpus: Mapping[str, Mapping[str, Reading]] = field(default_factory=dict)
    unreadable: Mapping[str, str] = field(default_factory=dict)
    parents: Mapping[str, str] = field(default_factory=dict)
    topology: Mapping[tuple[str, str], Reading] = field(default_factory=dict)
    system: Mapping[str, Reading] = field(default_factory=dict)
    costs_s: Mapping[str, float] = field(default_factory=dict)


def snapshot(
    names: Sequence[str], *, with_costs: bool = False, limit_s: float = LIMIT_S, open_limit_s: float = OPEN_LIMIT_S
) -> Snapshot:
    """The named fields of every card. The limits are the driver's; a machine without NVML costs no process."""
    if not is_simulated(os.environ):
        try:
            ctypes.CDLL(LIBRARY)
        except OSError:
            return Snapshot(reason=NOT_FOUND)
    limits = {"limit_s": limit_s, "open_limit_s": open_limit_s}
    wanted = json.dumps({"names": list(names), "with_costs": with_costs, **limits})
    return _asked(wanted, sum(limits.values()) + START_S)


def _asked(wanted: str, limit_s: float) -> Snapshot:
    try:
        child = start_child(__name__, [wanted])
    except OSError as error:
        return Snapshot(reason=f"NVML: the process that asks it cannot be started: {error}")
    try:
        told = child.hear(limit_s)
    except TimeoutError:
        _abandon(child)
        return Snapshot(reason="NVML did not answer, and the process that asked it does not end")
    except ChildGone as error:
        code = child.process.returncode
        _abandon(child)
        is_crash = code is not None and code < 0
        return Snapshot(
            reason=f"NVML: its library crashed ({signal.Signals(-code).name})" if is_crash else f"NVML: {error}"
        )
    except BaseException:
        _abandon(child)
        raise
    child.close(CLOSE_S)
    return from_plain(told)


def take(nvml: Nvml, names: Sequence[str], *, with_costs: bool = False) -> Snapshot:
    """The same from a session in this process."""
    uuids = nvml.uuids()
    costs: dict[str, float] = {}
    if with_costs and uuids:
        cheap = nvml.read_costs(uuids[0], CHEAP, CHEAP_REPEATS)
        costs = cheap | nvml.read_costs(uuids[0], DEAR, DEAR_REPEATS)
    return Snapshot(
        reason=nvml.reason,
        gpus={uuid: nvml.read(uuid, names) for uuid in nvml.handles},
        unreadable=nvml.unreadable,
        parents=nvml.parents,
        topology=nvml.topology() if len(uuids) > 1 else {},
        system=nvml.system(),
        costs_s=costs,
    )


def to_plain(taken: Snapshot) -> dict[str, Any]:
    return {
        "reason": taken.reason,
        "gpus": {uuid: readings_to_json(readings) for uuid, readings in taken.gpus.items()},
        "unreadable": dict(taken.unreadable),
        "parents": dict(taken.parents),
        "topology": [[a, b, to_json(reading)] for (a, b), reading in taken.topology.items()],
        "system": readings_to_json(taken.system),
        "costs_s": dict(taken.costs_s),
    }


def from_plain(plain: Mapping[str, Any]) -> Snapshot:
    """The inverse of `to_plain`."""
    return Snapshot(
        reason=plain["reason"],
        gpus={uuid: readings_from_json(readings) for uuid, readings in plain["gpus"].items()},
        unreadable=plain["unreadable"],
        parents=plain["parents"],
        topology={(a, b): from_json(reading) for a, b, reading in plain["topology"]},
        system=readings_from_json(plain["system"]),
        costs_s=plain["costs_s"],
    )


def _abandon(child: Child) -> None:
    """A process stuck in the driver may outlive even SIGKILL: nobody waits for it, and no second one is started."""
    child.process.kill()
    threading.Thread(target=child.close, args=(CLOSE_S,), daemon=True).start()


def main() -> None:
    """What the process does."""
    wanted = json.loads(sys.argv[1])
    with open_nvml(limit_s=wanted["limit_s"], open_limit_s=wanted["open_limit_s"]) as nvml:
        taken = take(nvml, wanted["names"], with_costs=wanted["with_costs"])
    answer(to_plain(taken))
