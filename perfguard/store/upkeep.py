"""What is done to a results.db as a whole: age, thinning, copies. Works on an open store; judges nothing."""

import contextlib
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path

from perfguard.store import retention
from perfguard.store.results import Store
from perfguard.store.rows import StoredAge


class _TakenBack(Exception):  # noqa: N818 - a way out of a transaction, no error of anybody
    pass


def ages(store: Store) -> list[StoredAge]:
    """Every campaign with what decides whether it may be pruned, newest first."""
    with store.reading():
        return retention.ages(store.db)


def num_trials(store: Store, ids: Sequence[str]) -> int:
    with store.reading():
        return retention.num_trials(store.db, ids)


def thin(store: Store, campaign_id: str, still_holds: Callable[[], bool], *, with_telemetry: bool) -> int | None:
    """Take samples and ends of logs away; bytes taken. None where `still_holds` says no to what is left: then nothing
    changes. It is not asked where there is nothing to take.
    """
    try:
        with store.writing(campaign_id):
            taken_bytes = retention.thin(store.db, campaign_id, with_telemetry=with_telemetry)
            if taken_bytes and not still_holds():
                raise _TakenBack
    except _TakenBack:
        return None
    return taken_bytes


def remove(store: Store, ids: Sequence[str]) -> None:
    """Whole campaigns, all or none. What they share with others stays."""
    with store.writing(""):
        retention.remove(store.db, ids)


def size_bytes(store: Store) -> int:
    with store.reading():
        return retention.size_bytes(store.db)


def compact(store: Store) -> None:
    """Give the room of what was taken away back to the disk. Needs as much again while it runs."""
    with store.reading():
        store.db.execute("VACUUM")


def is_current(store: Store) -> bool:
    """Whether the file itself is what is read: an older one opened to read is migrated in memory."""
    with store.reading():
        return bool(store.db.execute("PRAGMA database_list").fetchone()[2])


def copy_to(store: Store, path: Path) -> None:
    """The file as it is now, at the newest schema, for other programs to read."""
    with store.reading(), contextlib.closing(sqlite3.connect(path)) as target:
        store.db.conn.backup(target)
