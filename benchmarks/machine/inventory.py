"""Everything that can be read of the GPUs here, what each field costs, and how both ways of power agree. Observes only.

Usage: python -m benchmarks.machine.inventory [--load-s 5] [-o FILE]
With torch and a CUDA device it also reads the cheap fields while one card multiplies matrices, since links and clocks
mean something under load only. Nothing is set, locked or reset.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

from perfguard.machine.fields import CHEAP, DEAR, FIELDS
from perfguard.machine.host_state import host_state
from perfguard.machine.nvml import Nvml, bindings_name, open_nvml
from perfguard.machine.reading import readings_to_json
from perfguard.machine.snapshot import take, to_plain

CHEAP_REPEATS, DEAR_REPEATS = 200, 20
MATRIX = 8192
SAMPLE_S = 0.1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--load-s", type=float, default=5.0, help="seconds of load; 0 for none")
    parser.add_argument("-o", "--output", default="-")
    wanted = parser.parse_args()
    with open_nvml() as nvml:
        text = json.dumps(inventory(nvml, wanted.load_s), indent=1)
    if wanted.output == "-":
        print(text)
        return
    with open(wanted.output, "w", encoding="utf-8") as file:
        file.write(text + "\n")


def inventory(nvml: Nvml, load_s: float) -> dict[str, Any]:
    idle = take(nvml, tuple(FIELDS))
    found = {
        "bindings": bindings_name(),
        "cuda_visible_devices": os.environ.get("CUDA_VISIBLE_DEVICES"),
        "idle": to_plain(idle),
        "host": readings_to_json(host_state()),
        "costs_s": {uuid: costs(nvml, uuid) for uuid in nvml.uuids()},
        "unknown": {uuid: unknown_fields(readings_to_json(readings)) for uuid, readings in idle.gpus.items()},
    }
    work = matrix_work() if load_s > 0 else None
    if work is None:
        return found | {"load": None}
    return found | {"load": under_load(nvml, work, load_s)}


def costs(nvml: Nvml, uuid: str) -> dict[str, dict[str, Any]]:
    """Median seconds of one reading, beside the class that the table of fields gives it."""
    measured = nvml.read_costs(uuid, CHEAP, CHEAP_REPEATS) | nvml.read_costs(uuid, DEAR, DEAR_REPEATS)
    ordered = sorted(measured.items(), key=lambda item: item[1])
    return {name: {"median_s": seconds, "class": FIELDS[name].cost} for name, seconds in ordered}


def unknown_fields(readings: dict[str, Any]) -> dict[str, Any]:
    return {name: told for name, told in readings.items() if isinstance(told, dict)}


def matrix_work() -> Callable[[], None] | None:
    try:
        import torch
    except ImportError:
        return None
    if not torch.cuda.is_available():
        return None
    a = torch.randn(MATRIX, MATRIX, device="cuda", dtype=torch.bfloat16)

    def work() -> None:
        for _ in range(20):
            torch.mm(a, a)
        torch.cuda.synchronize()

    return work


def under_load(nvml: Nvml, work: Callable[[], None], load_s: float) -> dict[str, Any]:
    """Cheap fields of every card about ten times a second, and all fields at the end while the load still runs."""
    samples: list[dict[str, Any]] = []
    ends_s = time.monotonic() + load_s
    due_s = 0.0
    while time.monotonic() < ends_s:
        work()
        if time.monotonic() >= due_s:
            samples.append({uuid: readings_to_json(nvml.read(uuid, CHEAP)) for uuid in nvml.uuids()})
            due_s = time.monotonic() + SAMPLE_S
    return {"samples": samples, "end": to_plain(take(nvml, tuple(FIELDS)))}


if __name__ == "__main__":
    sys.exit(main())
