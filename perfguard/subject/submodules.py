"""Submodules of a checkout, found in the stores that the user's repository already keeps. Never downloads."""

import os
from dataclasses import dataclass
from pathlib import Path

from perfguard.errors import BuildError
from perfguard.subject.commands import ask_git, git_output
from perfguard.subject.location import Location

GITLINK_MODE = b"160000"


@dataclass(frozen=True, kw_only=True)
class Link:
    """One submodule as the checkout records it."""

    name: str
    path: str
    commit: str


def links(folder: Path) -> list[Link]:
    """Submodules in the index of `folder` that .gitmodules names; git leaves the others empty, and so do we."""
    staged = git_output(folder, "ls-files", "-z", "--stage").output.split(b"\0")
    if not any(entry.startswith(GITLINK_MODE) for entry in staged):
        return []
    names = _names_by_path(folder)
    found = []
    for entry in staged:
        head, _, raw_path = entry.partition(b"\t")
        path = os.fsdecode(raw_path)
        if head.startswith(GITLINK_MODE) and path in names:
            found.append(Link(name=names[path], path=path, commit=head.split(b" ")[1].decode("ascii")))
    return found


def find_store(source: Location, link: Link) -> Location:
    """Where the user's repository keeps the submodule. Raises BuildError naming it and how to get it."""
    own_store = source.root / link.path / ".git"
    for store in (source.git_dir / "modules" / link.name, source.common_dir / "modules" / link.name, own_store):
        if (store / "objects").is_dir() and ".." not in Path(link.name).parts:
            # Read as plain folders: git itself refuses a store whose working tree is gone.
            return Location(
                root=store,
                git_dir=store,
                common_dir=store,
                is_bare=True,
                is_shallow=(store / "shallow").is_file(),
                object_format=source.object_format,
            )
    raise BuildError(
        f"submodule {link.name!r} at {link.path} is not in {source.root}",
        f"git -C {source.root} submodule update --init --recursive",
    )


def _names_by_path(folder: Path) -> dict[str, str]:
    pattern = r"^submodule\..*\.path$"
    answer = ask_git(folder, "config", "-z", "--file", ".gitmodules", "--get-regexp", pattern)
    names = {}
    for entry in answer.names():
        key, _, path = entry.partition("\n")
        names[path] = key.removeprefix("submodule.").removesuffix(".path")
    return names
