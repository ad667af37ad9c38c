"""What one rank sees of itself: environment, versions, process. Reads only; must not judge or change anything."""

import os
import platform
import resource
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

# What changes speed or which code runs; the rest (tokens, paths of a user) stays private.
ENVIRONMENT_PREFIXES = (
    "NCCL_", "CUDA_", "TORCH", "OMP_", "MKL_", "LD_", "PYTORCH_", "GLOO_", "TRITON_", "PERFGUARD_", "PYTHON",
)  # fmt: skip
# Names of the variables that the arm asks for: they are reported whatever they are called.
ASKED_VARIABLE = "PERFGUARD_ASKED"
LAUNCHER_PREFIX = "TORCHELASTIC_"  # torchrun's own bookkeeping: differs by rank and says nothing


def environment(now: Mapping[str, str], at_exec: Mapping[str, str]) -> dict[str, str]:
    """The variables that matter as this process sees them at the end of its run.

    `exec:NAME` is added only where the process began with another value; it is empty where NAME was not set.
    """
    asked = set(at_exec.get(ASKED_VARIABLE, "").split(","))
    seen = {name: value for name, value in sorted(now.items()) if matters(name) or name in asked}
    begun = {name: value for name, value in at_exec.items() if matters(name) or name in asked}
    moved = [name for name in sorted(seen | begun) if seen.get(name) != begun.get(name)]
    return seen | {f"exec:{name}": begun.get(name, "") for name in moved}


def matters(name: str) -> bool:
    return name.startswith(ENVIRONMENT_PREFIXES) and not name.startswith(LAUNCHER_PREFIX)


def parse_environ(raw: bytes) -> dict[str, str]:
    """The content of /proc/PID/environ: NAME=VALUE entries that end with a zero byte."""
    entries = (os.fsdecode(entry).partition("=") for entry in raw.split(b"\0") if b"=" in entry)
    return {name: value for name, _, value in entries}


def own_environment() -> dict[str, str]:
    try:
        at_exec = parse_environ(Path("/proc/self/environ").read_bytes())
    except OSError:  # no /proc: nothing is known about the beginning, so nothing can differ
        at_exec = dict(os.environ)
    return environment(os.environ, at_exec)


def own_maps() -> str:
    try:
        return Path("/proc/self/maps").read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return ""


def versions() -> dict[str, Any]:
    return {"python": platform.python_version(), "platform": platform.platform()}


def process() -> dict[str, Any]:
    """Identity and cost of this process; times in seconds, memory in bytes."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return {
        "pid": os.getpid(),
        "host": platform.node(),
        "executable": sys.executable,
        "cpus": sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else [],
        "nice": os.nice(0),
        "sys_path": list(sys.path),
        "user_s": usage.ru_utime,
        "system_s": usage.ru_stime,
        "max_resident_bytes": usage.ru_maxrss * 1024,
        "num_major_faults": usage.ru_majflt,
        "num_voluntary_switches": usage.ru_nvcsw,
        "num_involuntary_switches": usage.ru_nivcsw,
    }
