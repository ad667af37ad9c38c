"""Two ranks on two GPUs."""

import pytest
import torch
from two_ranks import left_over, run_hanging

pytestmark = pytest.mark.gpu

@pytest.fixture(scope="module", autouse=True)
def two_devices():
    if torch.cuda.device_count() < 2:
        pytest.skip(f"needs 2 CUDA devices, {torch.cuda.device_count()} visible")


def test_a_hang_inside_a_captured_all_reduce_is_ended_by_its_limit_with_the_stacks_of_both_ranks(tmp_path):
    owner = f"hang-{tmp_path.name}"
    trial, logs = run_hanging(
        tmp_path, "graphs.py", "graph.replay()", owner=owner, limit_s=10.0, device="cuda", prompts=1, tokens=16
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
