"""Opening and closing one SQLite file, transactions, and what its errors mean to a person. Knows no table."""

import contextlib
import os
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

from sqlite_utils import Database

from perfguard.errors import StoreError, UsageError
from perfguard.store import schema
from perfguard.store.damage import Damaged

# Longer than any of our transactions, shorter than the patience of a person.
BUSY_TIMEOUT_S = 10.0
# How long closing waits for readers to leave before it lets the journal lie.
_CLOSE_TIMEOUT_MS = 500
# The write-ahead log needs memory shared between processes, which these cannot give (sqlite.org/wal.html).
_REMOTE_FILE_SYSTEMS = ("nfs", "cifs", "smb", "9p", "ceph", "lustre", "gpfs", "beegfs", "fuse", "overlay")
_WAL_HEADER = b"\x02\x02"


def open_writable(path: Path, busy_timeout_s: float) -> Database:
    """The database at `path`, created or migrated where needed, with the journal its file system can hold.

    Raises StoreError: no database, newer than this perfguard, locked, disk full.
    """
    with explained(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.parent.name == ".perfguard" and not (path.parent / ".gitignore").exists():
            (path.parent / ".gitignore").write_text("*\n", encoding="utf-8")
        db = _connect(path, "mode=rwc", busy_timeout_s)
        with _closed_on_error(db):
            db.execute("PRAGMA foreign_keys = ON")
            schema.migrate(db, str(path))
            _choose_journal(db, path, busy_timeout_s)
    return db


def open_read_only(path: Path, busy_timeout_s: float) -> Database:
    """The database at `path`, which is neither written to nor migrated: an older one is migrated in memory.

    Raises UsageError when there is no such file, StoreError as `open_writable`.
    """
    if not path.exists():
        raise UsageError(
            f"there are no stored results at {path}", "perfguard compare HEAD~1 HEAD -- python bench.py, or name --db"
        )
    with explained(path):
        db = _connect(path, _read_mode(path), busy_timeout_s)
        with _closed_on_error(db):
            db.execute("PRAGMA query_only = ON")
            version = schema.version_of(db, str(path))
            schema.refuse_newer(version, str(path))
            if version == 0:
                raise StoreError(f"{path} is empty: nothing was ever stored in it", "name another file with --db")
        return db if version == schema.newest() else _migrated_copy(db, path)


def close(db: Database) -> None:
    """Fold the journal back, so that the database is one file that can be committed and copied.

    While a reader is still there, or the disk is full, the journal stays beside the file: nothing is lost,
    and the next to close folds it.
    """
    with contextlib.suppress(sqlite3.Error):
        db.execute(f"PRAGMA busy_timeout = {_CLOSE_TIMEOUT_MS}")
        if schema.pragma(db, "journal_mode") == "wal" and not schema.pragma(db, "query_only"):
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            db.execute("PRAGMA journal_mode = DELETE")
    db.conn.close()


@contextlib.contextmanager
def transaction(db: Database, path: Path, what_is_stored: Callable[[], str]) -> Iterator[None]:
    """All of it or nothing, on disk when it returns. `what_is_stored` completes the message of a failure."""
    with explained(path, what_is_stored):
        db.execute("BEGIN IMMEDIATE")
        try:
            yield
            db.execute("COMMIT")
        except BaseException:
            # SQLite has already rolled back by itself after some errors, a full disk among them.
            if db.conn.in_transaction:
                db.execute("ROLLBACK")
            raise


@contextlib.contextmanager
def explained(path: Path, what_is_stored: Callable[[], str] = str) -> Iterator[None]:
    """Raises StoreError for whatever SQLite or the file system has to say inside."""
    try:
        yield
    except sqlite3.Error as error:
        raise _explanation(error, path, what_is_stored) from error
    except Damaged as error:
        again = "restore it from a copy; what is not damaged: perfguard export NEW.db ID"
        raise StoreError(f"{path} holds a row that cannot be read: {error}", again) from error
    except OSError as error:
        raise StoreError(f"{path}: {error.strerror or error}", "name another file with --db") from error


def _explanation(error: sqlite3.Error, path: Path, what_is_stored: Callable[[], str]) -> StoreError:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # the low byte is the primary code
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return StoreError(f"{path} is in use by another process and stayed locked: {error}", f"fuser -v {path}*")
    if code in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR):
        return StoreError(
            "; ".join(filter(None, (f"{path} cannot be written, disk or quota is full: {error}", what_is_stored()))),
            f"free space: df -h {path.parent}",
        )
    if code in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT):
        return StoreError(
            f"{path} is not a database, or is cut off: {error}", "restore it from a copy, or name another --db"
        )
    if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM):
        if os.path.exists(_journal(path)):  # `Path.exists` raises where a name is too long
            copy = f"cp {path}* to a folder that can be written, and name that copy with --db"
            return StoreError(f"{path} was left in the middle of a run and cannot be completed here: {error}", copy)
        return StoreError(f"{path} cannot be opened: {error}", f"ls -ld {path.parent} {path}, or name another --db")
    return StoreError(f"{path}: {error}", "perfguard runs")


