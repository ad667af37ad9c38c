"""Who holds a folder of the cache: a lock that the kernel drops with its process, however that ends.

Must not remove anything: whoever asks decides what to do with a folder that nobody holds.
"""

import fcntl
import json
import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from perfguard.errors import UsageError

LOCK_NAME = "owner.json"
KEEP_NAME = "keep"


@dataclass(frozen=True, kw_only=True)
class Hold:
    """A folder that is ours until `handle` is closed. `before`: the token of whoever held it last, "" if nobody."""

    handle: int
    before: str = ""


@contextmanager
def sweeping_paused(root: Path) -> Iterator[None]:
    """Between making a folder and locking it, no sweep may look at it. Raises UsageError."""
    try:
        root.mkdir(parents=True, exist_ok=True)
        handle = os.open(root / "sweep.lock", os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise unusable(root, error) from error
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def unusable(root: Path, error: OSError) -> UsageError:
    return UsageError(f"the cache folder {root} cannot be written: {error.strerror}", "PERFGUARD_CACHE=DIR perfguard …")


def hold(folder: Path, owner: str) -> Hold | None:
    """Lock `folder` for the token `owner`; None if somebody else holds it. To be called while sweeping is paused."""
    handle = os.open(folder / LOCK_NAME, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        before = str(_about(handle).get("owner", ""))
        os.ftruncate(handle, 0)
        os.pwrite(handle, _about_us(owner), 0)
    except BaseException as error:
        os.close(handle)
        if isinstance(error, BlockingIOError):
            return None
        raise
    return Hold(handle=handle, before=before)


def is_abandoned(folder: Path) -> bool:
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
        return _about(handle).get("host", "") in ("", socket.gethostname())
    except BlockingIOError:
        return False
    finally:
        os.close(handle)


def _about_us(owner: str) -> bytes:
    started_at = datetime.now(UTC).isoformat(timespec="seconds")
    about = {"pid": os.getpid(), "host": socket.gethostname(), "started_at": started_at, "command": sys.argv[:1]}
    return json.dumps({**about, "owner": owner}).encode()


def _about(handle: int) -> dict[str, object]:
    """What the last owner wrote; nothing if it died before it could."""
    try:
        about = json.loads(os.pread(handle, 4096, 0))
    except ValueError:
        return {}
    return about if isinstance(about, dict) else {}
