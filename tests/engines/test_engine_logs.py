"""What is said of an engine's log where it died: what went wrong first and its last words, in one line."""

from dataclasses import replace

import pytest
from engine_support import engine_project, sets

from runners.engines.lastwords import NOTHING, told
from runners.engines.server import Server, last_words

# As real ones were seen to write them.
VLLM = """\
(APIServer pid=3401) INFO 11-30 04:49:58 [utils.py:233] non-default args: {'model': 'm'}
(EngineCore pid=3443) ERROR 11-30 04:50:21 [core.py:1231] EngineCore failed to start.
(EngineCore pid=3443) ERROR 11-30 04:50:21 [core.py:1231] Traceback (most recent call last):
(EngineCore pid=3443) ERROR 11-30 04:50:21 [core.py:1231]   File "/v/core.py", line 1205, in run_engine_core
(EngineCore pid=3443) ERROR 11-30 04:50:21 [core.py:1231]     engine_core = EngineCoreProc(*args)
(EngineCore pid=3443) ERROR 11-30 04:50:21 [core.py:1231]                   ^^^^^^^^^^^^^^^^^^^^^
(EngineCore pid=3443) ERROR 11-30 04:50:21 [core.py:1231] FileNotFoundError: [Errno 2] No such file
(EngineCore pid=3443) Process EngineCore:
Traceback (most recent call last):
  File "/usr/lib/python3.11/runpy.py", line 198, in _run_module_as_main
RuntimeError: Engine core initialization failed. See root cause above.
(APIServer pid=3401) INFO 11-30 04:50:30 [launcher.py:9] Shutting down
"""
SGLANG = """\
[2026-11-30 04:50:21] server_args=ServerArgs(model_path='m')
[2026-11-30 04:50:22 TP0] Scheduler hit an exception: Traceback (most recent call last):
  File "/s/scheduler.py", line 1, in run_scheduler_process
    scheduler = Scheduler(server_args)
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB
[2026-11-30 04:50:22] Received sigquit from a child process. It usually means the child failed.
"""


@pytest.mark.parametrize(
    ("log", "words"),
    [
        (
            VLLM,
            "FileNotFoundError: [Errno 2] No such file … "
            "RuntimeError: Engine core initialization failed. See root cause above.",
        ),
        (SGLANG, "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB"),
        ("loading\nstandin: CUDA error: out of memory\nbye\n", "standin: CUDA error: out of memory"),
        ("loading\nready to go\n\n", "ready to go"),
        ("  indented only\n", NOTHING),
        ("", NOTHING),
    ],
)
def test_the_cause_and_the_last_words_are_one_line_without_a_traceback(log, words):
    assert told(log.splitlines()) == words


def test_a_line_without_end_is_cut():
    assert told(["ValueError: " + "x" * 5000]) == "ValueError: " + "x" * 288


def test_words_of_an_earlier_start_in_the_same_log_are_not_this_one_s(tmp_path):
    log = tmp_path / "log"
    log.write_text("ValueError: old\nKeyError: 'new'\n")
    server = Server(host="h", port=1, ask=lambda method, path: None, log=log, log_start=len("ValueError: old\n"))
    assert last_words(server) == "; its log: KeyError: 'new'"
    assert last_words(replace(server, log=None)) == ""


def test_a_server_that_dies_with_a_traceback_is_told_in_a_line_of_its_own_words(tmp_path):
    project = engine_project(tmp_path, "sglang", raise_at_start="no kernel image is available")
    project.write({"perfguard.toml": "[policy]\nmax_retries = 0\n"})
    done = project.run("run", "HEAD", "--trials", "1", "-w", "sglang", *sets(), code=4)
    said = " ".join((done.stdout + done.stderr).split())
    assert (
        "the engine ended with code 1 before it was ready; its log: RuntimeError: no kernel image is available" in said
    )
    assert "Traceback" not in said
    assert "File " not in said
