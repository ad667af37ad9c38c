"""A build as bytes on disk: what it holds, and a copy of it that is the same to the byte and the time stamp.

Must not decide which builds are kept.
"""

import hashlib
import os
import stat
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

# Of a build; its logs are not part of what a setup made.
PARTS = ("tree", "caches")


@dataclass(frozen=True, kw_only=True)
class Contents:
    """`sha256` covers names, kinds, modes, contents and the times of files and folders; `size_bytes` is on disk."""

    sha256: str
    size_bytes: int


def contents_of(folder: Path) -> Contents:
    """Read all of a build. Raises OSError for what cannot be read."""
    digest = hashlib.sha256()
    sizes: dict[tuple[int, int], int] = {}  # a file with two names is stored once
    for path in _paths(folder):
        about = path.lstat()
        sizes[about.st_dev, about.st_ino] = about.st_blocks * 512
        # Byte code and make believe time stamps, so a copy must keep them; nothing looks at those of links.
        stamp = 0 if stat.S_ISLNK(about.st_mode) else about.st_mtime_ns
        name = os.fsencode(path.relative_to(folder))
        digest.update(b"%d:%b %o %d " % (len(name), name, about.st_mode, stamp) + _content(path, about.st_mode))
    return Contents(sha256=digest.hexdigest(), size_bytes=sum(sizes.values()))


def copy_build(source: Path, target: Path) -> None:
    """`source` in the new folder `target`: links, hard links, modes and times kept. Raises OSError.

    By `cp`, which shares blocks where the file system can.
    """
    target.mkdir(parents=True)
    parts = [str(source / part) for part in PARTS]
    command = ["cp", "-a", "--reflink=auto", "--", *parts, str(target)]
    done = subprocess.run(command, capture_output=True, env={**os.environ, "LC_ALL": "C"}, check=False)
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip().splitlines() or [f"cp: exit code {done.returncode}"]
        raise OSError(0, said[-1])


def _paths(folder: Path) -> Iterator[Path]:
    for part in PARTS:
        yield folder / part
        for parent, folders, files in os.walk(folder / part, onerror=_raise):
            folders.sort()
            yield from (Path(parent, name) for name in sorted([*folders, *files]))


def _raise(error: OSError) -> None:
    raise error


def _content(path: Path, mode: int) -> bytes:
    if stat.S_ISLNK(mode):
        target = os.fsencode(os.readlink(path))
        return b"%d:" % len(target) + target
    if not stat.S_ISREG(mode):
        return b"-"  # a folder's content follows; pipes and sockets have none
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").digest()
