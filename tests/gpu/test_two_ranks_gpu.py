"""Two ranks on two GPUs: a hang inside a captured all-reduce, one kind of all-reduce against the other, and probes."""

import json
import os
import subprocess
import sys

import pytest
import torch
from two_ranks import NO_MULTICAST, ROOT, left_over, run_hanging, run_two

pytestmark = pytest.mark.gpu

# What a rank does to get memory that all ranks can read, and one sum through it.
SYMMETRIC = """
import os, torch
from model.parallel import join_group, leave_group, pick_device, read_group
group = join_group(pick_device("cuda", read_group(os.environ)), "symm_mem")
x = torch.full((8,), float(group.rank + 1), device="cuda")
group.all_reduce(x)
torch.cuda.synchronize()
assert x.tolist() == [3.0] * 8, x.tolist()
leave_group(group)
"""


@pytest.fixture(scope="module", autouse=True)
def two_devices():
    if torch.cuda.device_count() < 2:
        pytest.skip(f"needs 2 CUDA devices, {torch.cuda.device_count()} visible")


@pytest.fixture(scope="module")
def symmetric(tmp_path_factory):
    """Skips, with the reason that the library gives, where ranks cannot share memory."""
    script = tmp_path_factory.mktemp("symmetric") / "ask.py"
    script.write_text(SYMMETRIC)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", str(script)]
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = os.environ | NO_MULTICAST | {"PYTHONPATH": path}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    if done.returncode:
        errors = [line for line in done.stderr.splitlines() if "Error" in line and "ChildFailedError" not in line]
        said = errors[-1] if errors else done.stderr[-500:]
        assert "AssertionError" not in said, said  # available, and wrong
        pytest.skip(f"no symmetric memory here: {said.strip()}")


@pytest.fixture(scope="module")
def caches(tmp_path_factory):
    """Kernels are compiled once for all trials here."""
    return tmp_path_factory.mktemp("caches")


@pytest.fixture(scope="module")
def trials(tmp_path_factory, caches):
    """trials(all_reduce): a trial of both modes, run once."""
    known = {}

    def run(all_reduce):
        if all_reduce not in known:
            folder = tmp_path_factory.mktemp(all_reduce)
            limits = {"timeout_s": 60.0, "ready_timeout_s": 180.0}
            known[all_reduce] = run_two(
                folder, limits=limits, caches=caches, device="cuda", all_reduce=all_reduce, prompts=4, tokens=48
            )
        trial = known[all_reduce]
        assert (trial.status, [reason.text for reason in trial.reasons]) == ("ok", [])
        return trial

    return run


def test_a_hang_inside_a_captured_all_reduce_is_ended_by_its_limit_with_the_stacks_of_both_ranks(tmp_path, caches):
    owner = f"hang-{tmp_path.name}"
    trial, logs = run_hanging(
        tmp_path, "graphs.py", "graph.replay()", owner=owner, limit_s=10.0, caches=caches, device="cuda", prompts=1,
        tokens=16,
    )
    (reason,) = trial.reasons
    print(reason.text, trial.record.get("num_leftover"), trial.record.get("unkillable"), sep="\n")
    assert (trial.status, reason.code, trial.record["before_ready"]) == ("timed_out", "timed_out", False)
    assert trial.measured_s >= 10.0
    for log in logs:
        assert "Current thread" in log or "Thread 0x" in log
        assert "tp_moe_decode.py" in log
    assert "graphs.py" in logs[1]  # sleeps before its replay
    assert "graphs.py" not in logs[0]  # has replayed, and waits for what the device computes
    assert left_over(owner) == []


def test_memory_that_all_ranks_read_gives_the_tokens_of_nccl(trials, symmetric):
    nccl, shared = trials("nccl"), trials("symm_mem")
    said = [trial.record["versions"]["session"]["spec"]["all_reduce"] for trial in (nccl, shared)]
    assert said == ["nccl", "symm_mem"]
    assert nccl.digests == shared.digests
    assert set(nccl.digests) == {"plain", "eagle3"}
    for trial in (nccl, shared):
        assert trial.record["counts"]["eagle3"]["equals_plain"]


@pytest.mark.parametrize("all_reduce", ["nccl", "symm_mem"])
def test_all_reduces_are_probed_before_and_after_at_the_sizes_of_a_step_and_of_a_verify_pass(
    trials, all_reduce, request
):
    if all_reduce == "symm_mem":
        request.getfixturevalue("symmetric")
    trial = trials(all_reduce)
    hidden = trial.record["versions"]["session"]["target"]["hidden_size"]
    for mode in ("plain", "eagle3"):
        marks = trial.record["counts"][mode]["marks"]
        assert len(marks["probes"]) == 2
        print(all_reduce, json.dumps(marks["probes"]), marks["all_reduce_s"], marks["wall_s"])
        for probe in marks["probes"]:
            # bf16, one row and four; a sum of two ranks takes longer than a microsecond and less than 10 ms
            # unless something is wrong with the link.
            assert set(probe["all_reduce_s"]) == {str(2 * hidden), str(8 * hidden)}
            assert all(1e-6 < seconds < 1e-2 for seconds in probe["all_reduce_s"].values())
            assert probe["copy_bytes_per_s"] > 1e11
        assert 0 < marks["all_reduce_s"] < marks["wall_s"]


def test_multicast_stays_off_in_ranks_that_the_harness_starts(trials):
    # Had one rank not seen what was asked for, the trial would not be valid.
    environment = trials("nccl").record["environment"]
    assert {name: environment.get(name) for name in NO_MULTICAST} == NO_MULTICAST
