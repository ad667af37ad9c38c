"""Environments of measured processes: what they get, what is stored of it, and whether it arrived. Pure.

Must not read os.environ: the caller hands it in.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from perfguard.records import Reason

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

REDACTED = "<redacted>"
SECRET_NAME = re.compile(
    r"TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIAL|COOKIE|AUTH(?!OR)"
    r"|(PRIVATE|API|ACCESS)_?KEY|(^|_)(KEY|PASS|PAT|PWD)$",
    re.IGNORECASE,
)
# Names that look like secrets and are none.
PLAIN_NAMES = frozenset({"PWD", "OLDPWD", "TOKENIZERS_PARALLELISM", "XAUTHORITY", "SSH_AUTH_SOCK"})
SECRET_VALUE = re.compile(
    r"gh[pousr]_\w{20,}|github_pat_\w{20,}|glpat-[\w-]{15,}|hf_\w{20,}"
    r"|\bsk-[\w-]{16,}|nvapi-[\w-]{20,}|xox[abeprs]-[\w-]{10,}"
    r"|\b(?:AKIA|ASIA)[0-9A-Z]{16}\b|\beyJ[\w-]{6,}\.eyJ[\w-]{6,}\.[\w-]+|-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*"
    r"|(?i:\bbearer )[\w.~+/-]{16,}=*"
)
# user:password@ of a URL; the user's name goes as well, since a token often stands there.
URL_CREDENTIALS = re.compile(r"(?<=://)[^/@\s]+(?=@)")


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


def redact(environment: Mapping[str, str]) -> dict[str, str]:
    """`environment` as it may be stored and shown: secrets replaced, found by name and by the shape of the value."""
    return {name: _redacted(name, value) for name, value in environment.items()}


def _redacted(name: str, value: str) -> str:
    # `exec:NAME` is NAME as a process began with it.
    plain = name.removeprefix("exec:")
    if value and plain.upper() not in PLAIN_NAMES and SECRET_NAME.search(plain):
        return REDACTED
    return URL_CREDENTIALS.sub(REDACTED, SECRET_VALUE.sub(REDACTED, value))


def undelivered(asked: Mapping[str, str], seen_by_rank: Sequence[Mapping[str, str]]) -> tuple[Reason, ...]:
    """Why the environment was not what was asked for: a variable that a rank lacks, sees otherwise, or alone has."""
    reasons = []
    for rank, seen in enumerate(seen_by_rank):
        for name, value in asked.items():
            if name not in seen:
                reasons.append(f"rank {rank} does not see {name}, asked for as {_shown(name, value)}")
            elif seen[name] != value:
                reasons.append(f"rank {rank} sees {name}={_shown(name, seen[name])}, asked for {_shown(name, value)}")
    names = {name for seen in seen_by_rank for name in seen if name.removeprefix("exec:") not in BY_RANK}
    for name in sorted(names - set(asked)):
        values = [seen.get(name) for seen in seen_by_rank]
        rank = next((rank for rank, value in enumerate(values) if value != values[0]), 0)
        if rank:
            here, there = _shown(name, values[0]), _shown(name, values[rank])
            reasons.append(f"{name} is {here} on rank 0 and {there} on rank {rank}")
    return tuple(Reason(code="environment", text=text) for text in reasons)


def _shown(name: str, value: str | None) -> str:
    return "not set" if value is None else repr(_redacted(name, value))
