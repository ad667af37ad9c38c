"""Environment variables out of a trial's record: as processes saw them, not as they were asked for. Pure."""

import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

from perfguard.protocol import ENVIRONMENT_PREFIXES, matters

# Beside the variables that ranks report: where programs and packages are found.
ALSO = ("PATH", "VIRTUAL_ENV", "CONDA_PREFIX")
# What ranks of the first version reported; of other variables their records say nothing.
FIRST_PREFIXES = ("NCCL_", "CUDA_", "TORCH", "OMP_", "MKL_", "LD_", "PYTORCH_", "GLOO_", "TRITON_", "PYTHON")
# Ours, or different in every launch by their meaning.
IGNORED = ("PERFGUARD_",)
# Of a terminal, a login or a CI job: another one each time, by its meaning; and who it is.
BY_SESSION = re.compile(
    r"_|SHLVL|PWD|OLDPWD|TMPDIR|USER|USERNAME|LOGNAME|HOME|HOST|HOSTNAME|SUDO_\w+|TERM\w*|COLUMNS|LINES|WINDOWID|DISPLAY|HIST\w*|LS_COLORS|PS\d|MAIL|TMUX|STY|CI"
    r"|(SSH|XDG|DBUS|TMUX|GPG|VSCODE|PYTEST|GITHUB|GITLAB|RUNNER|CI|BUILDKITE|JENKINS|HUDSON|BUILD|CIRCLE|DRONE"
    r"|SYSTEMD|JOURNAL|INVOCATION|PERFGUARD)_\w*"
)
BY_LAUNCH = frozenset({"RANK", "LOCAL_RANK", "GROUP_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"})


def environment_fields(
    record: Mapping[str, Any], first_run: Mapping[str, Any], asked: Mapping[str, str]
) -> dict[str, str]:
    """Variable -> value; "0: LL, 1: not set" where ranks differ. With `NCCL says …` where NCCL told. A command inherits
    all that there is, and may obey any of it."""
    is_whole = not record.get("ranks")
    seen = [plain(environ, asked, is_whole=is_whole) for environ in seen_by_process(record, first_run)]
    names = sorted({name for environ in seen for name in environ})
    fields = {name: _joined([environ.get(name) for environ in seen]) for name in names}
    return fields | _nccl(record)


def seen_by_process(record: Mapping[str, Any], first_run: Mapping[str, Any]) -> list[Mapping[str, str]]:
    """By rank; of a command what its processes said, on top of what it was given."""
    if ranks := record.get("ranks"):
        return [rank.get("environment", {}) for rank in ranks]
    given = record.get("environment", {})
    processes: Sequence[Mapping[str, Any]] = first_run.get("processes") or ()
    if not processes:
        return [given] if given else []
    told = [process["environment"] for process in processes if process.get("rank")] or [processes[0]["environment"]]
    also = {name: value for name, value in given.items() if not matters(name)}
    return [{**also, **environ} for environ in told]


def plain(
    environ: Mapping[str, str], asked: Mapping[str, str], also: Sequence[str] = ALSO, *, is_whole: bool = False
) -> dict[str, str]:
    """Variables that may change speed, without our own and without the folders of caches that each build has.

    `is_whole`: all but those that are others in every session.
    """
    return {
        name: value
        for name, value in environ.items()
        if ":" not in name
        and (matters(name) or name in also or name in asked or (is_whole and not BY_SESSION.fullmatch(name)))
        and not name.startswith(IGNORED)
        and name not in BY_LAUNCH
        and not (name not in asked and _is_own_cache(name, value))
    }


def reported_prefixes(record: Mapping[str, Any]) -> tuple[str, ...]:
    """Beginnings of the variables that a record would name if they were set."""
    ranks = record.get("ranks") or ()
    return FIRST_PREFIXES if ranks and not ranks[0].get("software") else (*ENVIRONMENT_PREFIXES, *ALSO)


def given_variables(record: Mapping[str, Any]) -> Mapping[str, str] | None:
    """Of a command all that it inherited or was asked for. A runner gets nothing that was not asked for, beside what
    its ranks report; the first ones reported too little.
    """
    if ranks := record.get("ranks"):
        return {} if ranks[0].get("software") else None
    given: Mapping[str, str] | None = record.get("environment")
    return given


def places(record: Mapping[str, Any], first_run: Mapping[str, Any]) -> dict[str, str]:
    """Variable -> where it was changed after the process began, for those that were."""
    found: dict[str, str] = {}
    for rank in record.get("ranks") or ():
        found |= rank.get("environment_changes", {})
    for process in first_run.get("processes") or ():
        startup = " or ".join(str(file["path"]) for file in process["software"]["startup"].values())
        early = [name.removeprefix("start:") for name in process["environment"] if name.startswith("start:")]
        found |= dict.fromkeys(early, f"changed while Python started, by {startup or 'a .pth file'}")
    return found


def _is_own_cache(name: str, value: str) -> bool:
    """As a launch is given them: `…/caches/NAME in small letters`."""
    folder, last = os.path.split(value)
    return last == name.lower() and os.path.basename(folder) == "caches"


def _joined(values: Sequence[str | None]) -> str:
    shown = ["not set" if value is None else value for value in values]
    return shown[0] if len(set(shown)) == 1 else ", ".join(f"{rank}: {value}" for rank, value in enumerate(shown))


def _nccl(record: Mapping[str, Any]) -> dict[str, str]:
    said: Mapping[str, Any] = next((words for words in record.get("nccl") or () if words), {})
    fields = {
        "NCCL says version": said.get("version"),
        "NCCL says transports": ", ".join(said.get("transports", ())),
        "NCCL says channels": said.get("num_channels"),
        "NCCL says network": said.get("network"),
        "NCCL says choices": "; ".join(said.get("choices", ())),
    }
    return {name: str(value) for name, value in fields.items() if value}
