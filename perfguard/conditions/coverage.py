"""Which fields the verdict could look at, and which not and why: one line for every report. Pure."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from perfguard.conditions.readings import GpuRecord, Recorded, unknowns

# Without one of these nothing can be said of how a card ran.
VITAL = ("sm_clock_mhz", "temperature_c", "power_average_w", "event_reasons")


def coverage_json(seen: Sequence[Recorded], num_counted: int, machine: Mapping[str, Any]) -> dict[str, Any]:
    """{"text", "usable": [field], "unusable": {field: why}}. `num_counted`: trials that count, recorded or not.

    `machine`: the campaign's fingerprint, which knows whether there is a GPU at all.
    """
    usable, unusable = _fields([gpu for one in seen for gpu in one.gpus])
    return {"text": _text(seen, num_counted, machine, usable, unusable), "usable": usable, "unusable": unusable}


def _fields(gpus: Sequence[GpuRecord]) -> tuple[list[str], dict[str, str]]:
    """A field that any trial could not use is not usable for all."""
    whys: dict[str, str] = {}
    names: set[str] = set()
    for gpu in gpus:
        names |= {*gpu.before, *gpu.after, *gpu.series}
        for name, status, why in unknowns(gpu):
            whys.setdefault(name, f"{status}: {why}" if why else status)
        for name, why in gpu.doubtful.items():
            whys[name] = f"cannot be: {why}"
    return sorted(names - whys.keys()), dict(sorted(whys.items()))


def _text(
    seen: Sequence[Recorded],
    num_counted: int,
    machine: Mapping[str, Any],
    usable: Sequence[str],
    unusable: Mapping[str, str],
) -> str:
    if not num_counted:
        return "no trial counts, so none of its conditions do"
    if not seen:
        return "machine conditions were not recorded"
    partly = f" in {len(seen)} of {num_counted} trials" if len(seen) < num_counted else ""
    if not any(one.gpus for one in seen):
        return f"{_no_gpu(seen, machine)}; host conditions recorded{partly}"
    if not any(name in usable for name in VITAL):
        return f"no usable GPU telemetry{partly}: {_listed(unusable) or 'no field was read'}"
    rest = f"; not usable: {_listed(unusable)}" if unusable else ""
    num_cards = len({gpu.uuid for one in seen for gpu in one.gpus})
    cards = "1 GPU" if num_cards == 1 else f"{num_cards} GPUs"
    return f"{len(usable)} of {len(usable) + len(unusable)} fields of {cards} usable{partly}{rest}"


def _no_gpu(seen: Sequence[Recorded], machine: Mapping[str, Any]) -> str:
    if not _has_gpu(machine):
        return "no GPU here"
    if any(one.conditions.get("gpus") for one in seen):
        return "no GPU was used"
    whys = sorted({str((one.conditions.get("telemetry") or {}).get("why", "")) for one in seen} - {""})
    return f"no usable GPU telemetry{f' ({whys[0]})' if whys else ''}"


def _has_gpu(machine: Mapping[str, Any]) -> bool:
    gpu = machine.get("gpu")
    return isinstance(gpu, Mapping) and bool(gpu.get("gpus"))


def _listed(unusable: Mapping[str, str]) -> str:
    """Names together that share a reason."""
    by_why: dict[str, list[str]] = defaultdict(list)
    for name, why in unusable.items():
        by_why[why].append(name)
    return "; ".join(f"{', '.join(names)} ({why})" for why, names in by_why.items())
