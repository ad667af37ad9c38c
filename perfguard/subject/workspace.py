"""The folder of one campaign: checkouts, caches and logs of its builds, held by a lock as long as its owner lives.

The kernel drops the lock with the process, however it ends; the next start removes what it finds unlocked.
"""

import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from perfguard.strays import clear_all, remove_tree
from perfguard.subject.kept import sweep_places
from perfguard.subject.leftovers import end_processes
from perfguard.subject.owner import KEEP_NAME, Hold, hold, is_abandoned, sweeping_paused, unusable


@dataclass(frozen=True, kw_only=True)
class Build:
    """Where one build of an arm lives. All paths of all builds have the same length."""

    checkout: Path
    caches: Path
    logs: Path


@dataclass(frozen=True, kw_only=True)
class Workspace:
    """`owner` marks every process started on its behalf (PERFGUARD_OWNER).

    `held` says how a build that does not lie in `folder` is given back: one at its place in the cache of builds.
    """

    folder: Path
    owner: str
    root: Path
    held: dict[Build, Callable[[], object]] = field(default_factory=dict)

    @property
    def strays(self) -> Path:
        """Where launches remember what they may leave outside of this folder."""
        return strays_in(self.folder)

    def new_build(self) -> Build:
        """A fresh folder. Its name is drawn, not numbered: nothing in a path tells one arm from the other."""
        return make_folders(self.folder / secrets.token_hex(4))

    def release(self, build: Build) -> None:
        """Remove a build that is needed no more, before the workspace ends."""
        give_back = self.held.pop(build, None) or partial(remove_tree, build.checkout.parent)
        give_back()


def strays_in(folder: Path) -> Path:
    return folder / "strays"


def build_in(folder: Path) -> Build:
    """The build whose folder this is."""
    return Build(checkout=folder / "tree", caches=folder / "caches", logs=folder / "logs")


def make_folders(folder: Path) -> Build:
    """A new and empty build in `folder`."""
    build = build_in(folder)
    for part in (build.checkout, build.caches, build.logs):
        part.mkdir(parents=True)
    return build


def cache_root() -> Path:
    """$PERFGUARD_CACHE, else ~/.cache/perfguard, as a real path."""
    return Path(os.environ.get("PERFGUARD_CACHE") or Path.home() / ".cache" / "perfguard").absolute().resolve()


@contextmanager
def open_workspace(root: Path | None = None, *, keep: bool = False) -> Iterator[Workspace]:
    """A workspace for the `with` block; then its processes are ended and, unless `keep`, it is removed.

    Raises UsageError if the cache folder cannot be written.
    """
    root = root or cache_root()
    workspace = Workspace(folder=_work(root) / (owner := secrets.token_hex(8)), owner=owner, root=root)
    with sweeping_paused(root):
        lock = _begin(workspace)
    try:
        yield workspace
    finally:
        end_processes(workspace.owner)
        clear_all(workspace.strays)
        for build in tuple(workspace.held):
            workspace.release(build)
        if keep:
            (workspace.folder / KEEP_NAME).touch()
        else:
            remove_tree(workspace.folder)
        if lock is not None:
            os.close(lock.handle)


def _begin(workspace: Workspace) -> Hold | None:
    try:
        workspace.folder.mkdir()
        return hold(workspace.folder, workspace.owner)
    except OSError as error:
        remove_tree(workspace.folder)
        raise unusable(workspace.root, error) from error


def sweep_leftovers(root: Path | None = None) -> tuple[Path, ...]:
    """Remove the folders of owners that are gone and end what they left running. Returns the folders removed.

    Of the cache of builds only what is unfinished: builds that a killed perfguard was filling or using.
    """
    root = root or cache_root()
    work = _work(root)
    with sweeping_paused(root):
        abandoned = [folder for folder in sorted(work.iterdir()) if is_abandoned(folder)]
    for folder in abandoned:
        end_processes(folder.name)
        clear_all(strays_in(folder))
    return tuple(folder for folder in abandoned if remove_tree(folder)) + sweep_places(root)


def _work(root: Path) -> Path:
    work = root / "work"
    try:
        work.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unusable(root, error) from error
    return work
