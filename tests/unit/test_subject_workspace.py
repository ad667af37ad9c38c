"""Workspaces, the sweep of what a dead owner left, and --setup. Real processes, real locks."""

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import psutil
import pytest

from perfguard import strays
from perfguard.errors import BuildError, UsageError
from perfguard.subject import leftovers
from perfguard.subject.build import run_setup
from perfguard.subject.workspace import cache_root, open_workspace, sweep_leftovers

# Holds a workspace, starts a marked process and an unmarked one with the same command line, then sleeps.
OWNER = """
import os, subprocess, sys, time
from pathlib import Path
from perfguard.subject.workspace import open_workspace
with open_workspace(Path(sys.argv[1])) as workspace:
    build = workspace.new_build()
    (build.checkout / "file").write_text("x")
    sleep = [sys.executable, "-c", "import time; time.sleep(600)"]
    own = subprocess.Popen(sleep, env=os.environ | {"PERFGUARD_OWNER": workspace.owner}, start_new_session=True)
    other = subprocess.Popen(sleep, cwd=build.checkout, start_new_session=True)
    print(workspace.folder, own.pid, other.pid, flush=True)
    time.sleep(600)
"""


def start_owner(root):
    process = subprocess.Popen([sys.executable, "-c", OWNER, str(root)], stdout=subprocess.PIPE, text=True)
    folder, own, other = process.stdout.readline().split()
    return process, folder, psutil.Process(int(own)), psutil.Process(int(other))


def end(process):
    process.kill()
    process.wait()
    process.stdout.close()


def is_running(process):
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:  # collected between the two
        return False


def test_the_sweep_ends_what_a_killed_owner_left_and_spares_a_bystander_with_the_same_command_line(tmp_path):
    owner, folder, own, other = start_owner(tmp_path)
    try:
        assert sweep_leftovers(tmp_path) == ()
        assert is_running(own)
        owner.send_signal(signal.SIGKILL)
        owner.wait()
        assert [str(path) for path in sweep_leftovers(tmp_path)] == [folder]
        assert not os.path.exists(folder)
        assert not is_running(own)
        # The same command line, and even the same folder, make nobody ours.
        assert is_running(other)
        assert sweep_leftovers(tmp_path) == ()
    finally:
        end(owner)
        other.kill()


def test_a_workspace_is_removed_at_the_end_with_read_only_files_and_its_processes(tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir(mode=0o500)
    with open_workspace(tmp_path / "cache") as workspace:
        build = workspace.new_build()
        (build.checkout / "locked").mkdir()
        (build.checkout / "locked" / "file").touch(mode=0o400)
        (build.checkout / "link").symlink_to(outside)
        (build.checkout / "locked").chmod(0o500)
        sleep = subprocess.Popen(["sleep", "600"], env=os.environ | {"PERFGUARD_OWNER": workspace.owner})
    sleep.wait(5)
    assert not workspace.folder.exists()
    assert outside.stat().st_mode & 0o777 == 0o500


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # the child ends at once
@pytest.mark.skipif(os.getuid() != 0, reason="for others the test above is strict already")
def test_read_only_folders_are_removed_by_a_user_whom_they_stop():
    with tempfile.TemporaryDirectory() as name:
        os.chmod(name, 0o777)
        child = os.fork()
        if child == 0:
            os.setuid(65534)
            locked = Path(name, "tree", "locked", "deeper")
            locked.mkdir(parents=True)
            (locked / "file").touch(mode=0o400)
            for folder in (locked, locked.parent):
                folder.chmod(0o500)
            os._exit(0 if strays.remove_tree(Path(name, "tree")) else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert os.listdir(name) == []


def test_a_process_that_ignores_the_polite_signal_is_ended_firmly(monkeypatch):
    monkeypatch.setattr(leftovers, "GRACE_S", 0.1)
    stubborn = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); time.sleep(600)"
    environment = os.environ | {"PERFGUARD_OWNER": "token-of-this-test"}
    process = subprocess.Popen([sys.executable, "-c", stubborn], env=environment, stdout=subprocess.PIPE)
    process.stdout.readline()
    assert leftovers.end_processes("token-of-this") == ()
    assert leftovers.end_processes("token-of-this-test") == (process.pid,)
    process.wait(5)
    process.stdout.close()


def test_ourselves_and_our_parents_are_never_ended(tmp_path):
    code = "from perfguard.subject.leftovers import owned_processes; print(owned_processes('nested'))"
    command = ["sh", "-c", f'{sys.executable} -c "{code}"; true']
    result = subprocess.run(command, env=os.environ | {"PERFGUARD_OWNER": "nested"}, capture_output=True, check=True)
    assert result.stdout.strip() == b"[]"


def test_every_build_has_a_path_of_its_own_and_all_are_equally_long(tmp_path):
    with open_workspace(tmp_path) as one, open_workspace(tmp_path) as two:
        builds = [workspace.new_build() for workspace in (one, two, one, two)]
        assert len({build.checkout for build in builds}) == 4
        assert len({len(str(build.checkout)) for build in builds}) == 1
        assert len({len(str(build.caches)) for build in builds}) == 1
        assert not any(side in str(build.checkout) for side in ("base", "head") for build in builds)


def test_a_kept_workspace_outlives_its_owner_and_the_sweep(tmp_path):
    with open_workspace(tmp_path, keep=True) as workspace:
        build = workspace.new_build()
    assert sweep_leftovers(tmp_path) == ()
    assert build.checkout.is_dir()


def test_an_owner_killed_before_it_could_lock_leaves_a_folder_that_the_sweep_takes(tmp_path):
    with open_workspace(tmp_path) as workspace:
        half_made = workspace.folder.parent / "0123456789abcdef"
        half_made.mkdir()
        assert sweep_leftovers(tmp_path) == (half_made,)
        assert workspace.folder.is_dir()


def test_a_folder_of_another_host_is_not_judged_from_here(tmp_path, monkeypatch):
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr("socket.gethostname", lambda: "elsewhere")
        with open_workspace(tmp_path, keep=True) as workspace:
            pass
    (workspace.folder / "keep").unlink()
    assert sweep_leftovers(tmp_path) == ()
    assert workspace.folder.is_dir()


def test_the_cache_folder_follows_the_variable(tmp_path, monkeypatch):
    monkeypatch.setenv("PERFGUARD_CACHE", str(tmp_path / "here"))
    assert cache_root() == tmp_path / "here"
    monkeypatch.delenv("PERFGUARD_CACHE")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_root() == tmp_path / ".cache" / "perfguard"


def test_a_cache_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match=r"cache folder .*/file/cache cannot be written: Not a directory"):
        sweep_leftovers(tmp_path / "file" / "cache")


