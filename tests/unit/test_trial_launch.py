"""Launching under the warden: real processes, real signals. Nothing of ours may stay, nothing of others may go."""

import ast
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest

from perfguard.errors import HarnessError
from perfguard.trial import launch as launching
from perfguard.trial.launch import Launch, Process, describe_exit, run_launch, tail

# A grandchild in a session of its own, with another parent after its own has ended; it ignores the polite signal.
DAEMON = """
import os, signal, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork():
        os._exit(0)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    open(sys.argv[1] + ".part", "w").write(str(os.getpid()))
    os.rename(sys.argv[1] + ".part", sys.argv[1])
    time.sleep(600)
os.wait()
"""
WAIT = "\nimport time; time.sleep(600)"


def process(folder, *argv, name="p", **env):
    log = str(folder / f"{name}.log")
    return Process(argv=argv, env={"PATH": os.environ["PATH"]} | env, cwd=str(folder), stdout=log)


def python(folder, code, *arguments, name="p", **env):
    return process(folder, sys.executable, "-c", code, *arguments, name=name, **env)


def launch(*processes, **options):
    quick = {"timeout_s": 20.0, "fail_grace_s": 0.1, "term_grace_s": 0.2, "kill_wait_s": 5.0}
    return run_launch(Launch(processes=processes, **(quick | options)))


def wait_for_pid(path):
    while not path.exists():
        time.sleep(0.005)
    return psutil.Process(int(path.read_text()))


def is_gone(process):
    gone, _ = psutil.wait_procs([process], timeout=5)
    return bool(gone)


def test_a_launch_that_ends_well_has_its_codes_and_times(tmp_path):
    before = time.perf_counter()
    launched = launch(process(tmp_path, "sleep", "0.2"), process(tmp_path, "sleep", "0.3", name="q"))
    took = time.perf_counter() - before
    assert (launched.status, launched.returncodes, launched.before_ready) == ("ok", (0, 0), False)
    assert launched.wall_s[0] >= 0.2
    assert 0.3 <= launched.wall_s[1] <= launched.measured_s <= took
    assert (launched.num_leftover, launched.unkillable, launched.log_tail) == (0, (), "")


def test_a_process_gets_exactly_its_environment_folder_and_streams(tmp_path):
    (tmp_path / "here").mkdir()
    code = (
        "import os, sys; print(sorted(os.environ), os.getcwd(), repr(sys.stdin.read()))\nprint('err', file=sys.stderr)"
    )
    job = Process(
        argv=(sys.executable, "-c", code),
        env={"A": "\udcff é", "LC_ALL": "C.UTF-8"},
        cwd=str(tmp_path / "here"),
        stdout=str(tmp_path / "out"),
        stderr=str(tmp_path / "err"),
    )
    assert launch(job, owner="token").status == "ok"
    assert (tmp_path / "out").read_text() == f"['A', 'LC_ALL', 'PERFGUARD_OWNER'] {tmp_path}/here ''\n"
    assert (tmp_path / "err").read_text() == "err\n"


def test_each_process_leads_a_session_and_has_the_usual_signals(tmp_path):
    code = (
        "import os, signal; usual = (signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD)\n"
        "print(os.getsid(0) == os.getpid(), {signal.getsignal(s) for s in usual} == {signal.SIG_DFL})"
    )
    launch(python(tmp_path, code))
    assert (tmp_path / "p.log").read_text() == "True True\n"


@pytest.mark.parametrize(
    ("argv", "code", "log"),
    [
        (("false",), 1, ""),
        (("sh", "-c", "echo last words; kill -SEGV $$"), -11, "last words"),
        (("no-such-program",), 127, "cannot start 'no-such-program': No such file or directory"),
        (("/",), 126, "cannot start '/': Permission denied"),
    ],
)
def test_a_process_that_fails_is_crashed_with_the_end_of_its_log(tmp_path, argv, code, log):
    launched = launch(process(tmp_path, *argv))
    assert (launched.status, launched.returncodes, launched.log_tail) == ("crashed", (code,), log)


