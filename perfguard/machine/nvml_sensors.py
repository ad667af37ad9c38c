"""Readers of clocks, temperature, power and what holds the clocks down. One reader, one field; newest call first."""

from functools import partial
from typing import Any

from perfguard.machine.event_reasons import event_names
from perfguard.machine.nvml_calls import NotTold, Reader, counter_value, field_value, first, text
from perfguard.machine.reading import Plain

AMPERE = 7
# Numbers of the software thermal, hardware thermal and power brake counters; the older ones belong to something else
# (power smoothing) in newer drivers, whose answers are no counters by their type.
NEWER, OLDER = (269, 270, 271), (251, 252, 253)
NAMED = tuple(
    f"NVML_FI_DEV_CLOCKS_EVENT_REASON_{what}"
    for what in ("SW_THERM_SLOWDOWN", "HW_THERM_SLOWDOWN", "HW_POWER_BRAKE_SLOWDOWN")
)


def plain_power_is_average(architecture: int, name: str) -> bool:
    """The plain power call averages over a second from Ampere on, but for the chip of the A100 and A30."""
    return architecture >= AMPERE and not any(word in name for word in ("A100", "A800", "A30"))


def _clock(kind: int) -> Reader:
    return lambda lib, d: lib.nvmlDeviceGetClockInfo(d, kind)


def _max_clock(kind: int) -> Reader:
    return lambda lib, d: lib.nvmlDeviceGetMaxClockInfo(d, kind)


def _application_clock(kind: int, target: int) -> Reader:
    """`target` 1 is what is set now, 2 is what the card comes with."""
    names = {1: "nvmlDeviceGetApplicationsClock", 2: "nvmlDeviceGetDefaultApplicationsClock"}
    return lambda lib, d: first(
        lambda: lib.nvmlDeviceGetClock(d, kind, target), lambda: getattr(lib, names[target])(d, kind)
    )


def _temperature(lib: Any, d: Any) -> Plain:
    return int(first(lambda: lib.nvmlDeviceGetTemperatureV(d, 0), lambda: lib.nvmlDeviceGetTemperature(d, 0)))


def _power_is_average(lib: Any, d: Any) -> bool:
    """Drivers that cannot tell the architecture are older than Ampere."""
    architecture = first(lambda: lib.nvmlDeviceGetArchitecture(d), lambda: 0)
    return plain_power_is_average(architecture, text(lib.nvmlDeviceGetName(d)))


def _average_power(lib: Any, d: Any) -> Plain:
    watts: float = (lib.nvmlDeviceGetPowerUsage(d) if _power_is_average(lib, d) else field_value(lib, d, 185)) / 1000
    return watts


def _instant_power(lib: Any, d: Any) -> Plain:
    plain = () if _power_is_average(lib, d) else (lambda: lib.nvmlDeviceGetPowerUsage(d),)
    watts: float = first(lambda: field_value(lib, d, 186), *plain) / 1000
    return watts


def _reasons(lib: Any, d: Any) -> int:
    return int(
        first(
            lambda: lib.nvmlDeviceGetCurrentClocksEventReasons(d),
            lambda: lib.nvmlDeviceGetCurrentClocksThrottleReasons(d),
        )
    )


def _policy_time(field: int, policy: int) -> Reader:
    """Nanoseconds as a numbered value, or through the older call; microseconds out."""
    return lambda lib, d: int(
        first(
            lambda: field_value(lib, d, field),
            lambda: lib.nvmlDeviceGetViolationStatus(d, policy).violationTime,
        )
        // 1000
    )


def event_counter_ids(lib: Any, which: int) -> tuple[int, ...]:
    """Field numbers under which a driver may keep this counter, the bindings' own first.

    They moved between releases, and not with a driver's major version alone: an H200 with driver 580.159 has them
    under the newer numbers, the interface of 575 under the older. So the driver is asked.
    """
    own = getattr(lib, NAMED[which], NEWER[which])
    return tuple(dict.fromkeys((own, NEWER[which], OLDER[which])))


def _event_time(which: int) -> Reader:
    """Nanoseconds so far; microseconds out."""

    def read(lib: Any, d: Any) -> Plain:
        calls = [partial(counter_value, lib, d, field) for field in event_counter_ids(lib, which)]
        return int(first(*calls) // 1000)

    return read


def _never_told(lib: Any, d: Any) -> Plain:
    raise NotTold("NVML has no call that tells locked clocks")


SENSORS: dict[str, Reader] = {
    "sm_clock_mhz": _clock(1),
    "memory_clock_mhz": _clock(2),
    "sm_clock_max_mhz": _max_clock(1),
    "memory_clock_max_mhz": _max_clock(2),
    "sm_clock_application_mhz": _application_clock(1, 1),
    "sm_clock_application_default_mhz": _application_clock(1, 2),
    "memory_clock_application_mhz": _application_clock(2, 1),
    "memory_clock_application_default_mhz": _application_clock(2, 2),
    "sm_clock_locked_mhz": _never_told,
    "memory_clock_locked_mhz": _never_told,
    "application_clocks_are_restricted": lambda lib, d: bool(lib.nvmlDeviceGetAPIRestriction(d, 0)),
    "pstate": lambda lib, d: lib.nvmlDeviceGetPerformanceState(d),
    "temperature_c": _temperature,
    "memory_temperature_c": lambda lib, d: int(field_value(lib, d, 82)),
    "slowdown_temperature_c": lambda lib, d: lib.nvmlDeviceGetTemperatureThreshold(d, 1),
    "temperature_margin_c": lambda lib, d: lib.nvmlDeviceGetMarginTemperature(d),
    "power_average_w": _average_power,
    "power_instant_w": _instant_power,
    "power_limit_w": lambda lib, d: lib.nvmlDeviceGetEnforcedPowerLimit(d) / 1000,
    "power_limit_default_w": lambda lib, d: lib.nvmlDeviceGetPowerManagementDefaultLimit(d) / 1000,
    "energy_j": lambda lib, d: lib.nvmlDeviceGetTotalEnergyConsumption(d) / 1000,
    "event_reasons": _reasons,
    "event_reason_names": lambda lib, d: event_names(_reasons(lib, d)),
    "event_sw_power_cap_us": _policy_time(74, 0),
    "event_thermal_us": _policy_time(75, 1),
    "event_sync_boost_us": _policy_time(76, 2),
    "event_board_limit_us": _policy_time(77, 3),
    "event_reliability_us": _policy_time(79, 5),
    "event_sw_thermal_us": _event_time(0),
    "event_hw_thermal_us": _event_time(1),
    "event_hw_power_brake_us": _event_time(2),
}
