"""What launches leave behind outside of their folders: remembered before a launch, removed after it.

Temporary files, such as the sockets that vLLM never removes, lie in a folder made for the launch. Names in /dev/shm
can have no folder: an engine that ends by itself removes its own, one that was killed leaves hundreds of megabytes
that nothing gives back but a person or a reboot. Standard library only. Must never remove a name in /dev/shm that was
there before, that belongs to somebody else, or that any living process has mapped or open.
"""

import contextlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

PLACE = Path("/dev/shm")
# Python's own: shared memory, and the semaphores of multiprocessing. And what vLLM's ranks on a processor leave behind
# whenever they end (seen in 0.32).
PREFIXES = ("psm_", "sem.mp-", "vllm_dist_")
RECORD = "leftovers.json"
# Short: the path of a socket has room for 107 characters.
PREFIX = "pg-"


def remember(folder: Path, place: Path = PLACE) -> Path:
    """Make a folder for temporary files and return it.

    Its name and those that are in `place` now are written into `folder`, for `clear`, or for the next start if we are
    killed. Raises OSError where there is no room.
    """
    temporary = tempfile.mkdtemp(prefix=PREFIX)
    record = json.dumps({"temporary": temporary, "names": sorted(names(place))})
    try:
        (folder / RECORD).write_text(record, encoding="utf-8")
    except OSError:
        os.rmdir(temporary)
        raise
    return Path(temporary)


def names(place: Path = PLACE) -> set[str]:
    try:
        return {name for name in os.listdir(place) if name.startswith(PREFIXES)}
    except OSError:  # another system has no such folder
        return set()


def clear(folder: Path, place: Path = PLACE) -> tuple[str, ...]:
    """Remove what came since `remember` and nobody uses; returns the names that went from `place`.

    Nothing where nothing was remembered.
    """
    record = folder / RECORD
    try:
        then, since_s = json.loads(record.read_text(encoding="utf-8")), record.stat().st_mtime
        temporary, before = Path(then["temporary"]), set(then["names"])
    except (OSError, ValueError, KeyError, TypeError):
        return ()
    if temporary.name.startswith(PREFIX):
        shutil.rmtree(temporary, ignore_errors=True)
    new = sorted(name for name in names(place) - before if _is_ours(place / name, since_s))
    used = set(_in_use(place)) if new else set()
    free = [name for name in new if not {name, _inode(place / name)} & used]
    removed = [name for name in free if _removed(place / name)]
    record.unlink(missing_ok=True)
    return tuple(removed)


def clear_below(root: Path, place: Path = PLACE) -> tuple[str, ...]:
    """The same for every launch whose logs lie below `root`: one that a killed perfguard did not see the end of."""
    # Not the whole tree: below a build lie its checkout and environment, with a hundred thousand files.
    records = [record for depth in ("", "*/", "*/*/") for record in sorted(root.glob(f"{depth}logs/*/{RECORD}"))]
    return tuple(name for record in records for name in clear(record.parent, place))


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
