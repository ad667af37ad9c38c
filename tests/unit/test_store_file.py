"""What a file may be when it is opened: closed by us, read-only, cut off, of another program, of another version."""

import os
import sqlite3
import tempfile
from pathlib import Path

import pytest
import store_cases as cases

from perfguard import __version__
from perfguard.errors import StoreError, UsageError
from perfguard.store import connection, open_store, schema


def test_a_closed_store_is_one_file_that_needs_no_journal(tmp_path: Path) -> None:
    path = cases.filled(tmp_path / "r.db")
    assert [p.name for p in tmp_path.iterdir()] == ["r.db"]
    assert path.read_bytes()[18:20] == b"\x01\x01", "the header asks for no write-ahead log"


def test_readers_see_each_trial_while_the_writer_is_open(tmp_path: Path) -> None:
    with open_store(cases.filled(tmp_path / "r.db", 1)) as store:
        assert schema.pragma(store.db, "journal_mode") == "wal"
        with open_store(store.path, read_only=True) as reader:
            store.add_trial("c-0001", cases.trial(1))
            assert len(reader.trials("c-0001")) == 2
        store.add_trial("c-0001", cases.trial(2))
    assert [p.name for p in tmp_path.iterdir()] == ["r.db"]


def test_closing_beside_a_reader_loses_nothing_and_the_next_close_folds_the_journal(tmp_path: Path) -> None:
    store = open_store(cases.filled(tmp_path / "r.db", 1))
    reader = open_store(store.path, read_only=True)
    store.add_trial("c-0001", cases.trial(1))
    store.close()
    assert len(reader.trials("c-0001")) == 2
    reader.close()
    with open_store(tmp_path / "r.db") as again:
        assert len(again.trials("c-0001")) == 2
    assert [p.name for p in tmp_path.iterdir()] == ["r.db"]


@pytest.mark.parametrize(
    ("mounts", "kind"),
    [
        ("/dev/a / ext4 rw 0 0\nserver:/x {0} nfs4 rw 0 0\n", "nfs4"),
        ("server:/x / nfs rw 0 0\n/dev/a {0} xfs rw 0 0\n", "xfs"),
        ("a {0} ext4 rw 0 0\nb {0} overlay rw 0 0\n", "overlay"),
        ("a {0}other 9p rw 0 0\n", ""),
    ],
)
def test_the_file_system_is_that_of_the_deepest_and_latest_mount(mounts: str, kind: str, tmp_path: Path) -> None:
    table = tmp_path / "mounts"
    table.write_text(mounts.format(tmp_path.resolve()))
    assert connection._file_system(tmp_path / "x" / "r.db", table) == kind
    assert connection._file_system(tmp_path / "r.db", tmp_path / "missing") == ""


def test_a_remote_file_system_gets_no_write_ahead_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "_file_system", lambda path: "nfs4")
    with open_store(tmp_path / "r.db") as store:
        assert schema.pragma(store.db, "journal_mode") == "delete"
        store.add_campaign(cases.campaign())
    assert [p.name for p in tmp_path.iterdir()] == ["r.db"]


READ = """
import os, sys
from perfguard.store import open_store
if os.getuid() == 0:
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
with open_store(sys.argv[1], read_only=True) as store:
    print(store.campaigns()[0].id, len(store.trials("latest")))
"""


@pytest.mark.parametrize("has_wal_header", [False, True])
def test_a_file_and_folder_without_write_permission_can_be_read(has_wal_header: bool) -> None:
    # Not in tmp_path: its parents are closed to the other user that root has to become here.
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = cases.filled(folder / "r.db")
        if has_wal_header:
            with sqlite3.connect(path) as other:
                other.execute("PRAGMA journal_mode = WAL")
            other.close()
        path.chmod(0o444)
        folder.chmod(0o555)
        before = path.read_bytes()
        out, err = cases.python(READ, path).communicate()
        assert (out, err) == ("c-0001 2\n", "")
        assert path.read_bytes() == before
        assert [p.name for p in folder.iterdir()] == ["r.db"]
        folder.chmod(0o755)


def test_a_run_that_was_killed_is_not_read_in_part_where_its_journal_cannot_be_completed() -> None:
    write = "s = c.open_store(sys.argv[1]); s.add_trial('c-0001', c.trial(9))"
    kill = f"import os, sys, store_cases as c; {write}; os._exit(1)"
    with tempfile.TemporaryDirectory() as name:
        path = cases.filled(Path(name) / "r.db")
        cases.python(kill, path).communicate()
        (Path(name) / "r.db-shm").unlink()
        for file in Path(name).iterdir():
            file.chmod(0o444)
        Path(name).chmod(0o555)
        err = cases.python(READ, path).communicate()[1]
        assert "r.db was left in the middle of a run and cannot be completed here" in err
        Path(name).chmod(0o755)


def test_reading_leaves_no_trace_even_where_writing_is_allowed(tmp_path: Path) -> None:
    path = cases.filled(tmp_path / "r.db")
    with sqlite3.connect(path) as other:
        other.execute("PRAGMA journal_mode = WAL")
    other.close()
    before = path.read_bytes()
    with open_store(path, read_only=True) as store:
        assert len(store.trials("c-0001")) == 2
        with pytest.raises(StoreError, match="opened to read only"):
            store.add_campaign(cases.campaign("c-0002"))
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            store.db.execute("DELETE FROM trials")
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["r.db"]


