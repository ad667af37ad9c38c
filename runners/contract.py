"""What launcher, runners and subject agree on: the records they pass, the ready mark, the seam model/entry.py.

Must not measure, and must not import model other than through import_entry.
"""

import difflib
import importlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeVar

from perfguard.protocol import Spec
from runners import origin

SUPPORTED_API_VERSIONS = (1, 2)


class UnbuildableError(Exception):
    """The subject cannot be measured at this commit: it does not import or speaks an unknown contract."""


class InvalidError(Exception):
    """The run ended well, but what was measured is not what was asked for."""


class PlainError(Exception):
    """Its text says all: the lines of code it came through would add nothing."""


class ParamsError(PlainError, ValueError):
    """A parameter of the workload that cannot be; nothing was measured, and no commit is to blame."""


class TogetherError(UnbuildableError):
    """The subjects of one launch cannot live in one process; each may well be measured in launches of its own."""


@dataclass(frozen=True, kw_only=True)
class Launch:
    """One rank of one launch. `started_s` is time.perf_counter() when the process began, `started_env` its environment
    then; None where nobody kept it.
    """

    spec: Spec
    rank: int
    world_size: int
    subject_root: Path
    started_s: float
    started_env: Mapping[str, str] | None = None

    @property
    def is_first(self) -> bool:
        return self.rank == 0


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """What a runner returns on every rank; field names and units are those of protocol.Result."""

    values: Mapping[str, Any] = field(default_factory=dict)
    digests: Mapping[str, str] = field(default_factory=dict)
    samples: Mapping[str, list[float]] = field(default_factory=dict)
    counts: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    warmup: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    origin: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    versions: Mapping[str, Any] = field(default_factory=dict)
    load_s: float = 0.0
    measured_s: float = 0.0
    peak_memory_bytes: int = 0
    slots: Sequence[Mapping[str, Any]] = ()
    reasons: Sequence[Mapping[str, str]] = ()
    engine: Mapping[str, Any] = field(default_factory=dict)
    software: Mapping[str, Any] = field(default_factory=dict)  # of the measured program, where that is another process


@dataclass(frozen=True, kw_only=True)
class ModeRun:
    """One mode measured over all prompts; `tokens` holds exactly the asked number of ids for each prompt."""

    values: Mapping[str, float]
    samples: Mapping[str, list[float]]
    counts: Mapping[str, Any]
    warmup: Mapping[str, Any]
    tokens: Sequence[Sequence[int]]


class Session(Protocol):
    """What model.entry.build(spec) returns at API_VERSION 2. Token ids are int; docs/protocol.md says more."""

    @property
    def run_ahead(self) -> int: ...  # steps that may be enqueued beyond the one that is read next; 0: none

    @property
    def num_drafted(self) -> int: ...  # tokens that the last cycle drafted for each sequence

    def prefill(self, prompts: Sequence[list[int]], mode: str = "plain", marks: bool = False) -> list[int]: ...
    def decode(self) -> None: ...
    def draft(self) -> None: ...
    def verify(self) -> None: ...
    def accept(self) -> None: ...
    def read(self) -> list[list[int]]: ...
    def synchronize(self) -> None: ...
    def marks(self) -> dict[str, float]: ...
    def probe(self) -> dict[str, Any]: ...
    def step_bytes(self, num_rows: int, distinct_experts: float, context: int) -> float: ...
    def peak_memory_bytes(self) -> int: ...
    def describe(self) -> dict[str, Any]: ...
    def close(self) -> None: ...


def announce_ready(launch: Launch) -> float:
    """Create the ready file: loading and warm-up are over. Returns load_s, seconds since the process began."""
    Path(launch.spec.ready.replace("{rank}", str(launch.rank))).touch()
    return time.perf_counter() - launch.started_s


def import_entry(subject_root: Path) -> Any:
    """Import the subject's model.entry. Raises OriginError, or UnbuildableError with the cause in its text."""
    try:
        entry = importlib.import_module("model.entry")
    except (Exception, SystemExit) as error:
        # A foreign `model` without `entry` also fails to import: then where it came from is the finding.
        origin.check(subject_root)
        raise UnbuildableError(f"model.entry does not import: {type(error).__name__}: {error}") from error
    origin.check(subject_root)
    version = getattr(entry, "API_VERSION", None)
    if version not in SUPPORTED_API_VERSIONS:
        supported = ", ".join(map(str, SUPPORTED_API_VERSIONS))
        raise UnbuildableError(f"{entry.__file__}: API_VERSION is {version!r}, supported: {supported}")
    return entry


Params = TypeVar("Params")


def parse_params(kind: type[Params], given: Mapping[str, Any]) -> Params:
    """Fill the params record `kind`. Raises ValueError that names an unknown key or a value of another type."""
    defaults = vars(kind())
    for key, value in given.items():
        if key not in defaults:
            near = difflib.get_close_matches(key, defaults, n=1, cutoff=0.0)
            raise ParamsError(f"params: unknown key {key!r}; did you mean {near[0]!r}?")
        if not _has_type_of(value, defaults[key]):
            raise ParamsError(f"params: {key} is {value!r}, expected a value like {defaults[key]!r}")
    return kind(**given)


def _has_type_of(value: Any, default: Any) -> bool:
    if isinstance(value, bool) != isinstance(default, bool):
        return False
    if isinstance(default, float):
        return isinstance(value, int | float)
    return isinstance(value, Mapping if isinstance(default, Mapping) else type(default))
