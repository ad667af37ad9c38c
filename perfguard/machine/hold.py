"""One measuring job at a time on a machine, for all users: a lock file that the kernel frees with its holder.

The lock is advice between perfguards: it keeps nobody else from using the machine.
"""

import fcntl
import json
import os
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from perfguard.errors import BusyError

LOCK_NAME = "machine.lock"
# A fixed name: $TMPDIR differs between users, and then everybody would hold a machine of their own.
DEFAULT_FOLDER = "/tmp/perfguard-lock"
POLL_S = 0.2
# Room for the holder's line; it is written in one piece over the last one.
LINE_BYTES = 4096
MAX_COMMAND = 200


@dataclass(frozen=True, kw_only=True)
class Holder:
    """Who measures. Unknown fields are empty."""

    pid: int = 0
    user: int = -1
    command: str = ""
    started_at: str = ""

    def __str__(self) -> str:
        who = f"pid {self.pid}" if self.pid else "an unknown process"
        return f"{who} (user {self.user}, since {self.started_at}): {self.command}" if self.pid else who


@contextmanager
def hold_machine(
    command: str,
    *,
    wait_s: float = 0.0,
    on_wait: Callable[[Holder, float], None] | None = None,
    folder: Path | None = None,
) -> Iterator[int]:
    """Hold this machine for the `with` block; `command` is shown to all users, so it must hold no secret.

    Yields the descriptor of the lock: a process that inherits it holds the machine for as long as it lives.

    Waits up to `wait_s` seconds (math.inf: for ever), telling `on_wait` who holds it and for how long we have
    waited. Raises BusyError naming the holder.
    """
    path = (folder or lock_folder()) / LOCK_NAME
    handle = _wait_for(path, wait_s, on_wait)
    try:
        _write(handle, Holder(pid=os.getpid(), user=os.getuid(), command=command[:MAX_COMMAND], started_at=_now()))
        yield handle
    finally:
        os.close(handle)


def lock_folder() -> Path:
    """$PERFGUARD_LOCK_DIR, else one folder that every user of this machine can write."""
    return Path(os.environ.get("PERFGUARD_LOCK_DIR") or DEFAULT_FOLDER)


def read_holder(handle: int) -> Holder:
    """What the holder wrote; an unknown one if it has not yet."""
    try:
        told = json.loads(os.pread(handle, LINE_BYTES, 0))
        return Holder(**{name: told[name] for name in ("pid", "user", "command", "started_at")})
    except (ValueError, KeyError, TypeError):
        return Holder()


def _wait_for(path: Path, wait_s: float, on_wait: Callable[[Holder, float], None] | None) -> int:
    began_s = time.monotonic()
    while True:
        handle = _open(path)
        if _take(handle):
            if _is_same_file(handle, path):
                return handle
            os.close(handle)  # deleted meanwhile (a cleaner of /tmp): it would hold nothing
            continue
        holder = read_holder(handle)
        os.close(handle)
        waited_s = time.monotonic() - began_s
        if waited_s >= wait_s:
            raise BusyError(f"this machine is being measured on by {holder}", "run it again when that has ended")
        if on_wait is not None:
            on_wait(holder, waited_s)
        time.sleep(min(POLL_S, wait_s - waited_s))


def _open(path: Path) -> int:
    """The lock file, writable by every user. Opened without O_CREAT first: the kernel's protected_regular forbids
    that flag on other users' files in a sticky folder.
    """
    try:
        _make_folder(path.parent)
        while True:
            try:
                return os.open(path, os.O_RDWR | os.O_NOFOLLOW)
            except FileNotFoundError:
                pass
            try:
                handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o666)
            except FileExistsError:
                continue
            os.fchmod(handle, 0o666)  # whatever the umask says
            return handle
    except OSError as error:
        step = "PERFGUARD_LOCK_DIR=DIR (the same for everybody who measures here)"
        raise BusyError(f"the lock file {path} cannot be used: {error.strerror}", step) from error


def _make_folder(folder: Path) -> None:
    """Writable by all and sticky, as /tmp is; a folder that is there stays as it is."""
    if not folder.is_dir():
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(stat.S_ISVTX | 0o777)


def _take(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_same_file(handle: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), os.stat(path, follow_symlinks=False))
    except FileNotFoundError:
        return False


def _write(handle: int, holder: Holder) -> None:
    os.pwrite(handle, json.dumps(asdict(holder)).encode().ljust(LINE_BYTES)[:LINE_BYTES], 0)
    os.utime(handle)  # cleaners of /tmp go by age


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
