"""A build from the cache, or a new one made at its place in the cache and kept for later campaigns.

What is handed out is a copy, at the very path where it was built, of what the setup left, checked to the byte. Trials
may write into it: it is removed after use. Where the cache cannot help, a build is made as without it, and that is
said. Must not run a setup itself, nor decide which builds may come from here: perfguard/building.py does.
"""

import os
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from perfguard.strays import remove_tree
from perfguard.subject.checkout import refresh_index
from perfguard.subject.kept import ENTRY_NAME, Entry, Place, age_s, make_room, take_place
from perfguard.subject.leftovers import owned_processes
from perfguard.subject.snapshots import contents_of, copy_build
from perfguard.subject.workspace import Build, Workspace, build_in, make_folders

# Makes a build in new and empty folders. Raises BuildError.
Fill = Callable[[Build], None]


@dataclass(frozen=True, kw_only=True)
class Limits:
    max_bytes: int
    max_age_s: float


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """One build: its key (see buildkey.py), and for people who look into the cache what it is."""

    key: str
    limits: Limits
    about: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Provided:
    """`built_at` is UTC, `setup_s` what making it took then; `key` is "" where the cache had no part in it.

    `notes`: what a person should hear about the cache.
    """

    build: Build
    built_at: str
    setup_s: float
    key: str = ""
    is_cached: bool = False
    notes: tuple[str, ...] = ()


def provide(wanted: Wanted, workspace: Workspace, fill: Fill) -> Provided:
    """The kept build of a key if there is a sound and young one, else a new one, kept if that is possible.

    Its place is held until the workspace ends or releases the build. Raises BuildError of `fill`.
    """
    try:
        place = take_place(workspace.root, wanted.key, workspace.owner)
    except OSError as error:
        return made(workspace.new_build(), fill, f"the build cache cannot be used: {_said(error)}")
    if place is None:
        return made(workspace.new_build(), fill, "its place in the build cache is in use: built apart, not kept")
    build = build_in(place.live)
    workspace.held[build] = place.give_back
    try:
        provided, note = _restored(place, wanted.limits)
        return provided or _kept(place, wanted, workspace, fill, note)
    except BaseException:
        workspace.release(build)
        raise


def made(build: Build, fill: Fill, *notes: str) -> Provided:
    """A new build."""
    started_s = time.monotonic()
    fill(build)
    setup_s = time.monotonic() - started_s
    built_at = datetime.now(UTC).isoformat(timespec="seconds")
    return Provided(build=build, built_at=built_at, setup_s=setup_s, notes=tuple(note for note in notes if note))


def _restored(place: Place, limits: Limits) -> tuple[Provided | None, str]:
    """The kept build copied to its place, or None and why (nothing to say if none was ever kept)."""
    entry = place.entry()
    if entry is None:
        return None, ""
    if age_s(entry) > limits.max_age_s:
        return None, f"the cached build of {shown(entry.built_at)} is too old and is made again"
    try:
        copy_build(place.kept, place.live)
        if contents_of(place.live).sha256 != entry.sha256:
            return None, f"the cached build of {shown(entry.built_at)} was damaged and is made again"
        build = build_in(place.live)
        build.logs.mkdir()
        refresh_index(build.checkout)
        os.utime(place.folder / ENTRY_NAME)
    except OSError as error:
        return None, f"the cached build of {shown(entry.built_at)} cannot be copied and is made again: {_said(error)}"
    note = f"build of {shown(entry.built_at)} from the cache; making it took {entry.setup_s:.0f} s then"
    return Provided(
        build=build, built_at=entry.built_at, setup_s=entry.setup_s, key=place.key, is_cached=True, notes=(note,)
    ), ""


def _kept(place: Place, wanted: Wanted, workspace: Workspace, fill: Fill, note: str) -> Provided:
    """A new build at its place, and a copy of it before any trial could write into it."""
    place.clear()
    try:
        build = make_folders(place.live)
    except OSError as error:
        workspace.release(build_in(place.live))
        return made(workspace.new_build(), fill, note, f"the build cache cannot be used: {_said(error)}")
    provided = made(build, fill, note)
    why = _why_not_kept(place, wanted, workspace, provided)
    notes = (*provided.notes, f"this build is not kept for later: {why}") if why else provided.notes
    return replace(provided, key=place.key, notes=notes)


def _why_not_kept(place: Place, wanted: Wanted, workspace: Workspace, provided: Provided) -> str:
    """Keeps it, or says why that is not possible; a campaign never ends for the sake of its cache."""
    if owned_processes(workspace.owner):
        return "its setup left a process running, which no copy has"
    limits = wanted.limits
    try:
        contents = contents_of(place.live)
        if not make_room(
            place.root, needed_bytes=contents.size_bytes, max_bytes=limits.max_bytes, max_age_s=limits.max_age_s
        ):
            return f"it holds {_gb(contents.size_bytes)}, too much for the limit of {_gb(limits.max_bytes)}"
        free_bytes = shutil.disk_usage(place.folder).free
        if free_bytes < contents.size_bytes:
            return f"it holds {_gb(contents.size_bytes)} and the disk has {_gb(free_bytes)} free"
        copy_build(place.live, place.kept)
        place.complete(
            Entry(
                key=place.key,
                built_at=provided.built_at,
                setup_s=provided.setup_s,
                size_bytes=contents.size_bytes,
                sha256=contents.sha256,
                about=wanted.about,
            )
        )
    except OSError as error:
        remove_tree(place.kept)
        return _said(error)
    return ""


def shown(built_at: str) -> str:
    """ "2026-11-20T09:12:44+00:00" -> "2026-11-20 09:12 UTC"."""
    return f"{built_at[:16].replace('T', ' ')} UTC"


def _said(error: OSError) -> str:
    return str(error.strerror or error)


def _gb(size_bytes: int) -> str:
    return f"{size_bytes / 1e9:.2g} GB"
