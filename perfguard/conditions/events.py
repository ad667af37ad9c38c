"""Why a card ran below its clock, and for how much of a trial: from counters, and where there are none from flags.

NVML keeps a bit mask of reasons for the present moment and, on newer drivers, microseconds accumulated per reason.
Sampled flags miss what happens between two samples, the counters do not; so the larger of both shares is taken. Pure.
"""

from perfguard.conditions.readings import GpuRecord
from perfguard.machine.event_reasons import HW_POWER_BRAKE, HW_SLOWDOWN, HW_THERMAL, SW_POWER_CAP, THERMAL

COUNTERS = {
    "thermal": ("event_sw_thermal_us", "event_hw_thermal_us"),
    "power_cap": ("event_sw_power_cap_us",),
    "power_brake": ("event_hw_power_brake_us",),
}
# Of drivers that do not tell software and hardware limits apart.
OLD_THERMAL = "event_thermal_us"
KINDS = tuple(COUNTERS)


def event_share(gpu: GpuRecord, kind: str) -> float | None:
    """Share of the loaded time in [0, 1] during which this kind of limit held; None where nothing tells.

    Counters run over the whole launch, loading included, and are laid against the loaded time alone: a limit while
    the model loads counts as if it had been met while measuring.
    """
    shares = [share for share in (_counted(gpu, kind), _sampled(gpu, kind)) if share is not None]
    return max(shares, default=None)


def kind_of(mask: int) -> frozenset[str]:
    """The limits in a mask; a brake from outside is what the driver calls so, and nothing else.

    The bit of a hardware slowdown goes along with the hardware's thermal limit and with the brake. Alone it is set
    when a card draws more than it may for a moment, which the code that runs can bring about: a power cap.
    """
    found = set()
    if mask & THERMAL:
        found.add("thermal")
    if mask & SW_POWER_CAP or (mask & HW_SLOWDOWN and not mask & (HW_THERMAL | HW_POWER_BRAKE)):
        found.add("power_cap")
    if mask & HW_POWER_BRAKE:
        found.add("power_brake")
    return frozenset(found)


def _counted(gpu: GpuRecord, kind: str) -> float | None:
    loaded_s = gpu.busy_s
    found = [us for name in COUNTERS[kind] if (us := gpu.increment(name)) is not None]
    if not found and kind == "thermal" and (us := gpu.increment(OLD_THERMAL)) is not None:
        found = [us]
    return min(1.0, sum(found) / 1e6 / loaded_s) if found and loaded_s > 0 else None


def _sampled(gpu: GpuRecord, kind: str) -> float | None:
    pieces = gpu.under_load("event_reasons")
    total_s = sum(length for length, _ in pieces)
    if not total_s:
        return None
    return sum(length for length, mask in pieces if kind in kind_of(int(mask))) / total_s
