"""What is read of a GPU: names, units, what a reading costs and what it means. A table, no calls.

Costs were measured on an H200 with driver 580. "cheap" (at most some tens of microseconds) may be sampled while a
trial runs; "dear" ones are read before and after it.
"""

from dataclasses import dataclass
from typing import Literal

Cost = Literal["cheap", "dear"]


@dataclass(frozen=True, kw_only=True)
class Field:
    """`unit` is "" for names, counts, flags and lists."""

    unit: str
    cost: Cost
    what: str


def _field(unit: str, cost: Cost, what: str) -> Field:
    return Field(unit=unit, cost=cost, what=what)


FIELDS: dict[str, Field] = {
    # identity
    "uuid": _field("", "dear", "the card's name for every tool; indices differ between NVML, CUDA and reboots"),
    "name": _field("", "dear", "the model"),
    "pci_bus_id": _field("", "dear", "domain:bus:device.function"),
    "parent_uuid": _field("", "dear", "of a MIG slice: the card it is cut from"),
    "board": _field("", "dear", "part number of the board"),
    "vbios": _field("", "dear", "version of the card's firmware"),
    "driver": _field("", "dear", "version of the kernel driver"),
    "cuda_driver": _field("", "dear", "newest CUDA that the driver speaks"),
    "numa_node": _field("", "dear", "the memory node that the slot belongs to"),
    "parent_bridge": _field("", "dear", "the PCIe bridge above the card: it moves with the slot"),
    "memory_total_bytes": _field("bytes", "dear", "device memory"),
    "memory_used_bytes": _field("bytes", "dear", "device memory in use; an idle card is not at 0"),
    # clocks
    "sm_clock_mhz": _field("MHz", "cheap", "SM clock now"),
    "memory_clock_mhz": _field("MHz", "cheap", "memory clock now"),
    "sm_clock_max_mhz": _field("MHz", "dear", "highest SM clock of the card"),
    "memory_clock_max_mhz": _field("MHz", "dear", "highest memory clock of the card"),
    "sm_clock_application_mhz": _field("MHz", "dear", "application clock target of the SMs"),
    "sm_clock_application_default_mhz": _field("MHz", "dear", "that target as the card comes"),
    "memory_clock_application_mhz": _field("MHz", "dear", "application clock target of the memory"),
    "memory_clock_application_default_mhz": _field("MHz", "dear", "that target as the card comes"),
    "sm_clock_locked_mhz": _field("MHz", "dear", "locked SM clock; NVML has no call that tells it"),
    "memory_clock_locked_mhz": _field("MHz", "dear", "locked memory clock; NVML has no call that tells it"),
    "application_clocks_are_restricted": _field("", "dear", "only root may set application clocks"),
    "pstate": _field("", "cheap", "performance state: 0 is the fastest, 8 and above idle"),
    # temperature and power
    "temperature_c": _field("°C", "cheap", "temperature of the chip"),
    "memory_temperature_c": _field("°C", "dear", "temperature of the memory"),
    "slowdown_temperature_c": _field("°C", "dear", "above this the card slows itself down"),
    "temperature_margin_c": _field("°C", "dear", "what is left to the next threshold"),
    "power_average_w": _field("W", "cheap", "power, averaged over a second or so by the card"),
    "power_instant_w": _field("W", "dear", "power now"),
    "power_limit_w": _field("W", "dear", "enforced power limit"),
    "power_limit_default_w": _field("W", "dear", "power limit as the card comes"),
    "energy_j": _field("J", "dear", "energy since the driver was loaded"),
    # what holds the clocks down: the mask now, and the time spent so
    "event_reasons": _field("", "cheap", "raw mask of what holds the clocks down now"),
    "event_reason_names": _field("", "dear", "names of the bits of that mask; unknown ones in hex"),
    "event_sw_power_cap_us": _field("µs", "dear", "accumulated: power limit reached"),
    "event_thermal_us": _field("µs", "dear", "accumulated: any thermal limit (the older counter)"),
    "event_sync_boost_us": _field("µs", "dear", "accumulated: held back to go with another card"),
    "event_board_limit_us": _field("µs", "dear", "accumulated: limit of the board"),
    "event_reliability_us": _field("µs", "dear", "accumulated: limit of reliability"),
    "event_sw_thermal_us": _field("µs", "dear", "accumulated: near the temperature limit"),
    "event_hw_thermal_us": _field("µs", "dear", "accumulated: too hot, clocks halved or worse"),
    "event_hw_power_brake_us": _field("µs", "dear", "accumulated: external power brake, clocks halved or worse"),
    # PCIe
    "pcie_generation": _field("", "cheap", "PCIe generation now; an idle card falls back to 1"),
    "pcie_width": _field("", "cheap", "PCIe lanes now"),
    "pcie_generation_max": _field("", "dear", "highest PCIe generation of card and slot together"),
    "pcie_generation_card_max": _field("", "dear", "highest PCIe generation of the card alone"),
    "pcie_width_max": _field("", "dear", "most PCIe lanes of card and slot together"),
    "pcie_speed_mbps": _field("Mbit/s", "dear", "speed of one PCIe lane now"),
    "pcie_replay_count": _field("", "dear", "PCIe replays so far; only differences mean something"),
    "pcie_tx_bytes_per_s": _field("bytes/s", "dear", "sent over PCIe, over 20 ms"),
    "pcie_rx_bytes_per_s": _field("bytes/s", "dear", "received over PCIe, over 20 ms"),
    "pcie_traffic_is_detoured": _field("", "dear", "a bridge sends traffic between cards through the root (ACS)"),
    # NVLink
    "nvlink_states": _field("", "dear", "one per link: 1 is up, 0 is down"),
    "nvlink_replay_errors": _field("", "dear", "replays over all links that are up, so far"),
    "nvlink_recovery_errors": _field("", "dear", "recoveries over all links that are up, so far"),
    "nvlink_crc_errors": _field("", "dear", "CRC errors over all links that are up, so far"),
    # health
    "ecc_is_on": _field("", "dear", "error correction of the memory"),
    "ecc_corrected_count": _field("", "dear", "corrected memory errors since the driver was loaded"),
    "ecc_uncorrected_count": _field("", "dear", "uncorrected memory errors since the driver was loaded"),
    "remapped_rows_corrected": _field("", "dear", "memory rows replaced after corrected errors"),
    "remapped_rows_uncorrected": _field("", "dear", "memory rows replaced after uncorrected errors"),
    "remap_is_pending": _field("", "dear", "rows wait to be replaced: the card wants a reset"),
    "remap_has_failed": _field("", "dear", "a row could not be replaced: the card wants to be exchanged"),
    # use
    "persistence_is_on": _field("", "dear", "the driver stays loaded between processes"),
    "compute_mode": _field("", "dear", "default, exclusive_process or prohibited"),
    "mig_is_on": _field("", "dear", "the card is cut into slices"),
    "processes": _field("", "dear", "[pid, bytes or null] of each computing process; pids are those of the host"),
    "graphics_processes": _field("", "dear", "the same of processes that draw, such as a desktop"),
    "utilisation_percent": _field("%", "cheap", "share of time in which a kernel ran"),
    "memory_utilisation_percent": _field("%", "cheap", "share of time in which the memory was busy"),
}

CHEAP = tuple(name for name, field in FIELDS.items() if field.cost == "cheap")
DEAR = tuple(name for name, field in FIELDS.items() if field.cost == "dear")
