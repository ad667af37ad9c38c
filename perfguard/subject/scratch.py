"""A private index and object store over a repository: git may stage and write there without touching the user's.

Must not outlive the `with` block: what is kept is a patch or a list of names.
"""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from perfguard.errors import HarnessError, RevisionError
from perfguard.records import Revision
from perfguard.subject.commands import Answer, ask_git
from perfguard.subject.location import Location, lend_objects

PATCH_FORM = ("--binary", "--full-index", "--no-renames", "--no-ext-diff", "--no-textconv", "--no-color")
PREFIXES = ("--src-prefix=a/", "--dst-prefix=b/")


@dataclass(frozen=True, kw_only=True)
class Scratch:
    """`folder` holds the private index and objects; the user's store is only read."""

    location: Location
    folder: Path

    @property
    def index(self) -> Path:
        return self.folder / "index"

    def ask(self, *arguments: str, stdin: Path | None = None, config: tuple[str, ...] = ()) -> Answer:
        places = {
            "GIT_DIR": str(self.location.git_dir),
            "GIT_INDEX_FILE": str(self.index),
            "GIT_OBJECT_DIRECTORY": str(self.folder / "objects"),
        }
        if not self.location.is_bare:
            places["GIT_WORK_TREE"] = str(self.location.root)
        if stdin is None:
            return ask_git(self.location.root, *arguments, env=places, config=config)
        with open(stdin, "rb") as stream:
            return ask_git(self.location.root, *arguments, env=places, config=config, stdin=stream)

    def demand(self, *arguments: str, stdin: Path | None = None) -> Answer:
        """Raises HarnessError with git's own words."""
        answer = self.ask(*arguments, stdin=stdin)
        if not answer.is_ok:
            raise HarnessError(f"git {arguments[0]} failed over {self.location.root}: {answer.error}")
        return answer

    def patch_against(self, commit: str) -> bytes:
        """What the private index holds beyond `commit`, as a patch that `git apply` takes anywhere."""
        return self.demand("diff-index", "--cached", "--patch", *PATCH_FORM, *PREFIXES, commit, "--").output

    def write_tree(self) -> str:
        return self.demand("write-tree").text


@contextmanager
def open_scratch(location: Location) -> Iterator[Scratch]:
    with tempfile.TemporaryDirectory(prefix="perfguard-") as name:
        folder = Path(name)
        lend_objects(location.objects, folder / "objects")
        yield Scratch(location=location, folder=folder)


def stage_revision(scratch: Scratch, revision: Revision) -> str:
    """Put commit and patch into the private index; returns the id of the tree."""
    scratch.demand("read-tree", revision.commit)
    if not revision.is_dirty:
        return revision.tree
    answer = apply_to_index(scratch, revision.patch)
    if not answer.is_ok:
        raise RevisionError(
            f"the stored patch of {revision.name} does not apply to {revision.commit[:12]}: {answer.error}",
            f"git -C {scratch.location.root} fetch --all --tags",
        )
    return scratch.write_tree()


def tree_of(scratch: Scratch, revision: Revision) -> str:
    """Id of the revision's tree, present in the scratch store: a patched one is in no store of the user's."""
    return stage_revision(scratch, revision) if revision.is_dirty else revision.tree


def apply_to_index(scratch: Scratch, patch: bytes, *options: str) -> Answer:
    stored = scratch.folder / "patch"
    stored.write_bytes(patch)
    return scratch.ask("apply", "--cached", "--binary", "--whitespace=nowarn", *options, "-", stdin=stored)
