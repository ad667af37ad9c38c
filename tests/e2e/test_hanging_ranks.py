"""A collective that one rank never joins: the trial ends by its limit, and the log tells where each rank stood."""

import sys

import pytest
from two_ranks import left_over, run_hanging

from perfguard.trial.launch import Launch, Process, run_launch
from runners.__main__ import STACKS

# Compiled for a card that need not be there.
COMPILES = """
import faulthandler, sys, time
faulthandler.register(int(sys.argv[1]))
import triton, triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
@triton.jit
def double(x, n: tl.constexpr):
    at = x + tl.arange(0, n)
    tl.store(at, 2 * tl.load(at))
source = ASTSource(fn=double, signature={"x": "*fp32"}, constexprs={"n": 128})
triton.compile(source, target=GPUTarget("cuda", 90, 32))
open(sys.argv[2], "w").close()
def stuck(): time.sleep(600)
stuck()
"""


def test_a_hanging_collective_is_ended_by_its_limit_with_the_stacks_of_both_ranks(tmp_path):
    owner = f"hang-{tmp_path.name}"
    trial, logs = run_hanging(tmp_path, "parallel.py", "dist.all_reduce(x)", owner=owner, limit_s=2.0, prompts=1)
    (reason,) = trial.reasons
    print(reason.text)
    assert (trial.status, reason.code, trial.record["before_ready"]) == ("timed_out", "timed_out", False)
    assert trial.measured_s >= 2.0
    for log in logs:
        assert "Current thread" in log
        assert "tp_moe_decode.py" in log
        assert "in all_reduce" in log
    assert "distributed_c10d.py" in logs[0]  # waits for the other
    assert "distributed_c10d.py" not in logs[1]  # sleeps before it calls
    assert left_over(owner) == []


def test_a_process_that_has_compiled_kernels_still_tells_where_it_stands(tmp_path):
    pytest.importorskip("triton", exc_type=ImportError)
    script, ready, log = tmp_path / "compiles.py", str(tmp_path / "ready"), str(tmp_path / "log")
    script.write_text(COMPILES)
    command = (sys.executable, str(script), str(int(STACKS)), ready)
    environment = {"TRITON_CACHE_DIR": str(tmp_path / "kernels"), "HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    one = Process(argv=command, env=environment, cwd=str(tmp_path), stdout=log)
    launched = run_launch(
        Launch(processes=(one,), ready=(ready,), ready_timeout_s=60.0, timeout_s=0.2, answers_stacks=True)
    )
    said = (tmp_path / "log").read_text()
    assert (launched.status, launched.before_ready) == ("timed_out", False), said
    assert "in stuck" in said