def test_when_one_rank_fails_the_others_are_ended_after_a_grace(tmp_path):
    hang = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True)" + WAIT
    log = str(tmp_path / "a.log")
    wait = f"import os, time\nwhile not os.path.getsize({log!r}): time.sleep(0.005)\nraise SystemExit(3)"
    launched = launch(python(tmp_path, hang, name="a"), python(tmp_path, wait, name="b"))
    assert (launched.status, launched.returncodes) == ("crashed", (-signal.SIGKILL, 3))
    assert "process 0: up" in launched.log_tail


def test_a_hang_is_timed_out_within_its_limit_with_the_stacks_of_every_thread(tmp_path):
    code = (
        "import faulthandler, signal, sys, time; faulthandler.register(signal.SIGURG, all_threads=True)\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "def stuck_in_a_collective(): time.sleep(600)\n"
        "open(sys.argv[1], 'w').close(); stuck_in_a_collective()"
    )
    ready = tmp_path / "ready"
    limits = {"ready_timeout_s": 20.0, "timeout_s": 0.2}
    launched = launch(python(tmp_path, code, str(ready)), ready=(str(ready),), answers_stacks=True, **limits)
    assert (launched.status, launched.before_ready, launched.returncodes) == ("timed_out", False, (-signal.SIGKILL,))
    assert "in stuck_in_a_collective" in launched.log_tail
    assert launched.measured_s >= 0.2


def test_a_process_that_does_not_know_about_stacks_is_not_asked_for_them(tmp_path):
    code = "import signal\nsignal.signal(signal.SIGURG, lambda *_: print('asked', flush=True))"
    launched = launch(python(tmp_path, code + WAIT), timeout_s=0.4)
    assert (launched.status, launched.returncodes, launched.log_tail) == ("timed_out", (-signal.SIGTERM,), "")


def test_the_measured_limit_begins_when_every_rank_is_ready(tmp_path):
    ready = [tmp_path / "ready-0", tmp_path / "ready-1"]
    processes = [
        process(tmp_path, "sh", "-c", f"sleep {pause}; touch {path}; sleep 0.1", name=path.name)
        for pause, path in zip((0.1, 0.8), ready, strict=True)
    ]
    launched = launch(*processes, ready=tuple(map(str, ready)), ready_timeout_s=20.0, timeout_s=0.7)
    assert launched.status == "ok"
    assert launched.ready_s >= 0.8
    assert launched.measured_s < launched.wall_s[1]


def test_a_load_that_never_ends_is_timed_out_before_ready(tmp_path):
    launched = launch(
        process(tmp_path, "sleep", "600"), ready=(str(tmp_path / "never"),), ready_timeout_s=0.2, timeout_s=20.0
    )
    assert (launched.status, launched.before_ready, launched.ready_s) == ("timed_out", True, None)
    assert launched.measured_s == 0.0


@pytest.mark.parametrize(("touches", "before_ready"), [(False, True), (True, False)])
def test_a_crash_says_whether_it_came_before_ready(tmp_path, touches, before_ready):
    ready = tmp_path / "ready"
    job = process(tmp_path, "sh", "-c", f"{'touch' if touches else 'echo'} {ready}; exit 1")
    launched = launch(job, ready=(str(ready),), ready_timeout_s=20.0)
    assert (launched.status, launched.before_ready) == ("crashed", before_ready)


def test_what_a_command_leaves_behind_is_ended_though_it_changed_session_and_parent(tmp_path):
    launched = launch(python(tmp_path, DAEMON, str(tmp_path / "pid")))
    assert (launched.status, launched.num_leftover, launched.unkillable) == ("ok", 1, ())
    assert not psutil.pid_exists(int((tmp_path / "pid").read_text()))


def test_a_helper_that_follows_its_parent_at_once_is_not_called_left_over(tmp_path):
    launched = launch(process(tmp_path, "sh", "-c", "sleep 0.02 & exit 0"))
    assert launched.num_leftover == 0


def test_a_process_that_goes_on_forking_is_ended(tmp_path):
    code = (
        "import os, signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        f"open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid()))\n"
        "while True:\n    os.fork() and (time.sleep(0.03), os._exit(0)); os.setsid()"
    )
    launched = launch(python(tmp_path, code), timeout_s=0.3, fail_grace_s=20.0)
    assert launched.unkillable == ()
    alive = [p.info["cmdline"] or [] for p in psutil.process_iter(["cmdline"]) if p.pid != os.getpid()]
    assert not any(str(tmp_path) in " ".join(words) for words in alive)


