"""Does a server sleep? What is made of its own word and of the memory of the GPUs, and of a process that is gone."""

import os
import subprocess
import sys

import pytest

from runners.engines import processes
from runners.engines.known import dialect_of
from runners.engines.params import read_params
from runners.engines.residence import Home, Stay, refuse_end, server_at, stay_of
from runners.engines.running import able_to_sleep, starting
from runners.engines.server import EngineError, exit_code, pids
from runners.engines.sleeping import gpu_bytes, thought_awake

MIB = 2**20


@pytest.mark.parametrize(
    ("told", "before", "awake", "asleep", "why"),
    [
        (True, None, None, None, ""),
        (False, 100, 1100, 150, "it says that it is awake"),
        (True, 100, 1100, 1100, "it gave back 0 of 1000 MiB on the GPUs"),
        (None, 100, 1100, 150, ""),
        (None, 100, 1100, 601, "it gave back 499 of 1000 MiB on the GPUs"),
        (None, 100, 1100, 600, ""),  # half is enough
        (None, 100, 1100, 1200, "it gave back 0 of 1000 MiB on the GPUs"),
        (None, None, None, None, "nothing tells that it sleeps: it has no words for it and there is no nvidia-smi"),
        (None, 100, 100, 100, "nothing tells that it sleeps: it took no memory of a GPU that can be seen"),
        (True, 100, 100, 100, ""),
    ],
)
def test_a_sleep_is_believed_only_where_something_shows_it(told, before, awake, asleep, why):
    seen = [None if mib is None else mib * MIB for mib in (before, awake, asleep)]
    assert thought_awake(told, *seen) == why


@pytest.mark.parametrize(("said", "found"), [("echo 10; echo 5", 15 * MIB), ("echo '[N/A]'", None), ("exit 9", None)])
def test_memory_in_use_is_that_of_all_gpus_and_unknown_where_no_number_is_said(tmp_path, monkeypatch, said, found):
    smi = tmp_path / "nvidia-smi"
    smi.write_text(f"#!/bin/sh\n{said}\n")
    smi.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert gpu_bytes() == found
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    assert gpu_bytes() is None


def test_servers_are_started_with_what_sleeping_takes():
    def start(engine):
        given = read_params({"engine": engine, "model": "m"})
        dialect = dialect_of(engine)
        return able_to_sleep(starting(given, dialect, "", python="py", port=4000), dialect)

    assert start("vllm").argv[-1] == "--enable-sleep-mode"
    assert start("vllm").env == {"VLLM_SERVER_DEV_MODE": "1"}
    assert start("sglang").argv[-1] == "--enable-memory-saver"
    with pytest.raises(ValueError, match="transformers cannot be put to sleep"):
        start("transformers")


def test_a_resident_whose_process_is_gone_or_another_by_now_counts_as_ended():
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    home = {"host": "127.0.0.1", "port": 1, "pid": child.pid, "log": "", "log_start": 0}
    started = processes.started_at(child.pid)
    alive = server_at(Home(**home, started=started))
    assert (exit_code(alive), pids(alive), alive.is_ours) == (None, [child.pid], True)
    assert exit_code(server_at(Home(**home, started=started + 1))) is not None  # the number was used again
    child.kill()
    child.wait()
    assert exit_code(alive) is not None
    gone = server_at(Home(**home, started=started))
    assert (exit_code(gone) is not None, gone.is_ours) == (True, True)


def test_what_the_harness_says_of_a_resident_is_no_parameter_of_the_engine(tmp_path):
    file = tmp_path / "base-0.json"
    stay, left = stay_of({"model": "m", "residence": str(file), "keeps": True})
    assert (stay, left) == (Stay(file=file, keeps=True), {"model": "m"})
    assert stay_of({"model": "m"}) == (None, {"model": "m"})
    refuse_end(stay)
    stay.end.touch()
    with pytest.raises(EngineError, match="not wanted any more"):
        refuse_end(stay)
    refuse_end(Stay(file=file, keeps=False))
