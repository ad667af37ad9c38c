"""The host as it is now: processor, load, pressure, memory, clocks, container. Reads only, decides nothing.

Counters (steal, swapped pages, the three clocks) say something only as differences between two readings.
"""

import os
import platform
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil

from perfguard.machine.host import CPUINFO, CPUS, cpu_model, governor
from perfguard.machine.kernel_log import kernel_log, xids
from perfguard.machine.reading import Plain, Reading, Status, unknown

PROC = Path("/proc")
SYS = Path("/sys")
# The number of the first pid namespace is fixed in the kernel (PROC_PID_INIT_INO).
INITIAL_PID_NAMESPACE = 0xEFFFFFFC
SENSORS = ("coretemp", "k10temp", "zenpower", "cpu_thermal")


@dataclass(frozen=True, kw_only=True)
class HostField:
    unit: str
    what: str
    read: Callable[[], Plain]


def host_state() -> dict[str, Reading]:
    """Every field of HOST_FIELDS. Never raises."""
    return {name: _reading(field.read) for name, field in HOST_FIELDS.items()}


def pressure_percent(text: str) -> float:
    """Share of the last ten seconds in which some task waited: avg10 of the line "some" of /proc/pressure/*."""
    some = next(line for line in text.splitlines() if line.startswith("some "))
    return float(some.partition("avg10=")[2].split()[0])


def turbo_is_on(cpus: Path) -> bool:
    """From intel_pstate, else from cpufreq. Raises FileNotFoundError where neither tells."""
    intel = cpus / "intel_pstate" / "no_turbo"
    if intel.exists():
        return intel.read_text().strip() == "0"
    return (cpus / "cpufreq" / "boost").read_text().strip() == "1"


def container_kind(root: Path, environment: Mapping[str, str]) -> str:
    """ "docker", "podman", "kubernetes", a name that the container manager gave, or "" outside of any."""
    if (root / ".dockerenv").exists():
        return "kubernetes" if "KUBERNETES_SERVICE_HOST" in environment else "docker"
    if (root / "run/.containerenv").exists():
        return "podman"
    return environment.get("container", "kubernetes" if "KUBERNETES_SERVICE_HOST" in environment else "")


def cpu_limit(root: Path) -> float | None:
    """Processors that the control group allows (quota over period); None: no limit."""
    file = root / "cpu.max"
    quota, period = file.read_text().split()
    return None if quota == "max" else int(quota) / int(period)


def _reading(read: Callable[[], Plain]) -> Reading:
    try:
        value = read()
    except Exception as error:
        return unknown(_status(error), str(error) or type(error).__name__)
    return unknown("not_supported", "not reported by this system") if value is None else Reading(value=value)


def _status(error: Exception) -> Status:
    if isinstance(error, PermissionError):
        return "no_permission"
    lacking = (AttributeError, FileNotFoundError, NotImplementedError, StopIteration, LookupError)
    return "not_supported" if isinstance(error, lacking) else "error"


def _pressure(kind: str) -> Callable[[], Plain]:
    return lambda: pressure_percent((PROC / "pressure" / kind).read_text())


def _waited(kind: str) -> Callable[[], Plain]:
    """Seconds in which some task waited, so far: the line "some" counts microseconds."""

    def read() -> Plain:
        some = next(line for line in (PROC / "pressure" / kind).read_text().splitlines() if line.startswith("some "))
        return int(some.partition("total=")[2]) / 1e6

    return read


def _temperature() -> Plain:
    found = psutil.sensors_temperatures()
    celsius = [sensor.current for name in SENSORS for sensor in found.get(name, [])]
    return max(celsius, default=None)


def _frequency(which: str) -> Callable[[], Plain]:
    """MHz. 0 is psutil's word for "not told"."""
    return lambda: getattr(psutil.cpu_freq(), which) or None


def _cpu_limit() -> Plain:
    limit = cpu_limit(SYS / "fs/cgroup")
    return "none" if limit is None else limit


def _numa_nodes() -> Plain:
    return len(list((SYS / "devices/system/node").glob("node[0-9]*"))) or None


def _iommu() -> Plain:
    """Groups of devices behind an IOMMU; 0 where it is off."""
    return len(list((SYS / "kernel/iommu_groups").iterdir()))


