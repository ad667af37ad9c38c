"""What perfguard changed of a GPU's clocks and what was there before: one file a card, on disk before any change.

The file is the promise to put things back: it goes only when that is done. Whoever finds one left by a perfguard that
was killed, or whose machine lost power, can restore from it. Must not speak to NVML.
"""

import json
import os
import re
import stat
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from perfguard.machine.hold import lock_folder

SAFE_NAME = re.compile(r"[A-Za-z0-9-]+")
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True, kw_only=True)
class Setting:
    """Clocks in MHz; None where one is not set. `by`: how they are set."""

    sm_mhz: int | None = None
    memory_mhz: int | None = None
    by: str = "lock"


@dataclass(frozen=True, kw_only=True)
class ClockState:
    """`asked`: what perfguard wants of this card. `application`: the application clocks found, where somebody had set
    them apart from the default. A lock found cannot be read through NVML; one that perfguard itself had kept
    (`perfguard clocks lock`) is known from `earlier`, that lock's own state, and is what comes back.

    `changes`: what may have been changed ("sm_lock", "memory_lock", "application"), written before it is.
    `is_kept`: it shall outlive the command that set it.
    """

    uuid: str
    asked: Setting
    changes: tuple[str, ...] = ()
    application: Setting | None = None
    earlier: "ClockState | None" = None
    is_kept: bool = False
    command: str = ""
    pid: int = 0
    at: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))
    boot_id: str = field(default_factory=lambda: _boot_id())


def state_folder() -> Path:
    """Beside the lock of this machine."""
    return lock_folder() / "clocks"


def save(state: ClockState, folder: Path) -> None:
    """On disk when this returns, power cut or not. Raises OSError."""
    if not folder.is_dir():
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(stat.S_ISVTX | 0o777)
    path = _path(state.uuid, folder)
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    # Anybody may write into the folder: what lies there under this name is not ours, be it a link or a file of another.
    fresh.unlink(missing_ok=True)
    handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644)
    try:
        os.write(handle, json.dumps(asdict(state)).encode())
        os.fsync(handle)
    finally:
        os.close(handle)
    os.replace(fresh, path)
    _sync(folder)


def forget(uuid: str, folder: Path) -> None:
    """The card is as it was found. Raises OSError."""
    _path(uuid, folder).unlink(missing_ok=True)
    _sync(folder)


def load_states(folder: Path) -> dict[str, ClockState]:
    """By UUID, every state that may be believed: a file of root or of ourselves.

    Anybody can write into the folder, and must not make root set clocks of his choice.
    """
    found = (_read(path) for path in sorted(folder.glob("[!.]*.json")))
    return {state.uuid: state for state in found if state is not None}


def states_of_others(folder: Path) -> tuple[int, ...]:
    """Users (by number) who left states that are not ours to restore."""
    owners = {path.lstat().st_uid for path in folder.glob("[!.]*.json")}
    return tuple(sorted(owners - {0, os.geteuid()}))


def _path(uuid: str, folder: Path) -> Path:
    if not SAFE_NAME.fullmatch(uuid):
        raise ValueError(f"{uuid!r} is no UUID of a GPU")
    return folder / f"{uuid}.json"


def _read(path: Path) -> ClockState | None:
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    except OSError:
        return None
    with open(handle, encoding="utf-8") as stream:
        if os.fstat(handle).st_uid not in (0, os.geteuid()):
            return None
        try:
            state = _state(json.load(stream))
        except (ValueError, KeyError, TypeError):
            return None
    return state if state.uuid == path.stem else None


def _state(plain: Mapping[str, Any]) -> ClockState:
    return ClockState(
        **{
            **plain,
            "asked": Setting(**plain["asked"]),
            "changes": tuple(plain["changes"]),
            "application": None if plain["application"] is None else Setting(**plain["application"]),
            "earlier": None if plain["earlier"] is None else _state(plain["earlier"]),
        }
    )


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _boot_id() -> str:
    try:
        return BOOT_ID.read_text().strip()
    except OSError:
        return ""
