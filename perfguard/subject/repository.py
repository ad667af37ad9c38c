"""The user's repository as the stories see it: resolve, patch, compare, check out. Never writes to it.

Only joins the modules beside it; git itself is spoken to there.
"""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from perfguard.records import Revision
from perfguard.subject import patches, revisions
from perfguard.subject.checkout import check_out, list_tags
from perfguard.subject.location import Location, locate
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

    def with_patch(self, revision: Revision, file: Path) -> Revision:
        """`revision` with a patch file on top, merged three-way. Raises UsageError or RevisionError."""
        return patches.with_patch(self.location, revision, file)

    def changed_files(self, base: Revision, head: Revision) -> frozenset[str]:
        """Paths whose content differs, relative to the root."""
        return patches.changed_files(self.location, base, head)

    def python_modules(self, revision: Revision) -> dict[str, str]:
        """Dotted name -> tracked file, for every Python file of a revision."""
        return patches.python_modules(self.location, revision)

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
