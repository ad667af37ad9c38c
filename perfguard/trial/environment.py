"""Environments of measured processes: what they get, and whether it arrived. Pure.

Must not read os.environ: the caller hands it in.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from perfguard.records import Reason
from perfguard.trial.secrets import redacted

# What a built-in runner may inherit: to find programs, libraries and devices. Everything else that changes speed
# (NCCL_*, TORCH_*, OMP_*, LD_PRELOAD, ...) is part of an arm and has to be asked for.
ALLOWED = (
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "TZ",
    "TMPDIR",
    "LD_LIBRARY_PATH",
    "VIRTUAL_ENV",
    "CONDA_PREFIX",
    "CUDA_HOME",
    "CUDA_PATH",
    "CUDA_VISIBLE_DEVICES",
    "CUDA_DEVICE_ORDER",
    "NVIDIA_VISIBLE_DEVICES",
    "NVIDIA_DRIVER_CAPABILITIES",
    "CC",
    "CXX",
)
# Compile caches: one folder for each build of an arm, so that no arm warms the other. Python's byte code needs
# none: it lies in each checkout, and moving that of the libraries would compile torch again for each arm.
CACHES = (
    "TRITON_CACHE_DIR",
    "TORCHINDUCTOR_CACHE_DIR",
    "TORCH_EXTENSIONS_DIR",
    "CUDA_CACHE_PATH",
    "NUMBA_CACHE_DIR",
    "VLLM_CACHE_ROOT",
    "FLASHINFER_WORKSPACE_BASE",
    "DG_JIT_CACHE_DIR",
)
# One thread a rank, as torchrun sets it: a number that follows the launcher or the machine is a hidden difference.
THREADS = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
# Left by git where perfguard runs in a hook; it would move the subject's own git calls to the user's repository.
GIT_LEFT = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_OBJECT_DIRECTORY", "GIT_COMMON_DIR")
# Differ between ranks by their meaning.
BY_RANK = frozenset({"RANK", "LOCAL_RANK", "GROUP_RANK"})

# Differences of software that are spelled out.
SHOWN = 3


def runner_environment(inherited: Mapping[str, str], asked: Mapping[str, str], caches: Path) -> dict[str, str]:
    """Environment of a built-in runner: allow-list, caches and threads of our own, then what the arm asks for.

    PERFGUARD_ASKED lists the names asked for, so that each rank reports them.
    """
    allowed = {name: inherited[name] for name in ALLOWED if name in inherited}
    ours = {"PYTHONUNBUFFERED": "1", "PERFGUARD_ASKED": ",".join(sorted(asked))}
    return allowed | cache_folders(caches) | THREADS | ours | dict(asked)


def command_environment(
    inherited: Mapping[str, str], asked: Mapping[str, str], caches: Path, *, trial: str, commit: str
) -> dict[str, str]:
    """Environment of a person's own command: all that is inherited, caches of our own, then what the arm asks for.

    It is told the trial and the commit, never the side.
    """
    kept = {name: value for name, value in inherited.items() if name not in GIT_LEFT}
    ours = {"PERFGUARD_TRIAL": trial, "PERFGUARD_COMMIT": commit}
    return kept | cache_folders(caches) | ours | dict(asked)


def cache_folders(caches: Path) -> dict[str, str]:
    return {name: str(caches / name.lower()) for name in CACHES}


def undelivered(
    asked: Mapping[str, str], seen_by_rank: Sequence[Mapping[str, str]], startup: Sequence[str] = ()
) -> tuple[Reason, ...]:
    """Why the environment was not what was asked for: a variable that a rank lacks, sees otherwise, or alone has.

    `startup`: by rank, the files that Python ran by itself at its start, to be named where they are the place.
    """
    reasons = []
    for rank, seen in enumerate(seen_by_rank):
        for name, value in asked.items():
            if seen.get(name) == value:
                continue
            what = (
                f"sees {name}={_shown(name, seen[name])}, asked for {_shown(name, value)}"
                if name in seen
                else f"does not see {name}, asked for as {_shown(name, value)}"
            )
            place = place_of_change(name, value, seen, startup[rank] if rank < len(startup) else "")
            reasons.append(f"rank {rank} {what}: {place}")
    plain_names = {name for seen in seen_by_rank for name in seen if ":" not in name}
    for name in sorted(plain_names - set(asked) - BY_RANK):
        values = [seen.get(name) for seen in seen_by_rank]
        rank = next((rank for rank, value in enumerate(values) if value != values[0]), 0)
        if rank:
            here, there = _shown(name, values[0]), _shown(name, values[rank])
            reasons.append(f"{name} is {here} on rank 0 and {there} on rank {rank}")
    return tuple(Reason(code="environment", text=text) for text in reasons)


def lost_on_the_way(asked: Mapping[str, str], processes: Sequence[Mapping[str, Any]]) -> tuple[Reason, ...]:
    """The same for the Python processes of a person's own command, which may well start helpers that need nothing.

    Processes that call themselves ranks are held to what was asked for; of the others one must have got it.
    """
    ranks = [process for process in processes if process["rank"]]
    texts = []
    for name, value in asked.items():
        lacking = [process for process in ranks or processes if process["environment"].get(name) != value]
        if not lacking or (not ranks and len(lacking) < len(processes)):
            continue
        first = lacking[0]
        who = f"rank {first['rank']}" if ranks else "no Python process of the command"
        seen = first["environment"]
        verb = "sees" if not ranks else "does not see"
        text = f"{who} {verb} {name}={_shown(name, value)} as asked for, but {_shown(name, seen.get(name))}"
        texts.append(f"{text}: {place_of_change(name, value, seen, _startup_of(first))}")
    return tuple(Reason(code="environment", text=text) for text in texts)


def _startup_of(process: Mapping[str, Any]) -> str:
    return " or ".join(file["path"] for file in process["software"]["startup"].values())


def place_of_change(name: str, value: str, seen: Mapping[str, str], startup: str = "") -> str:
    """Where a variable that was asked for as `value` got lost on its way to what a process sees at its end."""
    at_exec = seen.get(f"exec:{name}", seen.get(name))
    if at_exec != value:
        return "it had not arrived when the process began (a launcher or wrapper in front of it)"
    if seen.get(f"start:{name}", at_exec) != value:
        return f"changed while Python started, by {startup or 'sitecustomize, usercustomize or a .pth file'}"
    return "changed after the process began, by the code under test or a library that it imports"


def changes(seen: Mapping[str, str], startup: str = "") -> dict[str, str]:
    """Variables that were another value when the process began, with the place: what a person did not ask for."""
    moved = [name.removeprefix("exec:") for name in seen if name.startswith("exec:")]
    return {name: place_of_change(name, seen[f"exec:{name}"], seen, startup) for name in moved}


def unlike(software_by_rank: Sequence[Mapping[str, Any]]) -> tuple[Reason, ...]:
    """Ranks of one launch that run on other software than rank 0: they do not measure one thing."""
    reasons = []
    for rank, software in enumerate(software_by_rank):
        here, there = _flat(software_by_rank[0]), _flat(software)
        differing = sorted(name for name in {*here, *there} if here.get(name) != there.get(name))
        for name in differing[:SHOWN]:
            text = f"{name} is {here.get(name, 'missing')} on rank 0 and {there.get(name, 'missing')} on rank {rank}"
            reasons.append(Reason(code="environment", text=text))
    return tuple(reasons)


def _flat(software: Mapping[str, Any]) -> dict[str, str]:
    nested = {**software.get("packages", {}), **{f"torch {k}": v for k, v in (software.get("torch") or {}).items()}}
    return {name: str(value) for name, value in {"python": software.get("python"), **nested}.items()}


def _shown(name: str, value: str | None) -> str:
    return "not set" if value is None else repr(redacted(name, value))
