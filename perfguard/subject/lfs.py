"""Large files: pointers become content where git-lfs and the user's own store have it; what is left is named.

A pointer that a program loads as data is a wrong measurement, so it ends the build unless a person asked for
pointers with git-lfs's own variable. Never downloads.
"""

import os
import shutil
from pathlib import Path

from perfguard.errors import BuildError
from perfguard.subject.commands import ask_git, git_output

POINTER_START = b"version https://git-lfs.github.com/spec/"
# What `git lfs install` sets, so that git sees the filled files as unchanged.
FILTERS = ("filter.lfs.clean=git-lfs clean -- %f", "filter.lfs.process=git-lfs filter-process")
MAX_POINTER_BYTES = 1024  # git-lfs's own bound on a pointer file


def fill(folder: Path) -> None:
    """Replace pointers in the checkout `folder`. Raises BuildError naming those that stay."""
    pointers = [name for name in _tracked_by_lfs(folder) if is_pointer(folder / name)]
    if not pointers or os.environ.get("GIT_LFS_SKIP_SMUDGE", "0") not in ("", "0"):
        return
    is_installed = shutil.which("git-lfs") is not None
    if is_installed:
        # Reads the lfs store beside the borrowed objects.
        ask_git(folder, "lfs", "checkout", config=FILTERS)
    left = [name for name in pointers if is_pointer(folder / name)]
    if left:
        raise _unfilled(left, is_installed=is_installed)


def is_pointer(path: Path) -> bool:
    try:
        if path.is_symlink() or not path.is_file() or path.stat().st_size > MAX_POINTER_BYTES:
            return False
        return path.read_bytes().startswith(POINTER_START)
    except OSError:
        return False


def _tracked_by_lfs(folder: Path) -> list[str]:
    return git_output(folder, "ls-files", "-z", "--", ":(attr:filter=lfs)").names()


def _unfilled(names: list[str], *, is_installed: bool) -> BuildError:
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    if is_installed:
        why, step = "the content is not in the local LFS store", "git lfs fetch --all"
    else:
        why, step = "git-lfs is not installed", "install git-lfs, then: git lfs fetch --all"
    return BuildError(
        f"{names[0]}{more}: an LFS pointer instead of the file, since {why}",
        f"{step} (or GIT_LFS_SKIP_SMUDGE=1 to measure with pointers)",
    )
