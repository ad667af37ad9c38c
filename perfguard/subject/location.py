"""Where a repository keeps its parts, and the clear errors for what is not a usable repository.

Must not resolve revisions.
"""

from dataclasses import dataclass
from pathlib import Path

from perfguard.errors import RevisionError, UsageError
from perfguard.subject.commands import Answer, ask_git


@dataclass(frozen=True, kw_only=True)
class Location:
    """`root` is the top of the working tree, or the git folder of a bare repository.

    `git_dir` belongs to this working tree, `common_dir` (objects, refs, modules) to all of them.
    """

    root: Path
    git_dir: Path
    common_dir: Path
    is_bare: bool
    is_shallow: bool
    object_format: str = "sha1"

    @property
    def objects(self) -> Path:
        return self.common_dir / "objects"


def locate(path: Path) -> Location:
    """The repository that holds `path`. Raises UsageError (no such folder) or RevisionError (no repository)."""
    folder = path.absolute()
    if not folder.is_dir():
        raise UsageError(f"{path} is not a folder", "perfguard … --repo DIR")
    flags = ("--is-bare-repository", "--is-inside-work-tree", "--is-shallow-repository", "--show-object-format")
    folders = ("--path-format=absolute", "--git-dir", "--git-common-dir")
    answer = ask_git(folder, "rev-parse", *flags, *folders)
    if not answer.is_ok:
        raise _no_repository(folder, answer)
    bare, inside, shallow, object_format, git_dir, common_dir = answer.text.split("\n")
    return Location(
        root=_root(folder, Path(git_dir), is_bare=bare == "true", is_inside=inside == "true"),
        git_dir=Path(git_dir),
        common_dir=Path(common_dir),
        is_bare=bare == "true",
        is_shallow=shallow == "true",
        object_format=object_format,
    )


def object_folders(objects: Path) -> tuple[Path, ...]:
    """The object store and every store that it borrows from, nearest first.

    Flat, since git follows such lists only a few levels deep, and the user may have used them all.
    """
    found: list[Path] = []
    waiting = [objects]
    while waiting:
        store = waiting.pop(0)
        if store in found:
            continue
        found.append(store)
        borrowed = store / "info" / "alternates"
        lines = borrowed.read_text(errors="surrogateescape").splitlines() if borrowed.is_file() else []
        waiting += [(store / line).resolve() for line in lines if line and not line.startswith("#")]
    return tuple(found)


def lend_objects(objects: Path, borrower: Path) -> None:
    """Let the object store `borrower` read all that `objects` can read; nothing is written to `objects`."""
    listed = borrower / "info" / "alternates"
    listed.parent.mkdir(parents=True, exist_ok=True)
    lines = "".join(f"{folder}\n" for folder in object_folders(objects))
    listed.write_text(lines, errors="surrogateescape")


def _root(folder: Path, git_dir: Path, *, is_bare: bool, is_inside: bool) -> Path:
    if is_bare:
        return git_dir
    if is_inside:
        return Path(ask_git(folder, "rev-parse", "--show-toplevel").text)
    return git_dir.parent  # somebody stands inside .git


def _no_repository(folder: Path, answer: Answer) -> RevisionError:
    """Git's own text goes on to the person; the ownership hint holds the command to type."""
    if "dubious ownership" in answer.error:
        hint = next((line.strip() for line in answer.error.splitlines() if "safe.directory" in line), "")
        return RevisionError(f"git refuses {folder}: {answer.error}", hint)
    if "not a git repository" in answer.error:
        return RevisionError(f"no git repository at {folder} or above it", "perfguard … --repo DIR")
    return RevisionError(f"git cannot read a repository at {folder}: {answer.error}", f"git -C {folder} status")
