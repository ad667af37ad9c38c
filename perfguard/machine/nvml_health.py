"""Readers of identity, memory, links, errors and use. One reader, one field; newest call first."""

from collections.abc import Callable
from typing import Any

from perfguard.machine.nvml_calls import NO_VALUE, NotTold, Reader, field_value, first, reason_of, status_of, text
from perfguard.machine.reading import Plain

MAX_LINKS = 36
INVALID_ARGUMENT = 2


def cuda_version(number: int) -> str:
    """NVML counts 1000 a major and 10 a minor version."""
    return f"{number // 1000}.{number % 1000 // 10}"


def _memory(lib: Any, d: Any) -> Any:
    """Version 2 keeps apart what the driver reserves. A card that shares the system's memory tells none or 0."""
    try:
        found = first(
            lambda: lib.nvmlDeviceGetMemoryInfo(d, version=lib.nvmlMemory_v2), lambda: lib.nvmlDeviceGetMemoryInfo(d)
        )
    except Exception as error:
        if status_of(error) != "not_supported":
            raise
        raise NotTold(f"no memory of its own: unified with the system's? ({reason_of(error)})") from error
    if not found.total:
        raise NotTold("no memory of its own: unified with the system's?")
    return found


def _links(lib: Any, d: Any) -> list[int]:
    states = []
    for link in range(MAX_LINKS):
        try:
            states.append(int(lib.nvmlDeviceGetNvLinkState(d, link)))
        except Exception as error:
            if not states:
                raise
            if status_of(error) == "no_permission":
                raise
            break  # beyond the last link
    return states


def _link_errors(counter: int, field: int) -> Reader:
    """Sum over the links that are up. `counter` is the older call's, `field` the numbered value of newer drivers."""

    def read(lib: Any, d: Any) -> Plain:
        up = [link for link, state in enumerate(_links(lib, d)) if state == 1]
        if not up:
            raise NotTold("no link is up")
        return int(sum(first(*_link_calls(lib, d, link, counter, field)) for link in up))

    return read


def _link_calls(lib: Any, d: Any, link: int, counter: int, field: int) -> tuple[Callable[[], Any], ...]:
    return (
        lambda: field_value(lib, d, field, link),
        lambda: lib.nvmlDeviceGetNvLinkErrorCounter(d, link, counter),
    )


def _remapped(which: int) -> Reader:
    def read(lib: Any, d: Any) -> Plain:
        if "GeForce" in text(lib.nvmlDeviceGetName(d)):
            raise NotTold("consumer cards answer zeros without having row remapping")
        found = int(lib.nvmlDeviceGetRemappedRows(d)[which])
        return bool(found) if which >= 2 else found

    return read


def _processes(kind: str) -> Reader:
    """The name without a version comes last: it refuses an older library instead of asking it."""
    names = [f"nvmlDeviceGet{kind}RunningProcesses{version}" for version in ("_v3", "_v2", "")]

    def read(lib: Any, d: Any) -> Plain:
        found = first(*(_process_call(lib, d, name) for name in names))
        used = {int(p.pid): None if p.usedGpuMemory in (None, *NO_VALUE) else int(p.usedGpuMemory) for p in found}
        return [[pid, memory] for pid, memory in sorted(used.items())]

    return read


def _process_call(lib: Any, d: Any, name: str) -> Callable[[], Any]:
    return lambda: getattr(lib, name)(d)


def _compute_mode(lib: Any, d: Any) -> Plain:
    names = ("default", "exclusive_thread", "prohibited", "exclusive_process")
    return names[lib.nvmlDeviceGetComputeMode(d)]


def _parent(lib: Any, d: Any) -> Plain:
    try:
        parent = lib.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(d)
    except Exception as error:
        if getattr(error, "value", None) != INVALID_ARGUMENT:
            raise
        raise NotTold("a whole card, not a slice") from error
    return text(lib.nvmlDeviceGetUUID(parent))


HEALTH: dict[str, Reader] = {
    "uuid": lambda lib, d: text(lib.nvmlDeviceGetUUID(d)),
    "name": lambda lib, d: text(lib.nvmlDeviceGetName(d)),
    "pci_bus_id": lambda lib, d: text(lib.nvmlDeviceGetPciInfo(d).busId),
    "parent_uuid": _parent,
    "board": lambda lib, d: text(lib.nvmlDeviceGetBoardPartNumber(d)),
    "vbios": lambda lib, d: text(lib.nvmlDeviceGetVbiosVersion(d)),
    "driver": lambda lib, d: text(lib.nvmlSystemGetDriverVersion()),
    "cuda_driver": lambda lib, d: cuda_version(lib.nvmlSystemGetCudaDriverVersion()),
    "memory_total_bytes": lambda lib, d: int(_memory(lib, d).total),
    "memory_used_bytes": lambda lib, d: int(_memory(lib, d).used),
    "pcie_generation": lambda lib, d: lib.nvmlDeviceGetCurrPcieLinkGeneration(d),
    "pcie_width": lambda lib, d: lib.nvmlDeviceGetCurrPcieLinkWidth(d),
    "pcie_generation_max": lambda lib, d: lib.nvmlDeviceGetMaxPcieLinkGeneration(d),
    "pcie_generation_card_max": lambda lib, d: lib.nvmlDeviceGetGpuMaxPcieLinkGeneration(d),
    "pcie_width_max": lambda lib, d: lib.nvmlDeviceGetMaxPcieLinkWidth(d),
    "pcie_speed_mbps": lambda lib, d: lib.nvmlDeviceGetPcieSpeed(d),
    "pcie_replay_count": lambda lib, d: lib.nvmlDeviceGetPcieReplayCounter(d),
    "pcie_tx_bytes_per_s": lambda lib, d: lib.nvmlDeviceGetPcieThroughput(d, 0) * 1000,
    "pcie_rx_bytes_per_s": lambda lib, d: lib.nvmlDeviceGetPcieThroughput(d, 1) * 1000,
    "nvlink_states": lambda lib, d: list(_links(lib, d)),
    "nvlink_replay_errors": _link_errors(0, 161),
    "nvlink_recovery_errors": _link_errors(1, 162),
    "nvlink_crc_errors": _link_errors(2, 163),
    "ecc_is_on": lambda lib, d: bool(lib.nvmlDeviceGetEccMode(d)[0]),
    "ecc_corrected_count": lambda lib, d: int(lib.nvmlDeviceGetTotalEccErrors(d, 0, 0)),
    "ecc_uncorrected_count": lambda lib, d: int(lib.nvmlDeviceGetTotalEccErrors(d, 1, 0)),
    "remapped_rows_corrected": _remapped(0),
    "remapped_rows_uncorrected": _remapped(1),
    "remap_is_pending": _remapped(2),
    "remap_has_failed": _remapped(3),
    "persistence_is_on": lambda lib, d: bool(lib.nvmlDeviceGetPersistenceMode(d)),
    "compute_mode": _compute_mode,
    "mig_is_on": lambda lib, d: bool(lib.nvmlDeviceGetMigMode(d)[0]),
    "processes": _processes("Compute"),
    "graphics_processes": _processes("Graphics"),
    "utilisation_percent": lambda lib, d: int(lib.nvmlDeviceGetUtilizationRates(d).gpu),
    "memory_utilisation_percent": lambda lib, d: int(lib.nvmlDeviceGetUtilizationRates(d).memory),
}