def test_a_child_whose_parent_ends_first_is_asked_politely_too(tmp_path):
    polite = tmp_path / "polite"
    code = (
        "import os, signal, sys, time\n"
        f"signal.signal(signal.SIGTERM, lambda *_: (open({str(polite)!r}, 'w').close(), os._exit(0)))\n"
        f"open({str(tmp_path / 'ready')!r}, 'w').close(); time.sleep(600)"
    )
    job = process(tmp_path, "sh", "-c", '"$@" & wait', "sh", sys.executable, "-c", code)
    launch(job, ready=(str(tmp_path / "ready"),), ready_timeout_s=20.0, timeout_s=0.1, term_grace_s=10.0)
    assert polite.exists()


def test_a_bystander_with_the_same_command_line_survives(tmp_path):
    bystander = subprocess.Popen(["sleep", "600"])
    try:
        assert launch(process(tmp_path, "sleep", "600"), timeout_s=0.2).status == "timed_out"
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


STAND_IN = """
import sys
sys.path.insert(0, {root!r})
from perfguard.trial.launch import Launch, Process, run_launch
job = Process(argv={argv!r}, env={{}}, cwd="/", stdout={log!r})
run_launch(Launch(processes=(job,), timeout_s=600, term_grace_s=0.1))
"""


def start_stand_in(tmp_path):
    """A perfguard that measures something with a daemon; returns it with the command and the daemon."""
    code = "import os, sys; open(sys.argv[1] + '.own', 'w').write(str(os.getpid()))" + DAEMON + WAIT
    argv = (sys.executable, "-c", code, str(tmp_path / "pid"))
    root = str(Path(launching.__file__).parents[2])
    script = STAND_IN.format(root=root, argv=argv, log=str(tmp_path / "log"))
    parent = subprocess.Popen([sys.executable, "-c", script], stderr=subprocess.PIPE)
    daemon = wait_for_pid(tmp_path / "pid")
    return parent, wait_for_pid(tmp_path / "pid.own"), daemon


def test_kill_9_of_perfguard_leaves_no_process(tmp_path):
    parent, own, daemon = start_stand_in(tmp_path)
    parent.kill()
    parent.wait()
    parent.stderr.close()
    assert is_gone(own)
    assert is_gone(daemon)


def test_kill_9_of_the_warden_takes_the_started_processes_along_and_is_said(tmp_path):
    parent, own, daemon = start_stand_in(tmp_path)
    (warden,) = psutil.Process(parent.pid).children()
    warden.kill()
    assert is_gone(own)
    assert b"the supervisor of a trial ended with code -9" in parent.stderr.read()
    parent.wait()
    parent.stderr.close()
    daemon.kill()  # the sweep of leftovers finds it by its mark


def test_ctrl_c_ends_everything_and_goes_on(tmp_path):
    def interrupt():
        wait_for_pid(tmp_path / "pid")
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        launch(python(tmp_path, DAEMON + WAIT, str(tmp_path / "pid")))
    thread.join()
    assert not psutil.pid_exists(int((tmp_path / "pid").read_text()))


def test_a_warden_that_cannot_start_is_a_failure_of_the_harness(tmp_path, monkeypatch):
    monkeypatch.setattr(launching, "WARDEN", tmp_path / "missing.py")
    with pytest.raises(HarnessError, match="supervisor"):
        launch(process(tmp_path, "true"))


def test_the_warden_needs_the_standard_library_only_and_nothing_of_perfguard():
    tree = ast.parse(launching.WARDEN.read_text())
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    assert names <= sys.stdlib_module_names
    assert not any(isinstance(n, ast.ImportFrom) and n.module.startswith("perfguard") for n in ast.walk(tree))


def test_the_end_of_a_log_is_short_and_survives_any_bytes(tmp_path):
    log = tmp_path / "log"
    log.write_bytes(b"".join(b"line %d\n" % number for number in range(10_000)) + b"bad \xff end")
    lines = tail(log).splitlines()
    assert (len(lines), lines[0], lines[-1]) == (40, "line 9961", "bad \ufffd end")
    assert tail(tmp_path / "missing") == ""


def test_exits_are_told_in_words():
    assert [describe_exit(code) for code in (3, -9, -80, None)] == [
        "ended with exit code 3",
        "was ended by SIGKILL",
        "was ended by signal 80",
        "could not be waited for",
    ]
