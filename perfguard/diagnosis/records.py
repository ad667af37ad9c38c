"""What a diagnosis starts from and what it says. Records only."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from perfguard.machine.reading import Reading

Severity = Literal["ok", "warn", "fail", "unknown"]
NOT_ASKED = Reading(status="error", why="not asked")


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing that was looked at. `advice` is what to do; empty where nothing is to be done.

    fail: measuring here now would say nothing, or would not work. warn: it will be noisier or end sooner in INVALID.
    unknown: it cannot be told here, so nobody watches it.
    """

    code: str
    about: str
    severity: Severity
    text: str
    advice: str = ""


@dataclass(frozen=True, kw_only=True)
class Setup:
    """What perfguard itself needs. `database`: True where results can be written."""

    git: Reading = NOT_ASKED
    cache_free_bytes: Reading = NOT_ASKED
    database: Reading = NOT_ASKED
    environment: Mapping[str, str] = field(default_factory=dict)
    nccl_files: Mapping[str, Sequence[str]] = field(default_factory=dict)
    is_root: bool = False
    bindings: str = ""


@dataclass(frozen=True, kw_only=True)
class MachineState:
    """All that was read. `gpus`: by UUID, in the order of their bus. `unreadable`: cards that do not answer.

    `host_before`, `host`: the host twice, some time apart, since counters say something only as differences.
    """

    gpus: Mapping[str, Mapping[str, Reading]] = field(default_factory=dict)
    nvml_reason: str = ""
    unreadable: Mapping[str, str] = field(default_factory=dict)
    parents: Mapping[str, str] = field(default_factory=dict)
    topology: Mapping[tuple[str, str], Reading] = field(default_factory=dict)
    host_before: Mapping[str, Reading] = field(default_factory=dict)
    host: Mapping[str, Reading] = field(default_factory=dict)
    own_pids: frozenset[int] = frozenset()
    setup: Setup = Setup()


def known(readings: Mapping[str, Reading], name: str) -> Any:
    """The value, or None where it is not known."""
    return readings[name].value if name in readings else None


def why_unknown(readings: Mapping[str, Reading], name: str) -> str:
    """ "no permission: …" for people."""
    if name not in readings:
        return "not read"
    reading = readings[name]
    status = reading.status.replace("_", " ")
    return status if reading.why.lower() in ("", status) else f"{status}: {reading.why}"
