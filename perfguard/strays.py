"""What launches leave behind outside of their folders: remembered before a launch, removed after it.

Temporary files, such as the sockets that vLLM never removes, lie in a folder made for the launch. Names in /dev/shm
can have no folder: an engine that ends by itself removes its own, one that was killed leaves hundreds of megabytes
that nothing gives back but a person or a reboot. Standard library only. Must never remove a name in /dev/shm that was
there before, that belongs to somebody else, or that any living process has mapped or open.
"""

import contextlib
import json
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

PLACE = Path("/dev/shm")
# Python's own: shared memory, and the semaphores of multiprocessing. And what vLLM's ranks on a processor leave behind
# whenever they end (seen in 0.32).
PREFIXES = ("psm_", "sem.mp-", "vllm_dist_")
# Short: the path of a socket has room for 107 characters.
PREFIX = "pg-"


def remember(record: Path, place: Path = PLACE) -> Path:
    """The path of a folder for temporary files, which the caller makes.

    It and the names that are in `place` now go into the file `record`, for `clear`, or for the next start if we are
    killed. Raises OSError where there is no room.
    """
    temporary = Path(tempfile.gettempdir(), f"{PREFIX}{secrets.token_hex(4)}")
    record.parent.mkdir(parents=True, exist_ok=True)
    record.write_text(json.dumps({"temporary": str(temporary), "names": sorted(names(place))}), encoding="utf-8")
    return temporary


def names(place: Path = PLACE) -> set[str]:
    try:
        return {name for name in os.listdir(place) if name.startswith(PREFIXES)}
    except OSError:  # another system has no such folder
        return set()


def clear(record: Path, place: Path = PLACE) -> tuple[str, ...]:
    """Remove what came since `remember` and nobody uses; returns the names that went from `place`.

    The record stays as long as something does: its user may end soon. Nothing where nothing was remembered.
    """
    try:
        then, since_s = json.loads(record.read_text(encoding="utf-8")), record.stat().st_mtime
        temporary, before = Path(then["temporary"]), set(then["names"])
    except (OSError, ValueError, KeyError, TypeError):
        return ()
    is_gone = not temporary.name.startswith(PREFIX) or remove_tree(temporary)
    new = sorted(name for name in names(place) - before if _is_ours(place / name, since_s))
    used = set(_in_use(place)) if new else set()
    removed = [name for name in new if not {name, _inode(place / name)} & used and _removed(place / name)]
    if is_gone and removed == new:
        record.unlink(missing_ok=True)
    return tuple(removed)


def clear_all(folder: Path, place: Path = PLACE) -> tuple[str, ...]:
    """The same for every record in `folder`, once nobody of ours runs any more."""
    return tuple(name for record in sorted(folder.glob("*.json")) for name in clear(record, place))


def remove_tree(folder: Path) -> bool:
    """Remove a folder, read-only content included; False if something of it stays."""
    for parent, names, _ in os.walk(folder):
        # Deleting needs write permission on the folder that holds a file, never on the file.
        for path in (parent, *(os.path.join(parent, name) for name in names)):
            _make_writable(path)
    shutil.rmtree(folder, ignore_errors=True)
    return not folder.exists()


def _make_writable(folder: str) -> None:
    if os.path.islink(folder):
        return  # its target is not ours
    with contextlib.suppress(OSError):  # somebody else's stays, and remove_tree says so
        os.chmod(folder, 0o700)


def _is_ours(path: Path, since_s: float) -> bool:
    try:
        about = path.stat()
    except OSError:
        return False
    return about.st_uid == os.getuid() and about.st_ctime >= since_s


def _removed(path: Path) -> bool:
    with contextlib.suppress(OSError):
        path.unlink()
        return True
    return False


def _inode(path: Path) -> int | None:
    with contextlib.suppress(OSError):
        return path.stat().st_ino
    return None


def _in_use(place: Path) -> Iterator[str | int]:
    """Names and inodes below `place` of what any process whom we may look at has mapped or open.

    A name is not enough: a semaphore stays mapped under the temporary name that it had before it got its own.
    """
    for pid in filter(str.isdigit, os.listdir("/proc")):
        for path, inode in (*_mapped(pid, f"{place}/"), *_open(pid, f"{place}/")):
            yield from (Path(path.removesuffix(" (deleted)")).name, inode)


def _mapped(pid: str, head: str) -> Iterator[tuple[str, int]]:
    with contextlib.suppress(OSError):
        for line in Path("/proc", pid, "maps").read_text(encoding="utf-8", errors="replace").splitlines():
            path = line[line.find("/") :]
            if path.startswith(head):
                yield path, int(line.split(maxsplit=5)[4])


def _open(pid: str, head: str) -> Iterator[tuple[str, int]]:
    folder = f"/proc/{pid}/fd"
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):
            with contextlib.suppress(OSError):  # closed meanwhile
                path = os.readlink(f"{folder}/{name}")
                if path.startswith(head):
                    yield path, os.stat(f"{folder}/{name}").st_ino
