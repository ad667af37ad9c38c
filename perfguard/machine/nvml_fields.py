"""Every field of a GPU by name. Reads one; holds no session and no limit, and decides nothing."""

from typing import Any

from perfguard.machine import pci
from perfguard.machine.nvml_calls import NO_VALUE, Reader, first, reason_of, status_of
from perfguard.machine.nvml_health import HEALTH
from perfguard.machine.nvml_sensors import SENSORS
from perfguard.machine.reading import Reading, unknown

# The kernel knows the slot; NVML tells a node of its own only where CPU and GPU share memory.
PLACE: dict[str, Reader] = {
    "numa_node": lambda lib, d: first(
        lambda: pci.numa_node(str(HEALTH["pci_bus_id"](lib, d))), lambda: lib.nvmlDeviceGetNumaNodeId(d)
    ),
    "parent_bridge": lambda lib, d: pci.parent_bridge(str(HEALTH["pci_bus_id"](lib, d))),
    "pcie_traffic_is_detoured": lambda lib, d: pci.traffic_is_detoured(str(HEALTH["pci_bus_id"](lib, d))),
}
READERS: dict[str, Reader] = {**HEALTH, **SENSORS, **PLACE}


def read_field(lib: Any, device: Any, name: str) -> Reading:
    """One reading; never raises. `name` is a key of READERS."""
    try:
        value = READERS[name](lib, device)
    except Exception as error:  # NVMLError, or a function that these bindings lack
        return unknown(status_of(error), reason_of(error))
    if isinstance(value, int) and value in NO_VALUE:
        return unknown("not_supported", "the driver gives no value")
    return Reading(value=value)
