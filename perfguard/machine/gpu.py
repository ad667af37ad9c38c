"""Which GPUs this machine has, for its fingerprint: what does not change while nobody touches the machine."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from perfguard.machine.reading import Reading
from perfguard.machine.snapshot import Snapshot, snapshot

LASTING = ("uuid", "name", "pci_bus_id", "memory_total_bytes", "vbios", "board", "pcie_width_max", "parent_bridge")


@dataclass(frozen=True, kw_only=True)
class Gpu:
    """One card. A field that cannot be read is None, its reason is in `unknown`.

    `uuid` names the card: its index differs between NVML, CUDA and reboots. `parent_bridge`, `pcie_width_max`: the
    slot; they change when the card is moved or its riser fails.
    """

    uuid: str | None
    name: str | None
    pci_bus_id: str | None
    memory_bytes: int | None
    vbios: str | None = None
    board: str | None = None
    pcie_width_max: int | None = None
    parent_bridge: str | None = None
    unknown: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class GpuInventory:
    """`reason` says why no card is listed; empty where NVML answered."""

    gpus: tuple[Gpu, ...] = ()
    driver: str | None = None
    cuda_driver: str | None = None
    reason: str = ""


def gpu_inventory(taken: Snapshot | None = None) -> GpuInventory:
    """From a snapshot; by default one is taken."""
    seen = snapshot(LASTING) if taken is None else taken
    if seen.reason:
        return GpuInventory(reason=seen.reason)
    cards = [_card(readings) for uuid, readings in seen.gpus.items() if uuid not in seen.parents]
    return GpuInventory(
        gpus=(*cards, *(_unreadable(reason) for reason in seen.unreadable.values())),
        driver=_text(seen.system["driver"]),
        cuda_driver=_text(seen.system["cuda_driver"]),
    )


def _card(read: Mapping[str, Reading]) -> Gpu:
    values: dict[str, Any] = {name.replace("memory_total", "memory"): reading.value for name, reading in read.items()}
    lacking = {name: reading.why for name, reading in read.items() if not reading.is_known}
    return Gpu(**values, unknown={name.replace("memory_total", "memory"): why for name, why in lacking.items()})


def _unreadable(reason: str) -> Gpu:
    return Gpu(uuid=None, name=None, pci_bus_id=None, memory_bytes=None, unknown={"uuid": reason})


def _text(reading: Reading) -> str | None:
    return str(reading.value) if reading.is_known else None
