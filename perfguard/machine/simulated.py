"""A simulated GPU in place of the NVML bindings, for a look at what perfguard shows on a machine without one.

PERFGUARD_SIMULATED_GPU=1 asks for it. It computes nothing and nothing can be set on it; its name says what it is.
Temperature and clock follow the time, so that there is something to see.
"""

import math
import time
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

VARIABLE = "PERFGUARD_SIMULATED_GPU"
UUID = "GPU-51310000-0000-4000-8000-000000000000"
PERIOD_S = 60.0
NOT_SUPPORTED = 3


class SimulatedRefusal(Exception):  # noqa: N818 - stands for the bindings' NVMLError
    """What the simulated card does not know; `value` is NVML's code."""

    def __init__(self, value: int) -> None:
        super().__init__("the simulated GPU does not know this")
        self.value = value


def is_simulated(environment: Mapping[str, str]) -> bool:
    return environment.get(VARIABLE, "") not in ("", "0")


def simulated_bindings(clock: Callable[[], float] = time.monotonic) -> SimpleNamespace:
    """As far as perfguard asks: functions that are not here count as not supported."""

    def wave(low: float, high: float) -> int:
        return round(low + (high - low) * (1 - math.cos(2 * math.pi * clock() / PERIOD_S)) / 2)

    def fields(device: Any, wanted: list[tuple[int, int]]) -> list[SimpleNamespace]:
        return [SimpleNamespace(nvmlReturn=NOT_SUPPORTED, valueType=3, value=None) for _ in wanted]

    answers: dict[str, Callable[..., Any]] = {
        "nvmlInit": lambda: None,
        "nvmlShutdown": lambda: None,
        "nvmlSystemGetDriverVersion": lambda: "0.0 (simulated)",
        "nvmlSystemGetCudaDriverVersion": lambda: 0,
        "nvmlDeviceGetCount": lambda: 1,
        "nvmlDeviceGetHandleByIndex": lambda index: index,
        "nvmlDeviceGetUUID": lambda d: UUID,
        "nvmlDeviceGetName": lambda d: "simulated GPU",
        "nvmlDeviceGetPciInfo": lambda d: SimpleNamespace(busId="ffffffff:FF:00.0"),
        "nvmlDeviceGetArchitecture": lambda d: 9,
        "nvmlDeviceGetMemoryInfo": lambda d: SimpleNamespace(total=16 * 2**30, used=2**20),
        "nvmlDeviceGetClockInfo": lambda d, kind: 3200 if kind == 2 else wave(1800, 1980),
        "nvmlDeviceGetMaxClockInfo": lambda d, kind: 3200 if kind == 2 else 1980,
        "nvmlDeviceGetTemperature": lambda d, sensor: wave(65, 45),
        "nvmlDeviceGetTemperatureThreshold": lambda d, which: 90,
        "nvmlDeviceGetPowerUsage": lambda d: 1000 * wave(280, 300),
        "nvmlDeviceGetEnforcedPowerLimit": lambda d: 400_000,
        "nvmlDeviceGetPowerManagementDefaultLimit": lambda d: 400_000,
        "nvmlDeviceGetCurrentClocksEventReasons": lambda d: 0,
        "nvmlDeviceGetPerformanceState": lambda d: 0,
        "nvmlDeviceGetCurrPcieLinkGeneration": lambda d: 4,
        "nvmlDeviceGetMaxPcieLinkGeneration": lambda d: 4,
        "nvmlDeviceGetCurrPcieLinkWidth": lambda d: 16,
        "nvmlDeviceGetMaxPcieLinkWidth": lambda d: 16,
        "nvmlDeviceGetUtilizationRates": lambda d: SimpleNamespace(gpu=0, memory=0),
        "nvmlDeviceGetComputeRunningProcesses_v3": lambda d: [],
        "nvmlDeviceGetFieldValues": fields,
    }
    return SimpleNamespace(NVMLError=SimulatedRefusal, **answers)
