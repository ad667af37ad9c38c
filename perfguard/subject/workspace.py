"""The folder of one campaign: checkouts, caches and logs of its builds, held by a lock as long as its owner lives.

The kernel drops the lock with the process, however it ends; the next start removes what it finds unlocked.
"""

import fcntl
import json
import os
import secrets
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from perfguard.errors import UsageError
from perfguard.subject.leftovers import end_processes, remove_tree

LOCK_NAME = "owner.json"
KEEP_NAME = "keep"


@dataclass(frozen=True, kw_only=True)
class Build:
    """Where one build of an arm lives. All paths of all builds have the same length."""

    checkout: Path
    caches: Path
    logs: Path


@dataclass(frozen=True, kw_only=True)
class Workspace:
    """`owner` marks every process started on its behalf (PERFGUARD_OWNER)."""

    folder: Path
    owner: str

    def new_build(self) -> Build:
        """A fresh folder. Its name is drawn, not numbered: nothing in a path tells one arm from the other."""
        root = self.folder / secrets.token_hex(4)
        build = Build(checkout=root / "tree", caches=root / "caches", logs=root / "logs")
        for folder in (build.checkout, build.caches, build.logs):
            folder.mkdir(parents=True)
        return build


def cache_root() -> Path:
    """$PERFGUARD_CACHE, else ~/.cache/perfguard, as a real path."""
    return Path(os.environ.get("PERFGUARD_CACHE") or Path.home() / ".cache" / "perfguard").absolute().resolve()


@contextmanager
def open_workspace(root: Path | None = None, *, keep: bool = False) -> Iterator[Workspace]:
    """A workspace for the `with` block; then its processes are ended and, unless `keep`, it is removed.

    Raises UsageError if the cache folder cannot be written.
    """
    root = root or cache_root()
    workspace = Workspace(folder=_work(root) / (owner := secrets.token_hex(8)), owner=owner)
    with _sweeping_paused(root):
        workspace.folder.mkdir()
        lock = _hold(workspace)
    try:
        yield workspace
    finally:
        end_processes(workspace.owner)
        if keep:
            (workspace.folder / KEEP_NAME).touch()
        else:
            remove_tree(workspace.folder)
        os.close(lock)


def sweep_leftovers(root: Path | None = None) -> tuple[Path, ...]:
    """Remove the folders of owners that are gone and end what they left running. Returns the folders removed."""
    root = root or cache_root()
    with _sweeping_paused(root):
        abandoned = [folder for folder in sorted(_work(root).iterdir()) if _is_abandoned(folder)]
    for folder in abandoned:
        end_processes(folder.name)
    return tuple(folder for folder in abandoned if remove_tree(folder))


def _work(root: Path) -> Path:
    work = root / "work"
    try:
        work.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unusable(root, error) from error
    return work


@contextmanager
def _sweeping_paused(root: Path) -> Iterator[None]:
    """Between making a folder and locking it, no sweep may look at it."""
    _work(root)
    try:
        handle = os.open(root / "sweep.lock", os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise _unusable(root, error) from error
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _unusable(root: Path, error: OSError) -> UsageError:
    return UsageError(f"the cache folder {root} cannot be written: {error.strerror}", "PERFGUARD_CACHE=DIR perfguard …")


def _hold(workspace: Workspace) -> int:
    handle = os.open(workspace.folder / LOCK_NAME, os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(handle, fcntl.LOCK_EX)
    started_at = datetime.now(UTC).isoformat(timespec="seconds")
    about = {"pid": os.getpid(), "host": socket.gethostname(), "started_at": started_at, "command": sys.argv[:1]}
    os.write(handle, json.dumps(about).encode())
    return handle


def _is_abandoned(folder: Path) -> bool:
    """True if nobody holds the folder. One of another host (a shared home) is never judged from here."""
    if (folder / KEEP_NAME).exists():
        return False
    try:
        handle = os.open(folder / LOCK_NAME, os.O_RDWR)
    except FileNotFoundError:
        return True  # its owner died before the lock, or an earlier removal ended half-way
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return _host_of(handle) in ("", socket.gethostname())
    except BlockingIOError:
        return False
    finally:
        os.close(handle)


def _host_of(handle: int) -> str:
    try:
        return str(json.loads(os.read(handle, 4096))["host"])
    except (ValueError, KeyError, TypeError):
        return ""  # its owner died before it could write