def test_reading_what_is_not_there_is_wrong_usage_and_creates_nothing(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no stored results at .*r\.db") as error:
        open_store(tmp_path / "r.db", read_only=True)
    assert "perfguard compare" in error.value.next_step
    assert list(tmp_path.iterdir()) == []


def test_the_default_folder_ignores_itself_and_another_is_left_alone(tmp_path: Path) -> None:
    with open_store(tmp_path / ".perfguard" / "results.db"), open_store(tmp_path / "other" / "results.db"):
        pass
    assert (tmp_path / ".perfguard" / ".gitignore").read_text() == "*\n"
    assert [p.name for p in (tmp_path / "other").iterdir()] == ["results.db"]


@pytest.mark.parametrize("read_only", [True, False])
def test_a_file_that_is_no_database_is_refused_and_kept(read_only: bool, tmp_path: Path) -> None:
    path = tmp_path / "r.db"
    path.write_text("this is no database\n" * 200)
    with pytest.raises(StoreError, match="is not a database, or is cut off"):
        open_store(path, read_only=read_only)
    assert path.read_text() == "this is no database\n" * 200


@pytest.mark.parametrize("read_only", [True, False])
@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_a_file_that_was_cut_off_is_refused(share: float, read_only: bool, tmp_path: Path) -> None:
    path = cases.filled(tmp_path / "r.db", 8)
    os.truncate(path, int(path.stat().st_size * share))
    with pytest.raises(StoreError, match="is not a database, or is cut off") as error:
        open_store(path, read_only=read_only)
    assert "restore it from a copy" in error.value.next_step


@pytest.mark.parametrize("read_only", [True, False])
def test_a_database_of_another_program_is_refused_and_kept(read_only: bool, tmp_path: Path) -> None:
    path = tmp_path / "r.db"
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE campaigns (id TEXT)")
    other.close()
    before = path.read_bytes()
    with pytest.raises(StoreError, match="SQLite database of another program"):
        open_store(path, read_only=read_only)
    assert path.read_bytes() == before


def test_an_empty_file_is_filled_when_writing_and_refused_when_reading(tmp_path: Path) -> None:
    (tmp_path / "r.db").touch()
    with pytest.raises(StoreError, match="is empty: nothing was ever stored"):
        open_store(tmp_path / "r.db", read_only=True)
    assert len(cases.filled(tmp_path / "r.db").read_bytes()) > 4096


def test_a_folder_in_place_of_the_file_is_an_error_with_a_next_step(tmp_path: Path) -> None:
    for read_only in (True, False):
        with pytest.raises(StoreError) as error:
            open_store(tmp_path, read_only=read_only)
        assert "--db" in error.value.next_step


@pytest.mark.parametrize("read_only", [True, False])
def test_a_file_of_a_newer_version_is_refused_naming_both_versions(read_only: bool, tmp_path: Path) -> None:
    path = cases.filled(tmp_path / "r.db")
    with sqlite3.connect(path) as other:
        other.execute(f"INSERT INTO migrations VALUES ({schema.newest() + 1}, 'of the future', '', '9.0')")
    other.close()
    versions = rf"version {schema.newest() + 1}, .* perfguard {__version__} knows .* up to {schema.newest()}"
    with pytest.raises(StoreError, match=versions) as error:
        open_store(path, read_only=read_only)
    assert error.value.next_step == "pip install --upgrade perfguard"


EXTRA = ("CREATE TABLE extra (x)", "INSERT INTO extra VALUES (1)")
NEXT = schema.Migration(number=schema.newest() + 1, name="one more", statements=EXTRA)


def test_migrations_are_numbered_from_one_without_a_gap() -> None:
    assert [migration.number for migration in schema.MIGRATIONS] == list(range(1, len(schema.MIGRATIONS) + 1))


def test_an_older_file_is_migrated_when_writing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = cases.filled(tmp_path / "r.db")
    with open_store(path) as store:
        schema.migrate(store.db, "here", (*schema.MIGRATIONS, NEXT))
        schema.migrate(store.db, "here", (*schema.MIGRATIONS, NEXT))
        assert len(store.trials("c-0001")) == 2
    assert cases.rows(path, "SELECT x FROM extra") == [(1,)]
    assert cases.rows(path, "SELECT number, name, perfguard FROM migrations") == [
        *((migration.number, migration.name, __version__) for migration in schema.MIGRATIONS),
        (NEXT.number, "one more", __version__),
    ]


def test_a_migration_that_fails_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    statements = ("CREATE TABLE extra (x)", "CREATE TABLE trials (x)")
    broken = schema.Migration(number=NEXT.number, name="broken", statements=statements)
    path = cases.filled(tmp_path / "r.db")
    with open_store(path) as store, pytest.raises(sqlite3.OperationalError):
        schema.migrate(store.db, "here", (*schema.MIGRATIONS, broken))
    assert cases.rows(path, "SELECT max(number) FROM migrations") == [(schema.newest(),)]
    assert cases.rows(path, "SELECT name FROM sqlite_master WHERE name = 'extra'") == []


def test_an_older_file_is_read_through_a_copy_in_memory_and_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = cases.filled(tmp_path / "r.db")
    before = path.read_bytes()
    monkeypatch.setattr(schema.migrate, "__defaults__", ((*schema.MIGRATIONS, NEXT),))
    monkeypatch.setattr(schema.newest, "__defaults__", ((*schema.MIGRATIONS, NEXT),))
    with open_store(path, read_only=True) as store:
        assert len(store.trials("c-0001")) == 2
        assert next(iter(store.db.query("SELECT x FROM extra"))) == {"x": 1}
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            store.db.execute("DELETE FROM extra")
    assert path.read_bytes() == before
