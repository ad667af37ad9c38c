"""What engines say of themselves, through a launch and through a whole comparison: stand-ins as real processes."""

import pytest
from engine_support import OF_BUSY_MACHINES, compared, engine_project, launch, plan, sets

from perfguard.store import open_store

ARGUMENTS = {"attention_backend": "fa3", "disable_cuda_graph": False, "device": "cuda", "page_size": 1}


def test_a_launch_records_arguments_workers_and_what_was_asked_for(tmp_path):
    result = launch(tmp_path, "sglang", {"arguments": ARGUMENTS}, args="--page-size 16")
    engine = result["engine"]["load"]
    assert engine["args"]["attention_backend"] == "fa3"
    assert engine["args"]["page_size"] == "16"
    assert engine["asked"]["page_size"] == "16"
    assert engine["args_origin"] == "server_info"
    assert engine["workers"][0]["environment"]["PYTHONUNBUFFERED"] == "1"
    assert "port" not in engine["args"]


def kernels(all_reduce_us):
    names = {"ncclDevKernel_AllReduce": all_reduce_us, "fused_moe_kernel": 4000}
    return [{"ph": "X", "cat": "kernel", "name": n, "ts": 0, "dur": us, "pid": 0} for n, us in names.items()]


def test_a_report_begins_with_what_versions_resolved_differently_and_holds_traces_side_by_side(tmp_path):
    head = {**ARGUMENTS, "attention_backend": "flashinfer", "disable_cuda_graph": True}
    project = engine_project(tmp_path, "sglang", arguments=ARGUMENTS, trace=kernels(2000))
    project.commit(plan(arguments=head, trace=kernels(6000)))
    options = ("--trace", "--no-confirm", "--max-blocks", "2")
    comparison = compared(project, "-w", "sglang", *options, *sets(tokens=24))
    lines = comparison["engine"]["lines"]
    assert "decode of head ran without CUDA graphs (eager), full ones expected" in lines[0]
    assert "attention_backend fa3 → flashinfer" in lines[0]
    assert comparison["engine"]["sides"]["head"]["load"]["attention_backend"] == "flashinfer"
    # 20 cycles: 2000 us are 0.1 ms a cycle.
    assert lines[-1].startswith("traced cycles, ms a cycle, base/head: ")
    assert "all-reduce 0.1/0.3" in lines[-1]
    assert "moe 0.2/0.2" in lines[-1]


@pytest.mark.parametrize(
    ("script", "shown"), [({"trace": kernels(2000)}, ["seconds", "seconds"]), ({}, ["error", None])]
)
def test_measured_launches_are_traced_if_the_first_run_was(tmp_path, script, shown):
    """Each would wait for a trace that does not come."""
    project = engine_project(tmp_path, "sglang", **script)
    for _ in range(3):  # void only because the machine is busy with other tests, a launch has no trace either
        asked = ("--trials", "1", "-w", "sglang", *sets(tokens=24, trace=True))
        project.run("run", "HEAD", *asked, code=(0, 4))
        with open_store(project.db, read_only=True) as store:
            (campaign,) = store.campaigns(1)
            trials = store.trials(campaign.id)
        if OF_BUSY_MACHINES.isdisjoint(reason.code for trial in trials for reason in trial.reasons):
            break
    traces = [trial.record["engine"]["load"].get("trace") for trial in trials]
    assert [trace and next(name for name in ("seconds", "error") if name in trace) for trace in traces] == shown


def test_an_engine_without_a_profiler_costs_no_trial(tmp_path):
    result = launch(tmp_path, "sglang", {}, trace=True, tokens=24)
    assert result["engine"]["load"]["trace"] == {"error": "/start_profile answered 404: Not Found"}
    assert result["status"] == "ok"
