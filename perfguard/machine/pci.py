"""Where a PCI card sits, as the kernel tells in /sys: NUMA node, bridge above, access control. Reads only."""

from pathlib import Path

DEVICES = Path("/sys/bus/pci/devices")
CAPABILITIES_END = 4096
ACS = 0x000D
# Source validation, request redirect, completion redirect: they send traffic between cards through the root.
ACS_DETOURS = 0x0001 | 0x0004 | 0x0008


def numa_node(bus_id: str, devices: Path = DEVICES) -> int:
    """Raises OSError where the kernel shows no such card, LookupError where the firmware names no node."""
    node = int((_device(bus_id, devices) / "numa_node").read_text())
    if node < 0:
        raise LookupError("the firmware names no NUMA node for this slot")
    return node


def parent_bridge(bus_id: str, devices: Path = DEVICES) -> str:
    """The bridge or root port above the card. Raises OSError where the kernel shows no such card."""
    return _device(bus_id, devices).resolve(strict=True).parent.name


def bridges_above(bus_id: str, devices: Path = DEVICES) -> list[str]:
    """Every bridge between the card and the root, nearest first."""
    path = _device(bus_id, devices).resolve(strict=True)
    return [parent.name for parent in path.parents if parent.name.count(":") == 2]


def traffic_is_detoured(bus_id: str, devices: Path = DEVICES) -> bool:
    """Does any bridge above the card send traffic between cards through the root? Raises OSError; PermissionError
    where the kernel shows only the first 64 bytes, as it does to all but root.
    """
    configs = [(devices / bridge / "config").read_bytes() for bridge in bridges_above(bus_id, devices)]
    told = [acs_detours(config) for config in configs]
    if None in told and True not in told:
        raise PermissionError("the kernel shows a bridge's configuration to root only")
    return True in told


def acs_detours(config: bytes) -> bool | None:
    """Does a bridge send traffic between cards through the root? From its configuration space; None: it cannot tell.

    PCI Express extended capabilities begin at 0x100: 16 bits id, 4 bits version, 12 bits offset of the next. The
    control register of Access Control Services lies 6 bytes into its capability.
    """
    offset = 0x100
    for _ in range(64):  # a broken list must not hold us
        header = int.from_bytes(config[offset : offset + 4], "little")
        if header & 0xFFFF == ACS and offset + 8 <= len(config):
            return bool(int.from_bytes(config[offset + 6 : offset + 8], "little") & ACS_DETOURS)
        offset = header >> 20
        if not 0x100 <= offset <= CAPABILITIES_END - 4:
            break
    return None if len(config) < CAPABILITIES_END else False


def _device(bus_id: str, devices: Path) -> Path:
    """NVML writes eight digits of the domain, the kernel four."""
    domain, _, rest = bus_id.lower().partition(":")
    return devices / f"{domain[-4:]}:{rest}"
