"""A fixed port that somebody else has: named at once, or waited for where he is ending."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest
from engine_support import engine_project, launch, sets

from runners.contract import ParamsError
from runners.engines import ports, processes
from runners.engines.control import Reply
from runners.engines.server import EngineError, Server, refuse_dead

HOLD = "import socket, time; s = socket.create_server(('127.0.0.1', {})); print(s.getsockname()[1], flush=True)"


@contextlib.contextmanager
def held(port=0, wait_s=600.0):
    """(process, port): listens, answers nobody, ends by itself after a while."""
    command = [sys.executable, "-c", f"{HOLD.format(port)}; time.sleep({wait_s})"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        yield process, int(process.stdout.readline())
    finally:
        process.kill()
        process.communicate()


@pytest.fixture
def short_waits(monkeypatch):
    monkeypatch.setattr(ports, "GRACE_S", 0.2)


def test_a_port_of_somebody_who_is_not_ending_is_refused_with_his_pid(short_waits):
    with held() as (process, port), pytest.raises(ParamsError) as raised:
        ports.wait_free(port)
    text = str(raised.value)
    assert f"port {port} is held by process {process.pid} ({sys.executable} -c import socket" in text
    assert "port = 0" in text
    assert "\n" not in text


def test_one_that_is_told_to_end_is_waited_for_beyond_the_grace(short_waits):
    """A stopped process follows SIGTERM when it goes on, as one that takes GPU memory down does when it is done."""
    with held() as (process, port):
        process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)  # or SIGTERM would come first
        process.send_signal(signal.SIGTERM)
        assert processes.is_ending(process.pid)
        later = threading.Timer(1.0, process.send_signal, [signal.SIGCONT])
        later.start()
        ports.wait_free(port)
        assert process.wait() == -signal.SIGTERM
        assert processes.is_ending(process.pid)


def test_a_port_is_refused_where_nobody_listens_and_nowhere_else():
    with held() as (_, port):
        assert not ports.is_refused("127.0.0.1", port)
    assert ports.is_refused("127.0.0.1", port)
    assert not ports.is_refused("a..b", port)  # no name of a host: nothing is known


def test_one_that_gives_back_its_memory_is_ending(monkeypatch):
    """The line as the kernel wrote it while half a gigabyte went back, in 40 ms, after _exit: no signal is pending."""
    line = "R 1 31693 31693 0 -1 4195340 350 0 0 0 2 9 0 0 20 0 1 0 5110"
    monkeypatch.setattr(processes, "_stat", lambda pid: line.split())
    assert processes.is_ending(os.getpid())


def test_who_runs_is_not_ending_and_is_known_by_his_user():
    assert not processes.is_ending(os.getpid())
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        assert processes.users_of(port) == {os.geteuid()}
        assert not ports.is_being_freed(port)
    assert processes.users_of(port) == set()


def test_a_predecessor_that_lets_go_within_the_grace_is_waited_for(tmp_path):
    with held(wait_s=1.0) as (_, port):
        result = launch(tmp_path, "sglang", {}, port=port)
    assert (result["status"], result["reasons"], result["engine"]["load"]["port"]) == ("ok", [], port)


def test_a_port_that_is_taken_while_the_server_starts_is_found_out_before_it_is_missed(tmp_path):
    """The server would not listen for half a minute, and whoever has its port answers nobody."""
    port = processes.free_port("127.0.0.1")
    pids = tmp_path / "pids"
    found = []
    taking = threading.Thread(target=take, args=(port, pids, found))
    taking.start()
    result = launch(tmp_path, "sglang", {"start_s": 30.0, "pids": str(pids)}, port=port, stop_grace_s=0.2)
    taking.join()
    assert result["error"].startswith(f"usage: params: port {port} is held by process {found[0]} ")


@pytest.mark.parametrize(("said", "is_named"), [("[Errno 98] address already in use", True), ("out of memory", False)])
def test_a_server_that_ends_over_its_port_is_told_with_who_has_it(tmp_path, said, is_named):
    """Taken between the look at it and the server's own attempt."""
    log = tmp_path / "log"
    log.write_text(f"OSError: {said}\n")
    with held() as (process, port), subprocess.Popen(["false"]) as ended:
        ended.wait()
        server = Server(host="127.0.0.1", port=port, ask=lambda *_: Reply(status=0), process=ended, log=log)
        with pytest.raises(EngineError) as raised:
            refuse_dead(server)
    assert str(raised.value).startswith("the engine ended with code 1 before it was ready")
    assert str(raised.value).endswith(f"; its log: OSError: {said}")
    assert (f"port {port} is held by process {process.pid}" in str(raised.value)) == is_named


def take(port, pids, found):
    """Once the server has begun; until it is gone."""
    while not pids.exists():
        time.sleep(0.02)
    with held(port=port) as (process, _):
        found.append(process.pid)
        while os.path.exists(f"/proc/{pids.read_text().split()[0]}"):
            time.sleep(0.05)


def test_a_taken_port_ends_a_comparison_as_wrong_usage_with_one_line(tmp_path, here):
    project = engine_project(tmp_path, "vllm", pids=str(tmp_path / "pids"))
    with held() as (process, port):
        done = here(project, "compare", "HEAD", "HEAD", "-w", "vllm", *sets(port=port), code=2)
    assert f"params: port {port} is held by process {process.pid}" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "pids").exists()
