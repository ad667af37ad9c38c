"""The sampler process: reads the GPUs through NVML while a launch runs. Started by telemetry.py with the interval and
the limit of a reading in seconds, speaks JSON lines.

    in   {"do": "begin", "uuids": [...]}   out {uuid: {field: value}}: everything worth reading, before the launch
    in   {"do": "end"}                     out {"after": the same, "during": {uuid: {...}}, "hung": "" or why}
    in   {"do": "look", "uuids", "names"}  out {uuid: {field: value}}: some fields, between launches
    at its start it says {"interval_s": s}, or {"none": why} where there is no NVML

Must not print anything else, judge anything, or keep reading when nobody measures.
"""

import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from perfguard.machine.child import answer, ignore_signals_of_the_terminal, listen
from perfguard.machine.fields import FIELDS
from perfguard.machine.nvml import Nvml, open_nvml
from perfguard.machine.reading import readings_to_json, to_json
from perfguard.machine.samples import Track

DURING = (
    "sm_clock_mhz", "memory_clock_mhz", "temperature_c", "power_average_w", "event_reasons", "pstate",
    "pcie_generation", "pcie_width", "utilisation_percent",
)  # fmt: skip
# Before and after: all but what a machine's fingerprint holds, and throughput, which takes 20 ms to say nothing of an
# idle link.
NOT_AROUND = (
    "uuid", "name", "pci_bus_id", "parent_uuid", "board", "vbios", "cuda_driver", "numa_node", "memory_total_bytes",
    "sm_clock_max_mhz", "memory_clock_max_mhz", "sm_clock_application_default_mhz", "slowdown_temperature_c",
    "memory_clock_application_default_mhz", "sm_clock_locked_mhz", "memory_clock_locked_mhz", "power_limit_default_w",
    "pcie_generation_card_max", "event_reason_names", "pcie_tx_bytes_per_s", "pcie_rx_bytes_per_s",
)  # fmt: skip
AROUND = tuple(name for name in FIELDS if name not in NOT_AROUND)
# Ten a second: what matters lasts longer, and a sensor of power is renewed about as often.
LEAST_INTERVAL_S, MOST_INTERVAL_S = 0.1, 2.0
# A round of readings may take this share of its interval: one percent of one core.
COST_SHARE = 0.01
# Rounds whose cost is measured at the start; the first one also pays for what is loaded then.
TRY_ROUNDS = 4
# Changes kept of one launch, all fields of all cards together: about 10 kB compressed.
ROOM = 2400
LEAST_ROOM = 16


@dataclass(kw_only=True)
class Watch:
    """One launch under watch. `missed`: rounds that were due while an earlier one, or the machine, took too long."""

    uuids: Sequence[str]
    interval_s: float
    began_s: float
    next_s: float
    tracks: dict[tuple[str, str], Track] = field(default_factory=dict)
    num_samples: int = 0
    missed: int = 0

    def sample(self, nvml: Nvml) -> None:
        for uuid in self.uuids:
            now_s = time.monotonic()
            for name, reading in nvml.read(uuid, DURING).items():
                self.tracks[uuid, name].add(now_s, to_json(reading))
        self.num_samples += 1
        late = int((time.monotonic() - self.next_s) / self.interval_s)
        self.missed += late
        self.next_s += (1 + late) * self.interval_s

    def told(self) -> dict[str, Any]:
        return {uuid: self._told(uuid) for uuid in self.uuids}

    def _told(self, uuid: str) -> dict[str, Any]:
        own = {name: track for (card, name), track in self.tracks.items() if card == uuid}
        return {
            "interval_s": self.interval_s,
            "from_s": self.began_s,
            "until_s": time.monotonic(),
            "num_samples": self.num_samples,
            "missed": self.missed,
            "fields": {name: track.changes for name, track in own.items()},
            "thinned": {
                name: {"spacing_s": track.spacing_s, "least": track.least, "most": track.most}
                for name, track in own.items()
                if track.spacing_s > 0
            },
        }


def main() -> None:
    ignore_signals_of_the_terminal()
    interval_s, read_limit_s = map(float, sys.argv[1:3])
    with open_nvml(limit_s=read_limit_s) as nvml:
        if nvml.reason:
            answer({"none": nvml.reason})
        else:
            serve(nvml, interval_s)
    # What a hanging call holds up must not hold up the end.
    os._exit(0)


def serve(nvml: Nvml, interval_s: float) -> None:
    """Until perfguard is gone. `interval_s` 0: as its cost allows."""
    interval_s = interval_s or interval_for(_cost_of_a_round_s(nvml))
    answer({"interval_s": interval_s})
    watch: Watch | None = None
    while (asked := listen(_wait_s(watch))) is not None:
        for words in asked:
            if words["do"] == "look":
                answer({uuid: readings_to_json(nvml.read(uuid, words["names"])) for uuid in words["uuids"]})
            elif words["do"] == "begin":
                watch = _begin(nvml, words["uuids"], interval_s)
            elif watch is not None:
                watch.sample(nvml)
                answer(_ended(nvml, watch))
                watch = None
        if watch is not None and time.monotonic() >= watch.next_s:
            watch.sample(nvml)


def interval_for(cost_s: float) -> float:
    """Seconds between rounds of readings of which one takes `cost_s`."""
    return min(MOST_INTERVAL_S, max(LEAST_INTERVAL_S, round(cost_s / COST_SHARE, 1)))


def _cost_of_a_round_s(nvml: Nvml) -> float:
    uuids, costs = nvml.uuids(), []
    for _ in range(TRY_ROUNDS):
        began_s = time.perf_counter()
        for uuid in uuids:
            nvml.read(uuid, DURING)
        costs.append(time.perf_counter() - began_s)
    return min(costs)


def _begin(nvml: Nvml, uuids: Sequence[str], interval_s: float) -> Watch:
    answer(_around(nvml, uuids))
    now_s = time.monotonic()
    room = max(LEAST_ROOM, ROOM // max(1, len(uuids) * len(DURING)))
    tracks = {(uuid, name): Track(room=room) for uuid in uuids for name in DURING}
    return Watch(uuids=uuids, interval_s=interval_s, began_s=now_s, next_s=now_s, tracks=tracks)


def _ended(nvml: Nvml, watch: Watch) -> dict[str, Any]:
    after = _around(nvml, watch.uuids)
    hung = f"NVML did not answer within {nvml.worker.limit_s:g} s" if nvml.worker.is_stuck.is_set() else ""
    return {"after": after, "during": watch.told(), "hung": hung}


def _around(nvml: Nvml, uuids: Sequence[str]) -> dict[str, Any]:
    return {uuid: readings_to_json(nvml.read(uuid, AROUND)) for uuid in uuids}


def _wait_s(watch: Watch | None) -> float | None:
    return None if watch is None else max(0.0, watch.next_s - time.monotonic())
