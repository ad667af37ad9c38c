"""Hand-made conditions of trials: a healthy, loaded card, with what a test wants to be otherwise."""

from collections.abc import Mapping, Sequence
from typing import Any

from perfguard.conditions.plausible import read_trials
from perfguard.gate_policy import GatePolicy
from perfguard.records import Trial
from tests.unit import campaign_cases

GATES = GatePolicy()
CARD = "GPU-aaaaaaaa-1111"
MIB = 2**20
# An idle card before the launch, and the facts that do not change.
IDLE: dict[str, Any] = {
    "driver": "580.65.06",
    "pci_bus_id": "00000000:19:00.0",
    "numa_node": 0,
    "sm_clock_max_mhz": 1980,
    "power_limit_w": 700,
    "pcie_generation": 1,
    "pcie_generation_max": 5,
    "pcie_width": 16,
    "temperature_c": 40,
    "power_average_w": 80.0,
    "utilisation_percent": 0,
    "memory_used_bytes": 2 * MIB,
    "processes": [],
    "pcie_replay_count": 0,
    "event_sw_power_cap_us": 0,
    "event_sw_thermal_us": 0,
    "event_hw_thermal_us": 0,
    "event_hw_power_brake_us": 0,
    "ecc_uncorrected_count": 0,
    "remapped_rows_corrected": 0,
    "remapped_rows_uncorrected": 0,
    "remap_is_pending": False,
    "remap_has_failed": False,
    "nvlink_crc_errors": 0,
}
LOAD: dict[str, Any] = {
    "sm_clock_mhz": 1980,
    "memory_clock_mhz": 3201,
    "temperature_c": 55,
    "power_average_w": 420.0,
    "utilisation_percent": 98,
    "event_reasons": 0,
    "pcie_generation": 5,
    "pcie_width": 16,
}
# Ten seconds of a host with four threads; counters and clocks after the launch are in LATER.
HOST: dict[str, Any] = {
    "kernel": "Linux 6.8",
    "num_threads": 4,
    "steal_s": 100.0,
    "swap_in_bytes": 0,
    "swap_out_bytes": 0,
    "pressure_cpu_percent": 90.0,  # of the last ten seconds, whatever ran then: no gate's business
    "waited_cpu_s": 700.0,
    "waited_memory_s": 0.0,
    "waited_io_s": 40.0,
    "gpu_xids": [["0000:19:00", 31]],
    "wall_s": 1_000_000.0,
    "monotonic_s": 5_000.0,
    "boottime_s": 5_000.0,
}
LATER: dict[str, Any] = {"wall_s": 1_000_010.0, "monotonic_s": 5_010.0, "boottime_s": 5_010.0}


def unknown(status: str = "error", why: str = "") -> dict[str, str]:
    return {"unknown": status, "why": why}


def card(
    before: Mapping[str, Any] | None = None,
    after: Mapping[str, Any] | None = None,
    load: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """`before` also changes what is there after, unless `after` says so. `load`: a value, or [[t, value], ...]."""
    idle = {**IDLE, **(before or {})}
    values = {**LOAD, **(load or {})}
    series = {
        name: value if isinstance(value, list) else [[-0.5, IDLE.get(name, 0)], [0.0, value]]
        for name, value in values.items()
    }
    during = {"interval_s": 0.1, "fields": series, "num_samples": 15, "missed": 0}
    return {"before": idle, "after": {**idle, **(after or {})}, "during": during}


def conditions(
    gpus: Mapping[str, Any] | None = None,
    *,
    host_before: Mapping[str, Any] | None = None,
    host_after: Mapping[str, Any] | None = None,
    **changes: Any,
) -> dict[str, Any]:
    return {
        "gpus": {CARD: card()} if gpus is None else dict(gpus),
        "host": {"before": {**HOST, **(host_before or {})}, "after": {**HOST, **LATER, **(host_after or {})}},
        "telemetry": {"status": "ok", "why": ""},
        **changes,
    }


def trial(side: str = "base", of: Mapping[str, Any] | None = None, **changes: Any) -> Trial:
    """One second of load. `of`: its conditions, those of a healthy card by default."""
    place = {"block": 0, "slot": 0, **changes}
    record = {"conditions": conditions() if of is None else of}
    return campaign_cases.trial(1, place.pop("block"), place.pop("slot"), side, 1.0, record=record, **place)


def arms(base: Sequence[Mapping[str, Any]], head: Sequence[Mapping[str, Any]]) -> list[Trial]:
    """Trials of both arms in turn, two of each a block."""
    pairs = [
        (side, one) for pair in zip(base, head, strict=True) for side, one in zip(("base", "head"), pair, strict=True)
    ]
    return [trial(side, one, block=k // 4, slot=k % 4) for k, (side, one) in enumerate(pairs)]


def read(trials: Sequence[Trial]):
    return read_trials(trials)
