"""Machine, state of its GPUs and neighbours, out of fingerprints and recorded conditions. Pure.

Numbers that never repeat exactly are rounded to steps (`STEPS`): what lies within a step of each other is alike.
"""

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

# Under load. A step is what a healthy card moves by from run to run: field -> (unit, step).
STEPS = {
    "sm_clock_mhz": ("MHz", 30.0),
    "memory_clock_mhz": ("MHz", 30.0),
    "temperature_c": ("°C", 8.0),
    "power_average_w": ("W", 25.0),
    "pcie_generation": ("", 0.0),
    "pcie_width": ("", 0.0),
}
LASTING = {"power_limit_w": ("W", 0.0), "pcie_generation_max": ("", 0.0), "persistence_is_on": ("", 0.0)}
# The host before a launch.
HOST_STEPS = {
    "pressure_cpu_percent": ("%", 10.0),
    "pressure_memory_percent": ("%", 5.0),
    "pressure_io_percent": ("%", 10.0),
}
HOST = ("hostname_sha256", "cpu_model", "architecture", "num_threads", "num_usable_threads", "num_cores", "governor")
NO_LIBRARY = ("no NVML bindings", "Not Found")


def machine_fields(machine: Mapping[str, Any]) -> dict[str, Any]:
    host, gpus = machine.get("host", {}), machine.get("gpu", {}).get("gpus", ())
    fields = {name: host[name] for name in HOST if host.get(name) is not None}
    if gpus:
        names = sorted(str(gpu.get("name")) for gpu in gpus)
        fields["GPUs"] = ", ".join(f"{names.count(name)} x {name}" for name in dict.fromkeys(names))
        fields["GPU cards"] = ", ".join(sorted(str(gpu.get("uuid")) for gpu in gpus))
    elif no_gpu(machine):
        fields["GPUs"] = "none"
    return fields


def no_gpu(machine: Mapping[str, Any]) -> bool:
    """No card and no driver, as far as this machine can tell: its GPUs can explain nothing."""
    gpu = machine.get("gpu", {})
    return not gpu.get("gpus") and any(part in gpu.get("reason", "") for part in NO_LIBRARY)


def gpu_fields(conditions: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Medians over launches, each of its median under load; the slowest card counts, as it does for a launch."""
    fields: dict[str, float] = {}
    for name in STEPS:
        per_launch = [min(found) for one in conditions if (found := _under_load(one, name))]
        if per_launch:
            fields[name] = median(per_launch)
    for name in LASTING:
        found = [gpu["before"][name] for one in conditions for gpu in _gpus(one) if _is_number(gpu, "before", name)]
        if found:
            fields[name] = min(found)
    return fields


def neighbour_fields(conditions: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    fields: dict[str, float] = {}
    for name in HOST_STEPS:
        found = [one["host"]["before"][name] for one in conditions if _is_number(one, "host", "before", name)]
        if found:
            fields[name] = median(found)
    processes = [len(gpu["before"]["processes"]) for one in conditions for gpu in _gpus(one) if _has_processes(gpu)]
    if processes:
        fields["processes on the GPUs before"] = max(processes)
    return fields


def is_alike(name: str, a: float, b: float) -> bool:
    """Whether two readings lie within what a machine moves by anyway."""
    _, step = {**STEPS, **LASTING, **HOST_STEPS}.get(name, ("", 0.0))
    return abs(a - b) <= step


def unit_of(name: str) -> str:
    return {**STEPS, **LASTING, **HOST_STEPS}.get(name, ("", 0.0))[0]


def _under_load(conditions: Mapping[str, Any], name: str) -> list[float]:
    found = []
    for gpu in _gpus(conditions):
        series = gpu.get("during", {}).get("fields", {}).get(name, ())
        values = [value for t_s, value in series if t_s >= 0 and isinstance(value, int | float)]
        if values:
            found.append(float(median(values)))
    return found


def _gpus(conditions: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return list(conditions.get("gpus", {}).values())


def _is_number(tree: Mapping[str, Any], *path: str) -> bool:
    value: Any = tree
    for part in path:
        value = value.get(part) if isinstance(value, Mapping) else None
    return isinstance(value, int | float)


def _has_processes(gpu: Mapping[str, Any]) -> bool:
    return isinstance(gpu.get("before", {}).get("processes"), list)
