"""What engines say of themselves, through a launch and through a whole comparison: stand-ins as real processes."""

from engine_support import engine_project, launch, plan, sets

ARGUMENTS = {"attention_backend": "fa3", "disable_cuda_graph": False, "device": "cuda", "page_size": 1}


def two_versions(folder, base, head):
    project = engine_project(folder, "sglang", arguments=base)
    project.commit(plan(arguments=head))
    return project


def test_a_launch_records_arguments_workers_and_what_was_asked_for(tmp_path):
    result = launch(tmp_path, "sglang", {"arguments": ARGUMENTS}, args="--page-size 16")
    engine = result["engine"]["load"]
    assert engine["args"]["attention_backend"] == "fa3"
    assert engine["args"]["page_size"] == "16"
    assert engine["asked"]["page_size"] == "16"
    assert engine["args_origin"] == "server_info"
    assert engine["workers"][0]["environment"]["PYTHONUNBUFFERED"] == "1"
    assert "port" not in engine["args"]


def test_the_first_line_of_a_report_between_versions_is_what_they_resolved_differently(tmp_path):
    head = {**ARGUMENTS, "attention_backend": "flashinfer", "disable_cuda_graph": True}
    project = two_versions(tmp_path, ARGUMENTS, head)
    comparison = project.compare("-w", "sglang", "--no-confirm", "--max-blocks", "2", *sets(), code=(0, 1, 3, 4))
    first = comparison["engine"]["lines"][0]
    assert "decode of head ran without CUDA graphs (eager), full ones expected" in first
    assert "attention_backend fa3 → flashinfer" in first
    assert comparison["engine"]["sides"]["head"]["load"]["attention_backend"] == "flashinfer"


def kernels(all_reduce_us):
    names = {"ncclDevKernel_AllReduce": all_reduce_us, "fused_moe_kernel": 4000}
    return [{"ph": "X", "cat": "kernel", "name": n, "ts": 0, "dur": us, "pid": 0} for n, us in names.items()]


def test_a_trace_of_the_first_runs_stands_side_by_side_in_the_report(tmp_path):
    project = engine_project(tmp_path, "sglang", trace=kernels(2000))
    project.commit(plan(trace=kernels(6000)))
    options = ("--trace", "--no-confirm", "--max-blocks", "2")
    comparison = project.compare("-w", "sglang", *options, *sets(), code=(0, 1, 3, 4))
    # 20 cycles: 2000 us are 0.1 ms a cycle.
    line = comparison["engine"]["lines"][-1]
    assert line.startswith("traced cycles, ms a cycle, base/head: ")
    assert "all-reduce 0.1/0.3" in line
    assert "moe 0.2/0.2" in line


def test_an_engine_without_a_profiler_costs_no_trial(tmp_path):
    result = launch(tmp_path, "sglang", {}, trace=True)
    assert result["engine"]["load"]["trace"] == {"error": "/start_profile answered 404: Not Found"}
    assert result["status"] == "ok"
