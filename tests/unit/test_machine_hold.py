"""One measuring job at a time: real lock files, real processes, other users."""

import math
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from perfguard.errors import BusyError
from perfguard.machine import hold
from perfguard.machine.hold import hold_machine, lock_folder

HOLDER = """
import sys, time
from pathlib import Path
from perfguard.machine.hold import hold_machine
with hold_machine("compare A B [bold] é", folder=Path(sys.argv[1])):
    print(flush=True)
    time.sleep(600)
"""


@pytest.fixture
def holder(tmp_path):
    process = subprocess.Popen([sys.executable, "-c", HOLDER, str(tmp_path)], stdout=subprocess.PIPE)
    process.stdout.readline()
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


def test_a_second_job_fails_at_once_and_is_told_who_measures(holder, tmp_path):
    before = datetime.now(UTC).isoformat(timespec="minutes")[:13]
    with pytest.raises(BusyError) as caught, hold_machine("mine", folder=tmp_path):
        pass
    text = str(caught.value)
    assert f"pid {holder.pid} (user {os.getuid()}, since {before}" in text
    assert text.endswith("compare A B [bold] é")
    assert caught.value.exit_code == 5


def test_a_holder_that_is_killed_frees_the_machine(holder, tmp_path):
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    with hold_machine("mine", folder=tmp_path):
        pass


def test_a_patient_job_hears_who_holds_it_and_then_gets_the_machine(holder, tmp_path):
    heard = []

    def on_wait(who, waited_s):
        heard.append((who.pid, who.command, waited_s >= 0))
        holder.kill()

    with hold_machine("mine", folder=tmp_path, wait_s=math.inf, on_wait=on_wait):
        assert heard[0] == (holder.pid, "compare A B [bold] é", True)


def test_a_patient_job_gives_up_after_its_limit(holder, tmp_path):
    heard = []
    with (
        pytest.raises(BusyError, match=f"pid {holder.pid}"),
        hold_machine("mine", folder=tmp_path, wait_s=0.3, on_wait=lambda *about: heard.append(about)),
    ):
        pass
    assert heard


def test_the_lock_is_free_again_after_an_error(tmp_path):
    with pytest.raises(KeyboardInterrupt), hold_machine("first", folder=tmp_path):
        raise KeyboardInterrupt
    with hold_machine("second", folder=tmp_path):
        pass


def test_a_child_that_outlives_the_job_does_not_keep_the_machine(tmp_path):
    with hold_machine("first", folder=tmp_path):
        child = subprocess.Popen(["sleep", "600"], close_fds=False)
    try:
        with hold_machine("second", folder=tmp_path):
            pass
    finally:
        child.kill()
        child.wait()


def test_two_threads_of_one_process_exclude_each_other(tmp_path):
    inside, most = [], []

    def measure():
        with hold_machine("thread", folder=tmp_path, wait_s=math.inf):
            inside.append(1)
            most.append(len(inside))
            time.sleep(0.02)
            inside.pop()

    threads = [threading.Thread(target=measure) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1, 1, 1, 1]


def hold_as(user, folder):
    """Take and leave the lock in a child that is another user; "held", or "busy"."""
    child = os.fork()
    if child == 0:
        code = 2
        try:
            os.umask(0o077)
            os.setuid(user)
            with hold_machine("x", folder=folder):
                code = 0
        except BusyError:
            code = 1
        finally:
            os._exit(code)
    return {0: "held", 1: "busy"}[os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])]


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # the child ends at once
@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
@pytest.mark.parametrize("first", [65534, 65533, 0])
def test_users_exclude_each_other_whoever_came_first(first):
    with tempfile.TemporaryDirectory() as name:
        os.chmod(name, 0o1777)
        folder = Path(name, "lock")
        assert hold_as(first, folder) == "held"
        assert [hold_as(user, folder) for user in (65533, 65534, 0)] == ["held"] * 3
        with hold_machine("root", folder=folder):
            assert [hold_as(user, folder) for user in (65533, 65534, 0)] == ["busy"] * 3


def test_a_lock_file_removed_by_a_cleaner_is_not_mistaken_for_the_lock(tmp_path, monkeypatch):
    opened = hold._open

    def open_and_lose(path):
        handle = opened(path)
        monkeypatch.setattr(hold, "_open", opened)
        path.unlink()
        return handle

    monkeypatch.setattr(hold, "_open", open_and_lose)
    with hold_machine("mine", folder=tmp_path), pytest.raises(BusyError), hold_machine("other", folder=tmp_path):
        pass


def test_a_lock_that_cannot_be_used_names_the_file_and_the_variable(tmp_path):
    (tmp_path / "file").touch()
    refused = pytest.raises(BusyError, match=r"file/machine.lock cannot be used: File exists")
    with refused as caught, hold_machine("mine", folder=tmp_path / "file"):
        pass
    assert "PERFGUARD_LOCK_DIR" in caught.value.next_step


def test_a_planted_link_is_not_followed(tmp_path):
    (tmp_path / "machine.lock").symlink_to(tmp_path / "precious")
    with pytest.raises(BusyError), hold_machine("mine", folder=tmp_path):
        pass
    assert not (tmp_path / "precious").exists()


def test_a_holder_that_has_not_yet_said_who_it_is_is_called_unknown(tmp_path):
    with hold_machine("x" * 500 + "é", folder=tmp_path):
        os.truncate(tmp_path / "machine.lock", 0)
        with pytest.raises(BusyError, match="by an unknown process"), hold_machine("other", folder=tmp_path):
            pass


def test_the_folder_follows_the_variable(monkeypatch, tmp_path):
    monkeypatch.setenv("PERFGUARD_LOCK_DIR", str(tmp_path))
    assert lock_folder() == tmp_path
    monkeypatch.delenv("PERFGUARD_LOCK_DIR")
    assert str(lock_folder()) == "/tmp/perfguard-lock"
