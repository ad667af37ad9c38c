"""Writing under bad conditions: locks, full disks, kills, interrupts."""

import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import store_cases as cases

from perfguard.errors import StoreError
from perfguard.store import Store, open_store, schema

HOLD = """
import sqlite3, sys, time
held = sqlite3.connect(sys.argv[1], isolation_level=None)
held.execute("BEGIN IMMEDIATE")
print("held", flush=True)
time.sleep(float(sys.argv[2]))
held.execute("COMMIT")
"""


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[object]:
    """Starts a process that holds the write lock for so many seconds; ends it with the test."""
    started: list[subprocess.Popen[str]] = []

    def start(path: Path, seconds: float) -> None:
        started.append(cases.python(HOLD, path, seconds))
        assert started[-1].stdout.readline() == "held\n"

    yield start
    for process in started:
        process.kill()
        process.communicate()


def test_a_write_waits_while_another_process_holds_the_lock(tmp_path: Path, holder) -> None:
    with open_store(cases.filled(tmp_path / "r.db")) as store:
        holder(store.path, 0.7)
        store.add_trial("c-0001", cases.trial(2))
        assert len(store.trials("c-0001")) == 3


def test_a_lock_that_stays_is_an_error_that_says_how_to_find_the_holder(tmp_path: Path, holder) -> None:
    with open_store(cases.filled(tmp_path / "r.db"), busy_timeout_s=0.2) as store:
        holder(store.path, 60)
        with pytest.raises(StoreError, match=r"r\.db is in use by another process and stayed locked") as error:
            store.add_trial("c-0001", cases.trial(2))
        assert error.value.next_step.startswith(f"fuser -v {store.path}")
        assert len(store.trials("c-0001")) == 2, "reading goes on"
        with open_store(store.path, read_only=True) as reader:
            assert len(reader.trials("c-0001")) == 2


def test_the_lock_is_waited_for_ten_seconds_unless_told_otherwise(tmp_path: Path) -> None:
    with open_store(tmp_path / "r.db") as store:
        assert schema.pragma(store.db, "busy_timeout") == 10_000


def test_two_processes_may_create_the_same_file_at_once(tmp_path: Path) -> None:
    code = """
import sys, store_cases as cases
from perfguard.store import open_store
sys.stdin.readline()
with open_store(sys.argv[1]) as store:
    store.add_campaign(cases.campaign(sys.argv[2]))
"""
    processes = [cases.python(code, tmp_path / "r.db", f"c-{k}", stdin=subprocess.PIPE) for k in range(2)]
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    assert [process.communicate()[1] for process in processes] == [""] * 2
    with open_store(tmp_path / "r.db", read_only=True) as store:
        assert sorted(row.id for row in store.campaigns()) == ["c-0", "c-1"]


def intact(path: Path) -> bool:
    return cases.rows(path, "PRAGMA integrity_check") == [("ok",)]


def add_large_trials(store: Store, stop: int) -> None:
    for number in range(1, stop):
        store.add_trial("c-0001", cases.trial(number, digests={"plain": "d" * 2000}))


def test_a_full_database_says_what_is_stored_and_stays_whole(tmp_path: Path) -> None:
    path = cases.filled(tmp_path / "r.db", 1)
    with open_store(path) as store:
        store.db.execute(f"PRAGMA max_page_count = {schema.pragma(store.db, 'page_count') + 4}")
        with pytest.raises(StoreError, match="disk or quota is full") as error:
            add_large_trials(store, 100)
        num_stored = len(store.trials("c-0001"))
        assert 1 <= num_stored < 99
        assert f"stored and safe: campaign c-0001 with {num_stored} trials of 0 blocks" in str(error.value)
        assert error.value.next_step == f"free space: df -h {tmp_path}"
    assert intact(path)


FILL = """
import resource, sys, store_cases as cases
from perfguard.errors import StoreError
from perfguard.store import open_store
store = open_store(sys.argv[1])
store.add_campaign(cases.campaign())
resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))
try:
    for number in range(1000):
        store.add_trial("c-0001", cases.trial(number, digests={"plain": "d" * 2000}))
        print(number, flush=True)
except StoreError as error:
    print(error)
store.close()
"""


def test_a_disk_that_fills_up_in_the_middle_of_a_write_loses_no_committed_trial(tmp_path: Path) -> None:
    out, err = cases.python(FILL, tmp_path / "r.db").communicate()
    assert err == ""
    *numbers, message = out.splitlines()
    assert len(numbers) > 3
    assert "disk or quota is full" in message
    assert f"campaign c-0001 with {len(numbers)} trials" in message
    with open_store(tmp_path / "r.db") as store:
        assert len(store.trials("c-0001")) == len(numbers)
    assert intact(tmp_path / "r.db")


WRITE = """
import sys, store_cases as cases
from perfguard.store import open_store
store = open_store(sys.argv[1])
for number in range(int(sys.argv[2]), 100_000):
    store.add_trial("c-0001", cases.trial(number))
    print(number, flush=True)
"""


def test_kill_in_the_middle_of_writing_keeps_every_trial_that_was_committed(tmp_path: Path) -> None:
    path = cases.filled(tmp_path / "r.db", 0)
    num_known = 0
    for attempt in range(3):
        process = cases.python(WRITE, path, num_known)
        for _ in range(3 + attempt):
            assert process.stdout.readline()
        time.sleep(0.003 * attempt)  # anywhere in a transaction, not always at its end
        process.send_signal(signal.SIGKILL)
        said = process.stdout.read().split()  # not communicate(): it loses what readline() had taken in already
        process.wait()
        process.stdout.close()
        process.stderr.close()
        with open_store(path, read_only=True) as store:
            trials = store.trials("c-0001")
        num_seen = num_known + 3 + attempt + len(said)
        # The last one may have been committed before it could say so.
        assert len(trials) in (num_seen, num_seen + 1)
        assert trials == [cases.trial(number) for number in range(len(trials))]
        num_known = len(trials)
    with open_store(path):
        pass
    assert intact(path)
    assert [p.name for p in tmp_path.iterdir()] == ["r.db"]


def test_an_interrupt_inside_a_write_leaves_the_store_usable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*arguments: object) -> None:
        raise KeyboardInterrupt

    with open_store(cases.filled(tmp_path / "r.db", 1)) as store:
        with monkeypatch.context() as patch:
            patch.setattr("perfguard.store.content.add_series", interrupt)
            with pytest.raises(KeyboardInterrupt):
                store.add_trial("c-0001", cases.trial(1))
        store.add_trial("c-0001", cases.trial(2))
        assert [trial.id for trial in store.trials("c-0001")] == ["t00000", "t00002"]
