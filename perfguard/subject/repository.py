"""The user's repository as the stories see it: resolve, patch, compare, check out. Never writes to it.

Only joins the modules beside it; git itself is spoken to there.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from perfguard.records import Revision
from perfguard.subject import patches, ranges, revisions
from perfguard.subject.checkout import check_out, list_tags
from perfguard.subject.history_line import Line, line_between
from perfguard.subject.location import Location, locate
from perfguard.subject.provenance import repository_state
from perfguard.subject.worktree import WORKTREE, worktree_revision


@dataclass(frozen=True, kw_only=True)
class Repository:
    """A repository that was found to be usable."""

    location: Location

    @property
    def root(self) -> Path:
        return self.location.root

    def resolve(self, name: str) -> Revision:
        """Anything git resolves, and WORKTREE for the uncommitted state. Raises RevisionError."""
        if name == WORKTREE:
            return worktree_revision(self.location)
        return revisions.resolve_commit(self.location, name)

    def known(self, stored: Revision) -> Revision:
        """A stored revision, found to be in this repository still. Raises RevisionError."""
        self.resolve(stored.commit)
        return stored

    def with_patch(self, revision: Revision, file: Path) -> Revision:
        """`revision` with a patch file on top, merged three-way. Raises UsageError or RevisionError."""
        return patches.with_patch(self.location, revision, file)

    def with_files(self, revision: Revision, source: Revision, path: str) -> Revision:
        """`revision` with the file or folder `path` of `source` in it. Raises RevisionError."""
        return patches.with_files(self.location, revision, source, path)

    def line_between(
        self, good: Revision, bad: Revision, *, paths: Sequence[str] = (), all_parents: bool = False
    ) -> Line:
        """The commits to search, see `history_line.line_between`. Raises RevisionError."""
        return line_between(self.location, good, bad, paths=paths, all_parents=all_parents)

    def is_ancestor(self, older: str, newer: str) -> bool:
        """True also for the same commit."""
        return ranges.is_ancestor(self.location, older, newer)

    def ancestors(self, commit: str, most: int) -> list[str]:
        """`commit` and up to `most` commits before it on its main line, newest first."""
        return ranges.main_line(self.location, commit, most + 1)

    def fork_point(self, one: str, other: str) -> Revision | None:
        """The best common ancestor of two commits; None if they share none."""
        found = ranges.merge_base(self.location, one, other)
        return revisions.describe_commit(self.location, found[:12], found) if found else None

    def code(self, revision: Revision, paths: Sequence[str] = ()) -> str:
        """What names the code of a commit at `paths` (none: all of it); equal for equal code."""
        return ranges.codes(self.location, [(revision.commit, revision.tree)], paths)[0]

    def changed_files(self, base: Revision, head: Revision) -> frozenset[str]:
        """Paths whose content differs, relative to the root."""
        return patches.changed_files(self.location, base, head)

    def python_modules(self, revision: Revision) -> dict[str, str]:
        """Dotted name -> tracked file, for every Python file of a revision."""
        return patches.python_modules(self.location, revision)

    def state(self) -> dict[str, Any]:
        """HEAD, reflog, stashes and uncommitted files as they are now: see `provenance.repository_state`."""
        return repository_state(self.location)

    def tags_sha256(self) -> str:
        """Changes with any tag: a checkout holds them all."""
        return hashlib.sha256(list_tags(self.location)).hexdigest()

    def checkout(self, revision: Revision, folder: Path) -> None:
        """Files of `revision` in the new or empty `folder`. Raises BuildError."""
        check_out(self.location, revision, folder)


def open_repository(path: Path) -> Repository:
    """The repository that holds `path`. Raises UsageError or RevisionError for what cannot be used."""
    location = locate(path)
    if not revisions.has_commits(location):
        raise revisions.no_commits(location)
    return Repository(location=location)