def _huge_pages() -> Plain:
    text = (SYS / "kernel/mm/transparent_hugepage/enabled").read_text()
    return text.partition("[")[2].partition("]")[0] or None


def _field(unit: str, what: str, read: Callable[[], Plain]) -> HostField:
    return HostField(unit=unit, what=what, read=read)


def _clock(name: str) -> Callable[[], Plain]:
    return lambda: time.clock_gettime(getattr(time, name))


HOST_FIELDS: dict[str, HostField] = {
    "cpu_model": _field("", "model", lambda: cpu_model(CPUINFO.read_text(errors="replace"))),
    "num_threads": _field("", "hardware threads", psutil.cpu_count),
    "cpu_limit": _field("", "processors that the container may use", _cpu_limit),
    "governor": _field("", "who sets the frequency", lambda: governor(CPUS)),
    "cpu_frequency_mhz": _field("MHz", "mean frequency now", _frequency("current")),
    "cpu_frequency_max_mhz": _field("MHz", "highest frequency", _frequency("max")),
    "turbo_is_on": _field("", "frequencies above the base one are allowed", lambda: turbo_is_on(CPUS)),
    "load_1min": _field("", "tasks that ran or waited, over a minute", lambda: os.getloadavg()[0]),
    "pressure_cpu_percent": _field("%", "time in which a task waited for a processor", _pressure("cpu")),
    "pressure_memory_percent": _field("%", "time in which a task waited for memory", _pressure("memory")),
    "pressure_io_percent": _field("%", "time in which a task waited for a disk", _pressure("io")),
    "waited_cpu_s": _field("s", "in which a task waited for a processor, so far", _waited("cpu")),
    "waited_memory_s": _field("s", "in which a task waited for memory, so far", _waited("memory")),
    "waited_io_s": _field("s", "in which a task waited for a disk, so far", _waited("io")),
    "steal_s": _field("s", "taken by other machines of this host, so far", lambda: psutil.cpu_times().steal),
    "swap_used_bytes": _field("bytes", "swapped out now", lambda: psutil.swap_memory().used),
    "swap_in_bytes": _field("bytes", "swapped in, so far", lambda: psutil.swap_memory().sin),
    "swap_out_bytes": _field("bytes", "swapped out, so far", lambda: psutil.swap_memory().sout),
    "memory_available_bytes": _field("bytes", "free for programs", lambda: psutil.virtual_memory().available),
    "temperature_c": _field("°C", "hottest processor sensor", _temperature),
    "num_numa_nodes": _field("", "memory nodes", _numa_nodes),
    "huge_pages": _field("", "transparent huge pages: always, madvise or never", _huge_pages),
    "kernel": _field("", "kernel", lambda: f"{platform.system()} {platform.release()}"),
    "boot_id": _field("", "changes with every boot", lambda: (PROC / "sys/kernel/random/boot_id").read_text().strip()),
    "clock_source": _field(
        "",
        "what the kernel's clock counts",
        lambda: (SYS / "devices/system/clocksource/clocksource0/current_clocksource").read_text().strip(),
    ),
    "wall_s": _field("s", "wall clock", _clock("CLOCK_REALTIME")),
    "monotonic_s": _field("s", "clock that stands while the machine sleeps", _clock("CLOCK_MONOTONIC")),
    "boottime_s": _field("s", "clock that runs on while the machine sleeps", _clock("CLOCK_BOOTTIME")),
    "container": _field("", "container manager; empty outside", lambda: container_kind(Path("/"), os.environ)),
    "pids_are_global": _field(
        "", "pids here are those that the GPU driver lists", lambda: _pid_namespace() == INITIAL_PID_NAMESPACE
    ),
    "is_wsl": _field("", "Windows Subsystem for Linux", lambda: "microsoft" in platform.release().lower()),
    "num_iommu_groups": _field("", "device groups behind an IOMMU; 0 is off", _iommu),
    "gpu_xids": _field("", "[bus, code] of the driver's error messages in the kernel log", lambda: xids(kernel_log())),
}


def _pid_namespace() -> int:
    return (PROC / "self/ns/pid").stat().st_ino
