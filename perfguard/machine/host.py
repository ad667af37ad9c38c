"""What this machine is, for the question whether two numbers may be compared. Reads only.

A field that cannot be read is None and has its reason beside it: never 0, never a guess.
"""

import hashlib
import os
import platform
import socket
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import psutil

from perfguard.machine.gpu import gpu_inventory
from perfguard.machine.placement import placement

CPUS = Path("/sys/devices/system/cpu")
CPUINFO = Path("/proc/cpuinfo")


@dataclass(frozen=True, kw_only=True)
class Host:
    """`hostname_sha256`: enough to see that two records come from one machine, without its name.

    `governor`: the one of all processors, or "mixed (a, b)". `num_usable_threads`: what this process may use.
    """

    hostname_sha256: str
    kernel: str
    architecture: str
    python: str
    num_threads: int | None
    num_usable_threads: int
    num_cores: int | None
    cpu_model: str | None
    governor: str | None
    unknown: dict[str, str] = field(default_factory=dict)


def machine_fingerprint() -> dict[str, Any]:
    """Host, GPUs, and where processes may run, as plain JSON data."""
    host, gpu = asdict(host_fingerprint()), asdict(gpu_inventory())
    return {"host": host, "gpu": gpu, "placement": asdict(placement())}


def host_fingerprint() -> Host:
    unknown: dict[str, str] = {}
    return Host(
        hostname_sha256=hashlib.sha256(socket.gethostname().encode()).hexdigest()[:16],
        kernel=f"{platform.system()} {platform.release()}",
        architecture=platform.machine(),
        python=f"{platform.python_implementation()} {platform.python_version()}",
        num_threads=psutil.cpu_count(logical=True),
        num_usable_threads=_usable_threads(),
        num_cores=_known("num_cores", lambda: psutil.cpu_count(logical=False), unknown),
        cpu_model=_known("cpu_model", lambda: cpu_model(CPUINFO.read_text(errors="replace")), unknown),
        governor=_known("governor", lambda: governor(CPUS), unknown),
        unknown=unknown,
    )


def cpu_model(cpuinfo: str) -> str | None:
    """The processor's name in /proc/cpuinfo; ARM kernels give numbers instead."""
    fields = [line.partition(":") for line in cpuinfo.splitlines()]
    found = {name.strip(): value.strip() for name, _, value in reversed(fields) if value.strip()}
    if "model name" in found:
        return found["model name"]
    if "CPU part" in found:
        return f"implementer {found.get('CPU implementer', '?')} part {found['CPU part']}"
    return None


def governor(cpus: Path) -> str | None:
    """The frequency governor of all processors, "mixed (…)" where they differ; None where the kernel has none."""
    files = sorted(cpus.glob("cpu[0-9]*/cpufreq/scaling_governor"))
    names = sorted({file.read_text().strip() for file in files})
    if not names:
        return None
    return names[0] if len(names) == 1 else f"mixed ({', '.join(names)})"


def _known(name: str, read: Callable[[], Any], unknown: dict[str, str]) -> Any:
    try:
        value = read()
    except OSError as error:
        value, unknown[name] = None, str(error)
    if value is None:
        unknown.setdefault(name, "not reported by this system")
    return value


def _usable_threads() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
