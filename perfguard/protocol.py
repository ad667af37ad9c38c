"""Wire format between the harness and a runner: two JSON files. Standard library only, imports nothing of perfguard.

The harness writes a spec and starts one process a rank with the path of the spec; each rank writes one result
under a temporary name and renames it. Standard output and error are logs and never parsed.
docs/protocol.md describes every field, so that an engine in any language can speak it.
"""

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar

SPEC_SCHEMA = "perfguard/spec@1"
RESULT_SCHEMA = "perfguard/result@1"
# What each entry of `Result.slots` holds, under the names and with the meanings of the result's own fields.
SLOT_FIELDS = ("values", "digests", "samples", "counts", "warmup", "origin", "measured_s")
# Variables that change speed or which code runs: what is reported and stored of an environment. The rest (tokens,
# paths of a person) stays private. One list for ranks, for the import probe and for the harness itself.
ENVIRONMENT_PREFIXES = (
    "NCCL_", "CUDA_", "CUDNN_", "CUBLAS_", "NVIDIA_", "NVSHMEM_", "UCX_", "GLOO_", "TORCH", "PYTORCH_", "TRITON_",
    "FLASHINFER_", "VLLM_", "SGLANG_", "SGL_", "OMP_", "GOMP_", "KMP_", "MKL_", "OPENBLAS_", "MALLOC_", "LD_",
    "PYTHON", "PERFGUARD_",
)  # fmt: skip
LAUNCHER_PREFIX = "TORCHELASTIC_"  # torchrun's own bookkeeping: differs by rank and says nothing
PACKAGE_SUFFIXES = (".dist-info", ".egg-info")


# How a runner ends that has a result and cannot write it (EX_IOERR of sysexits.h): where the disk is full its own words
# of it are lost too.
UNWRITTEN = 74


class ProtocolError(ValueError):
    """A spec or result that does not hold to the format; the message names file and field."""


# What a runner may take behind the measured part to profile one mode (params.trace); its launch is given as much more.
TRACE_LIMIT_S = 120.0


@dataclass(frozen=True, kw_only=True)
class Spec:
    """What one launch has to do. The same file serves every rank.

    `result` and `ready` hold "{rank}", which each rank replaces by its own number. `ready` is created (empty)
    when loading and warm-up have ended and the measured part begins. `seed` and `place`, the trial's name within its
    campaign, decide what is drawn: another campaign with this seed draws the same. `slots`, where it is not empty,
    asks for so many instances in this one launch: the subject root of each, in the order they are built in.
    `slot_modes`, where it is not empty, names the one mode of each slot; then slots of one root share one instance.
    """

    trial: str
    runner: str
    modes: tuple[str, ...]
    params: Mapping[str, Any]
    subject_root: str
    seed: int
    result: str
    ready: str
    place: str = ""
    slots: tuple[str, ...] = ()
    slot_modes: tuple[str, ...] = ()
    schema: str = SPEC_SCHEMA


@dataclass(frozen=True, kw_only=True)
class Result:
    """What one rank observed. Only rank 0 needs `values`, `digests`, `samples` and `counts`.

    `samples` maps a name to seconds per iteration (or counts); `counts` maps mode to counts; `origin` maps a
    module of the subject to {"path", "sha256"}; `environment` is what this process sees at run time; `software` what
    is installed for it and what of torch is loaded. `slots` answers those of the spec, one mapping of SLOT_FIELDS
    each; then the fields of the same names above stay empty. `reasons`, each {"code", "text"}, say why what was
    measured must not count; `engine` is what a server that was measured is and says of itself, by mode.
    """

    trial: str
    rank: int
    world_size: int
    status: str = "ok"
    error: str = ""
    values: Mapping[str, float] = field(default_factory=dict)
    digests: Mapping[str, str] = field(default_factory=dict)
    samples: Mapping[str, list[float]] = field(default_factory=dict)
    counts: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    warmup: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    origin: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    versions: Mapping[str, Any] = field(default_factory=dict)
    software: Mapping[str, Any] = field(default_factory=dict)
    process: Mapping[str, Any] = field(default_factory=dict)
    load_s: float = 0.0
    measured_s: float = 0.0
    peak_memory_bytes: int = 0
    slots: tuple[Mapping[str, Any], ...] = ()
    reasons: tuple[Mapping[str, str], ...] = ()
    engine: Mapping[str, Any] = field(default_factory=dict)
    schema: str = RESULT_SCHEMA


Message = TypeVar("Message", Spec, Result)


def write(path: str | Path, message: Spec | Result) -> None:
    """Write under a temporary name beside `path`, flush to disk, rename: a reader sees all of it or nothing."""
    target = Path(path)
    temporary = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        with open(temporary, "w", encoding="utf-8") as handle:
            json.dump(asdict(message), handle, allow_nan=True)
            handle.flush()
            os.fsync(handle.fileno())
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)


def read_spec(path: str | Path) -> Spec:
    spec = _read(path, Spec, SPEC_SCHEMA)
    lists = {name: tuple(getattr(spec, name)) for name in ("modes", "slots", "slot_modes")}
    return Spec(**{**vars(spec), **lists})


def read_result(path: str | Path) -> Result:
    result = _read(path, Result, RESULT_SCHEMA)
    return Result(**{**vars(result), "slots": tuple(result.slots), "reasons": tuple(result.reasons)})


def _read(path: str | Path, kind: type[Message], schema: str) -> Message:
    try:
        raw = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ProtocolError(f"{path}: not a readable JSON file: {error}") from error
    if not isinstance(raw, dict) or raw.get("schema") != schema:
        found = raw.get("schema") if isinstance(raw, dict) else type(raw).__name__
        raise ProtocolError(f"{path}: schema is {found!r}, expected {schema!r}")
    # Unknown fields come from a newer writer and are ignored; a missing one without default is an error.
    known = {f.name for f in fields(kind)}
    try:
        return kind(**{key: value for key, value in raw.items() if key in known})
    except TypeError as error:
        raise ProtocolError(f"{path}: {error}") from error


def matters(name: str) -> bool:
    """Whether the variable `name` may change speed, and so is reported."""
    return name.startswith(ENVIRONMENT_PREFIXES) and not name.startswith(LAUNCHER_PREFIX)


def installed(folders: Iterable[str]) -> dict[str, str]:
    """Package -> version, as Python would find them in `folders` (sys.path): the first one wins.

    From the names of the folders that installers leave: importlib.metadata reads a file for each package, which
    takes a quarter of a second of every launch.
    """
    found: dict[str, str] = {}
    for folder in folders:
        try:
            names = sorted(os.listdir(folder or "."))
        except OSError:
            continue  # a zip archive, or a folder that is not there
        for name in names:
            if name.endswith(PACKAGE_SUFFIXES):
                package, _, version = name.rpartition(".")[0].partition("-")
                found.setdefault(package.lower().replace("_", "-"), version.partition("-")[0])
    return found