def setup(command, folder, timeout_s=20.0, **env):
    log = folder / "logs" / "setup.log"
    run_setup(command, folder, log=log, env={"PATH": os.environ["PATH"]} | env, timeout_s=timeout_s)


def test_setup_runs_in_the_checkout_with_the_environment_it_is_given(tmp_path, monkeypatch):
    monkeypatch.setenv("LEAK", "1")
    setup("pwd > where; echo built $MARK ${LEAK:-none}", tmp_path, MARK="it")
    assert (tmp_path / "where").read_text().strip() == str(tmp_path)
    assert (tmp_path / "logs" / "setup.log").read_text() == "built it none\n"


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("echo first; echo no compiler >&2; exit 3", "exit code 3\nfirst\nno compiler"),
        ("kill -9 $$", "ended by signal 9\n(no output)"),
        ("printf 'bad \\377 byte\\n'; false", "exit code 1\nbad \ufffd byte"),
    ],
)
def test_a_failed_setup_shows_the_end_of_its_log_and_where_it_lies(tmp_path, command, message):
    with pytest.raises(BuildError) as caught:
        setup(command, tmp_path)
    assert str(caught.value) == f"--setup {command!r}: {message}"
    assert "by hand in a checkout of that commit" in caught.value.next_step


ROOT = Path(__file__).resolve().parents[2]
KILLED = """
import sys
from pathlib import Path
from perfguard.subject.build import run_setup
run_setup(sys.argv[1], Path.cwd(), log=Path("setup.log"), env={"PATH": sys.argv[2]}, timeout_s=60)
"""


def test_a_setup_dies_with_a_perfguard_that_is_killed(tmp_path):
    command = "sleep 603 & echo $! > part; mv part child; sleep 604"
    words = [sys.executable, "-c", KILLED, command, os.environ["PATH"]]
    with subprocess.Popen(words, cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(ROOT)}) as perfguard:
        until_s = time.monotonic() + 30
        while not (tmp_path / "child").exists() and time.monotonic() < until_s:
            time.sleep(0.01)
        perfguard.kill()
    assert not psutil.pid_exists(int((tmp_path / "child").read_text())) or wait_for_zombie(tmp_path)


def test_a_setup_gets_an_empty_input_and_the_usual_signals(tmp_path):
    setup("cat; grep SigIgn /proc/self/status", tmp_path)
    (line,) = (tmp_path / "logs" / "setup.log").read_text().splitlines()
    # Without 32 and 33, which the C library keeps for itself.
    assert int(line.removeprefix("SigIgn:"), 16) & (2**31 - 1) == 0


def test_a_setup_that_hangs_is_ended_with_its_children(tmp_path):
    with pytest.raises(BuildError, match=r"did not end within 0.5 s"):
        setup("sleep 601 & echo $! > child; wait", tmp_path, timeout_s=0.5)
    assert not psutil.pid_exists(int((tmp_path / "child").read_text())) or wait_for_zombie(tmp_path)


def wait_for_zombie(folder):
    """The orphan is reaped by init, a moment later."""
    pid = int((folder / "child").read_text())
    gone, _ = psutil.wait_procs([psutil.Process(pid)], timeout=5)
    return bool(gone)


def test_ctrl_c_during_setup_ends_it(tmp_path):
    def interrupt():
        while not (tmp_path / "child").exists():
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        setup("echo $$ > child; sleep 602", tmp_path)
    thread.join()
    assert not psutil.pid_exists(int((tmp_path / "child").read_text())) or wait_for_zombie(tmp_path)
