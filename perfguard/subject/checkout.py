"""A revision as files in a folder of its own: a fresh repository that borrows the user's objects.

Not a worktree and not a clone: nothing is registered in or written to the user's repository, and a leftover is just
a folder. docs/decisions/0001-checkouts.md says why.
"""

import shutil
from pathlib import Path

from perfguard.errors import BuildError, StorageError, writing
from perfguard.records import Revision
from perfguard.subject import lfs, submodules
from perfguard.subject.commands import Answer, ask_git, git_output
from perfguard.subject.location import Location, lend_objects

SIGNS_OF_A_FULL_DISK = ("No space left", "Disk quota exceeded")
SIGNS_OF_MISSING_OBJECTS = (
    "unable to read",
    "missing blob",
    "invalid object",
    "bad object",
    "not a commit",
    "not a tree",
    "not a valid",
)


def check_out(location: Location, revision: Revision, folder: Path) -> None:
    """Fill the new or empty `folder` with `revision`, its patch and its submodules. Raises BuildError."""
    if folder.exists() and any(folder.iterdir()):
        raise BuildError(f"{folder} is not empty", f"rm -r {folder}")
    populate(location, revision.commit, folder)
    _write_tags(location, folder)
    if revision.is_dirty:
        _apply(revision, folder)
    for link in submodules.links(folder):
        module = submodules.find_store(location, link)
        check_out_module(module, link, folder)
    lfs.fill(folder)


def check_out_module(module: Location, link: submodules.Link, parent: Path) -> None:
    """A submodule and those inside it, from the stores that the user already has."""
    folder = parent / link.path
    populate(module, link.commit, folder, name=f"submodule {link.path}")
    for inner in submodules.links(folder):
        check_out_module(submodules.find_store(module, inner), inner, folder)
    lfs.fill(folder)


def populate(source: Location, commit: str, folder: Path, name: str = "") -> None:
    """`git init`, borrow the objects of `source`, check `commit` out detached."""
    answer = _init(source, folder)
    if answer.is_ok:
        answer = _check_out(source, commit, folder)
    if not answer.is_ok:
        raise explain(answer, folder, what=f"{name} {commit[:12]}".strip(), source=source, commit=commit)


def explain(answer: Answer, folder: Path, *, what: str, source: Location, commit: str) -> BuildError:
    """A failed checkout in words: a full disk and objects that were never fetched are not the commit's fault."""
    words = answer.error
    free_mib = shutil.disk_usage(folder).free // 2**20
    if not free_mib or any(sign in words for sign in SIGNS_OF_A_FULL_DISK):
        text = f"no space to check out {what} in {folder} ({free_mib} MiB free): {words}"
        return StorageError(text, "PERFGUARD_CACHE=DIR")
    if any(sign in words for sign in SIGNS_OF_MISSING_OBJECTS):
        # `git archive` reads every file of a commit, and so makes a partial clone fetch what it left out.
        fetch = f"git -C {source.root} archive {commit} > /dev/null || git -C {source.root} fetch"
        return BuildError(f"{source.root} does not hold all of {what}: {words}", fetch)
    return BuildError(f"git cannot check out {what} in {folder}: {words}", f"git -C {source.root} show --stat {commit}")


def _init(source: Location, folder: Path) -> Answer:
    with writing(folder, "PERFGUARD_CACHE=DIR"):
        folder.mkdir(parents=True, exist_ok=True)
    # Without a template, so that no hook or setting of the user's template gets in.
    return ask_git(folder, "init", "--quiet", "--template=", f"--object-format={source.object_format}")


def _check_out(source: Location, commit: str, folder: Path) -> Answer:
    with writing(folder, "PERFGUARD_CACHE=DIR"):
        lend_objects(source.objects, folder / ".git" / "objects")
        shallow = source.common_dir / "shallow"
        if shallow.is_file():
            shutil.copyfile(shallow, folder / ".git" / "shallow")
    return ask_git(folder, "checkout", "--quiet", "--force", "--detach", commit, "--")


def _write_tags(location: Location, folder: Path) -> None:
    """Tags in one file, so that version tools (`git describe`) answer as they do in the user's repository."""
    if listed := list_tags(location):
        with writing(folder, "PERFGUARD_CACHE=DIR"):
            (folder / ".git" / "packed-refs").write_bytes(listed)


def list_tags(location: Location) -> bytes:
    """Every tag with its object, as git keeps them in one file; empty without tags."""
    return git_output(location.root, "for-each-ref", "--format=%(objectname) %(refname)", "refs/tags").output


def refresh_index(folder: Path) -> None:
    """After a checkout was copied, git compares files again once, instead of calling all of them changed."""
    ask_git(folder, "update-index", "-q", "--refresh")


def _apply(revision: Revision, folder: Path) -> None:
    stored = folder / ".git" / "perfguard.patch"
    stored.write_bytes(revision.patch)
    with open(stored, "rb") as stream:
        answer = ask_git(folder, "apply", "--index", "--binary", "--whitespace=nowarn", "-", stdin=stream)
    what = f"the patch of {revision.name} on {revision.commit[:12]}"
    if not answer.is_ok:
        raise BuildError(
            f"{what} does not apply in {folder}: {answer.error}", f"git apply --check, on {revision.commit[:12]}"
        )
    tree = git_output(folder, "write-tree").text
    if tree != revision.tree:
        raise BuildError(
            f"{what} gives tree {tree}, but {revision.tree} was recorded", "compare again; report it if it comes back"
        )
