"""What one rank sees of itself: environment, versions, process. Reads only; must not judge or change anything."""

import hashlib
import os
import platform
import resource
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from perfguard.protocol import installed, matters

# Names of the variables that the arm asks for: they are reported whatever they are called.
ASKED_VARIABLE = "PERFGUARD_ASKED"
# Python runs these by itself before any program of a person.
STARTUP_MODULES = ("sitecustomize", "usercustomize")


def environment(
    now: Mapping[str, str], at_exec: Mapping[str, str], at_start: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The variables that matter as this process sees them at the end of its run.

    `exec:NAME` is added only where the process began with another value; it is empty where NAME was not set.
    `start:NAME` likewise, where the value changed between exec and the runner's first line (`at_start`): by
    sitecustomize, usercustomize or a .pth file.
    """
    asked = set(at_exec.get(ASKED_VARIABLE, "").split(","))

    def of_interest(environ: Mapping[str, str]) -> dict[str, str]:
        return {name: value for name, value in sorted(environ.items()) if matters(name) or name in asked}

    seen, begun = of_interest(now), of_interest(at_exec)
    started = begun if at_start is None else of_interest(at_start)
    moved = [name for name in sorted(seen | begun) if seen.get(name) != begun.get(name)]
    early = [name for name in sorted(started | begun) if started.get(name) != begun.get(name)]
    at = {f"exec:{name}": begun.get(name, "") for name in sorted({*moved, *early})}
    return seen | at | {f"start:{name}": started.get(name, "") for name in early}


def parse_environ(raw: bytes) -> dict[str, str]:
    """The content of /proc/PID/environ: NAME=VALUE entries that end with a zero byte."""
    entries = (os.fsdecode(entry).partition("=") for entry in raw.split(b"\0") if b"=" in entry)
    return {name: value for name, _, value in entries}


def own_environment(at_start: Mapping[str, str] | None = None) -> dict[str, str]:
    """`at_start`: os.environ as it was in the first line of this program, where somebody kept it."""
    try:
        at_exec = parse_environ(Path("/proc/self/environ").read_bytes())
    except OSError:  # no /proc: nothing is known about the beginning, so nothing can differ
        at_exec = dict(os.environ)
    return environment(os.environ, at_exec, at_start)


def own_maps() -> str:
    try:
        return Path("/proc/self/maps").read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return ""


def versions() -> dict[str, Any]:
    return {"python": platform.python_version(), "platform": platform.platform()}


def software() -> dict[str, Any]:
    """What is installed for this process, what Python ran by itself at its start, and what of torch is loaded."""
    loaded = sys.modules.get("torch")
    return {
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "packages": installed(sys.path),
        "startup": startup_files(),
        "torch": _told(lambda: torch_facts(loaded)) if loaded else {},
    }


def startup_files() -> dict[str, dict[str, str]]:
    """{"sitecustomize": {"path", "sha256"}}: where variables are set that nobody remembers."""
    paths = {name: getattr(sys.modules.get(name), "__file__", None) for name in STARTUP_MODULES}
    return {
        name: {"path": path, "sha256": hashlib.sha256(Path(path).read_bytes()).hexdigest()}
        for name, path in paths.items()
        if path and Path(path).is_file()
    }


def torch_facts(torch: Any) -> dict[str, Any]:
    """Versions as torch itself tells them; None where it has none. Never imports torch: the subject decides on that."""
    return {
        "version": str(torch.__version__),
        "cuda": torch.version.cuda,
        "cudnn": _told(lambda: torch.backends.cudnn.version()) if torch.version.cuda else None,
        "nccl": _told(lambda: ".".join(map(str, torch.cuda.nccl.version()))) if torch.version.cuda else None,
    }


def _told(ask: Callable[[], Any]) -> Any:
    try:
        return ask()
    except Exception:  # a build without that library
        return None


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
