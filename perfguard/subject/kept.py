"""The cache of builds on disk: one place for each key, held by a lock while somebody builds or measures there.

    builds/KEY/owner.json   the lock          builds/KEY/entry.json   written last: with it the entry is complete
    builds/KEY/kept/        the build as its setup left it, never used itself
    builds/KEY/XXXXXXXX/    the build in use: always at the path where it was built, removed after use

Must not build anything. Everything that goes is first renamed, so that a removal that ends half-way leaves no entry.
"""

import json
import os
import secrets
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from perfguard.strays import remove_tree
from perfguard.subject.leftovers import end_processes
from perfguard.subject.owner import hold, is_abandoned, sweeping_paused, unusable

ENTRY_NAME = "entry.json"
KEPT_NAME = "kept"
TRASH = "trash-"
# As long together as the names of a workspace and a fresh build in it ("work", 16 and 8 signs): path length alone can
# move a number.
NUM_OUTER, NUM_INNER = 14, 8


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A complete build. `about` is for people: commit and setup. `built_at` is UTC, `sha256` that of snapshots.py."""

    key: str
    built_at: str
    setup_s: float
    size_bytes: int
    sha256: str
    about: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Place:
    """The place of one key, held by us until `give_back`."""

    root: Path
    folder: Path
    key: str
    handle: int

    @property
    def live(self) -> Path:
        """Where the build is made and used."""
        return self.folder / self.key[NUM_OUTER : NUM_OUTER + NUM_INNER]

    @property
    def kept(self) -> Path:
        return self.folder / KEPT_NAME

    def entry(self) -> Entry | None:
        found = read_entry(self.folder)
        return found if found is not None and found.key == self.key else None

    def clear(self) -> None:
        """Nothing but the lock stays."""
        (self.folder / ENTRY_NAME).unlink(missing_ok=True)
        for path in (self.kept, self.live):
            remove_tree(path)

    def complete(self, entry: Entry) -> None:
        """`kept` is whole: from here on it is an entry. Raises OSError."""
        new = self.folder / f"{ENTRY_NAME}.new"
        new.write_text(json.dumps(asdict(entry)), encoding="utf-8")
        new.replace(self.folder / ENTRY_NAME)

    def give_back(self) -> None:
        remove_tree(self.live)
        if self.entry() is None:
            remove_tree(self.folder)
        os.close(self.handle)


def take_place(root: Path, key: str, owner: str) -> Place | None:
    """The place of `key`, empty of what a killed owner left in use; None if somebody else holds it. Raises OSError."""
    folder = places(root) / key[:NUM_OUTER]
    with sweeping_paused(root):
        folder.mkdir(parents=True, exist_ok=True)
        held = hold(folder, owner)
    if held is None:
        return None
    place = Place(root=root, folder=folder, key=key, handle=held.handle)
    if place.live.exists():
        end_processes(held.before)  # what it left running may still write there
        remove_tree(place.live)
    return place


def places(root: Path) -> Path:
    return root / "builds"


def read_entry(folder: Path) -> Entry | None:
    """The complete entry of a place; None for anything else."""
    try:
        entry = Entry(**json.loads((folder / ENTRY_NAME).read_text(encoding="utf-8")))
        datetime.fromisoformat(entry.built_at)
        return replace(entry, size_bytes=int(entry.size_bytes), setup_s=float(entry.setup_s))
    except (OSError, ValueError, TypeError):
        return None


def entries(root: Path) -> list[tuple[Path, Entry]]:
    """Complete entries with their folders, the one that was used longest ago first."""
    found = [(folder, entry) for folder in _folders(root) if (entry := read_entry(folder)) is not None]
    return sorted(found, key=lambda pair: used_s(pair[0]))


def used_s(folder: Path) -> float:
    """When an entry was last used, in seconds since 1970; 0 for one that has just gone."""
    try:
        return (folder / ENTRY_NAME).stat().st_mtime
    except OSError:
        return 0.0


def age_s(entry: Entry) -> float:
    return time.time() - datetime.fromisoformat(entry.built_at).replace(tzinfo=UTC).timestamp()


def make_room(root: Path, *, needed_bytes: int, max_bytes: int, max_age_s: float) -> bool:
    """Drop what is too old, then what was used longest ago, never what is in use. False if that is not enough."""
    for folder, entry in entries(root):
        if age_s(entry) > max_age_s:
            drop(root, folder)
    if needed_bytes > max_bytes:
        return False
    left = entries(root)
    total_bytes = needed_bytes + sum(entry.size_bytes for _, entry in left)
    for folder, entry in left:
        if total_bytes <= max_bytes:
            break
        if drop(root, folder):
            total_bytes -= entry.size_bytes
    return total_bytes <= max_bytes


def drop(root: Path, folder: Path) -> bool:
    """Remove a place unless somebody holds it."""
    with sweeping_paused(root):
        if not is_abandoned(folder):
            return False
        gone = _to_trash(root, [folder])
    for path in gone:
        remove_tree(path)
    return bool(gone)


def clear_places(root: Path) -> int:
    """Drop every place that nobody holds, and the logs of failed setups. Returns the bytes of entries removed."""
    sizes = {folder: entry.size_bytes for folder, entry in entries(root)}
    freed_bytes = sum(sizes.get(folder, 0) for folder in _folders(root) if drop(root, folder))
    remove_tree(root / "failed")
    return freed_bytes


def sweep_places(root: Path) -> tuple[Path, ...]:
    """Remove what killed owners left unfinished or in use; complete entries stay. Returns what was removed."""
    with sweeping_paused(root):
        left = [path for folder in _folders(root) if is_abandoned(folder) for path in _unfinished(folder)]
        gone = _to_trash(root, left)
    for path in gone:
        remove_tree(path)
    return tuple(left)


def _folders(root: Path) -> list[Path]:
    try:
        return sorted(places(root).iterdir())
    except FileNotFoundError:
        return []
    except OSError as error:  # $PERFGUARD_CACHE names a file, or a folder of somebody else
        raise unusable(root, error) from error


def _unfinished(folder: Path) -> list[Path]:
    if read_entry(folder) is None:
        return [folder]
    return [path for path in folder.iterdir() if path.is_dir() and path.name != KEPT_NAME]


def _to_trash(root: Path, paths: Sequence[Path]) -> list[Path]:
    moved = []
    for path in paths:
        new = places(root) / f"{TRASH}{secrets.token_hex(4)}"
        with suppress(OSError):  # gone meanwhile
            path.rename(new)
            moved.append(new)
    return moved
