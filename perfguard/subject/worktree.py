"""WORKTREE: the uncommitted state of the user's working tree as a commit and a patch.

Staged, unstaged and untracked files that are not ignored count. Everything is staged in a copy of the index, into a
private object store: checkout, index, stash, branches and reflog of the user are only read.
"""

import os
import shutil
from dataclasses import dataclass, replace
from pathlib import Path

from perfguard.errors import RevisionError
from perfguard.records import Revision
from perfguard.subject.commands import git_output
from perfguard.subject.location import Location
from perfguard.subject.revisions import describe_commit, head_commit
from perfguard.subject.scratch import Scratch, open_scratch

WORKTREE = "WORKTREE"
# The patch is kept in memory and stored with the campaign; weights or logs that nobody ignored are not code.
MAX_CHANGED_BYTES = 256 * 2**20
STATUS = ("status", "--porcelain=v2", "-z", "--untracked-files=all", "--ignore-submodules=none", "--no-renames")


@dataclass(frozen=True, kw_only=True)
class Change:
    """One entry of `git status`: `submodule` is its four-letter state, "N..." for an ordinary file."""

    path: str
    submodule: str = "N..."

    @property
    def is_repository(self) -> bool:
        """Untracked repositories are listed as folders."""
        return self.path.endswith("/")

    @property
    def is_dirty_submodule(self) -> bool:
        return self.submodule[0] == "S" and self.submodule[2:] != ".."


def worktree_revision(location: Location) -> Revision:
    """HEAD and the patch that makes it the working tree; a clean tree has no patch. Raises RevisionError."""
    if location.is_bare:
        raise RevisionError(f"{location.root} is a bare repository and has no working tree", "name a commit")
    head = describe_commit(location, WORKTREE, head_commit(location))
    changes = read_status(git_output(location.root, *STATUS).output)
    if not changes:
        return head
    _refuse_what_no_patch_carries(location, changes)
    with open_scratch(location) as scratch:
        _stage_everything(scratch)
        return replace(head, patch=scratch.patch_against(head.commit), tree=scratch.write_tree())


def read_status(raw: bytes) -> list[Change]:
    """Parse `git status --porcelain=v2 -z` (without renames)."""
    # Number of fields before the path, by the kind of entry: ordinary, unmerged, untracked.
    fields = {"1": 8, "u": 10, "?": 1}
    changes = []
    for entry in os.fsdecode(raw).split("\0"):
        before = fields.get(entry[:1], 0)
        if before:
            parts = entry.split(" ", before)
            changes.append(Change(path=parts[before], submodule=parts[2] if before > 1 else "N..."))
    return changes


def _stage_everything(scratch: Scratch) -> None:
    index = scratch.location.git_dir / "index"
    if index.is_file():
        # With its time stamp: git decides by it which entries it must read again.
        shutil.copy2(index, scratch.index)
    answer = scratch.ask("add", "--all", config=("core.safecrlf=false", "add.ignoreErrors=false"))
    if not answer.is_ok:
        raise RevisionError(
            f"git cannot read the working tree of {scratch.location.root}: {answer.error}", "git add --all --dry-run"
        )


def _refuse_what_no_patch_carries(location: Location, changes: list[Change]) -> None:
    dirty = [change.path for change in changes if change.is_dirty_submodule]
    if dirty:
        raise RevisionError(
            f"submodule {dirty[0]} has uncommitted changes, which WORKTREE cannot carry",
            f"git -C {location.root / dirty[0]} commit",
        )
    nested = [change.path for change in changes if change.is_repository]
    if nested:
        raise RevisionError(
            f"{nested[0]} is an untracked repository, which WORKTREE cannot carry",
            f"echo /{nested[0]} >> {location.common_dir / 'info' / 'exclude'}",
        )
    sizes = {change.path: _size(location.root / change.path) for change in changes}
    if (total := sum(sizes.values())) > MAX_CHANGED_BYTES:
        largest = max(sizes, key=lambda path: sizes[path])
        raise RevisionError(
            f"changed and untracked files hold {total / 2**20:.0f} MiB, more than {MAX_CHANGED_BYTES // 2**20} MiB;"
            f" the largest is {largest} with {sizes[largest] / 2**20:.0f} MiB",
            f"echo /{largest} >> {location.common_dir / 'info' / 'exclude'}",
        )


def _size(path: Path) -> int:
    try:
        return path.lstat().st_size
    except OSError:  # deleted, or its folder is gone
        return 0