def _connect(path: Path, mode: str, busy_timeout_s: float) -> Database:
    uri = f"{path.absolute().as_uri()}?{mode}"
    # No isolation level: transactions begin and end where this package says so, in every sqlite-utils.
    connection = sqlite3.connect(uri, uri=True, timeout=busy_timeout_s, isolation_level=None)
    return Database(connection, execute_plugins=False)


def _read_mode(path: Path) -> str:
    """How to open for reading so that nothing is written, not even a journal beside the file.

    A file whose header asks for a write-ahead log would get an empty one; with none there, there is nothing
    to see beside the file itself, and it can be read as it is.
    """
    with open(path, "rb") as handle:
        has_wal_header = handle.read(20)[18:] == _WAL_HEADER
    return "mode=ro&immutable=1" if has_wal_header and not _journal(path).exists() else "mode=ro"


def _journal(path: Path) -> Path:
    return path.with_name(f"{path.name}-wal")


def _migrated_copy(db: Database, path: Path) -> Database:
    copy = sqlite3.connect(":memory:", isolation_level=None)
    db.conn.backup(copy)
    db.conn.close()
    memory = Database(copy, execute_plugins=False)
    schema.migrate(memory, str(path))
    memory.execute("PRAGMA query_only = ON")
    return memory


def _choose_journal(db: Database, path: Path, busy_timeout_s: float) -> None:
    """A write-ahead log lets `perfguard show` read during a run. What the PRAGMA answers decides."""
    db.execute("PRAGMA synchronous = FULL")
    if _file_system(path).startswith(_REMOTE_FILE_SYSTEMS):
        return
    db.execute("PRAGMA busy_timeout = 0")
    # Locked means that somebody else is in the file: its journal stays as it is, which is as safe.
    with contextlib.suppress(sqlite3.OperationalError):
        db.execute("PRAGMA journal_mode = WAL")
        # Creates the log at once: a reader takes a file without one for a file without a writer.
        db.execute("SELECT count(*) FROM sqlite_master").fetchone()
    db.execute(f"PRAGMA busy_timeout = {round(busy_timeout_s * 1000)}")


def _file_system(path: Path, mounts: Path = Path("/proc/self/mounts")) -> str:
    """Type of the file system that holds `path`, "" where it cannot be told."""
    try:
        lines = mounts.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return ""
    places = [(Path(fields[1].replace("\\040", " ")), fields[2]) for fields in map(str.split, lines)]
    folder = path.absolute().parent.resolve()
    holding = [(len(place.parts), kind) for place, kind in places if folder.is_relative_to(place)]
    # Of two mounts at one place the later one covers the earlier.
    return max(reversed(holding), key=lambda depth_and_kind: depth_and_kind[0])[1] if holding else ""


@contextlib.contextmanager
def _closed_on_error(db: Database) -> Iterator[None]:
    try:
        yield
    except BaseException:
        db.conn.close()
        raise
