"""A collective that one rank never joins: the trial ends by its limit, and the log tells where each rank stood."""

from two_ranks import left_over, run_hanging


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
