"""Some cycles under an engine's own profiler: how many were profiled, and what is refused as too short."""

import json
from pathlib import Path

import pytest
from client_cases import a_load, an_answer, exchange_of
from engine_support import engine_project, launch, sets

from runners.contract import ParamsError
from runners.engines import profile
from runners.engines.dialect import Start
from runners.engines.measuring import Sent, observe
from runners.engines.openai import OPENAI
from runners.engines.params import read_params
from runners.engines.profile import CYCLES, num_needed, profiled_start, too_short
from runners.engines.sglang import SGLANG
from runners.engines.traces import num_steps
from runners.engines.vllm import VLLM

NGRAM = '--speculative-config \'{"method": "ngram", "num_speculative_tokens": 3}\''
KERNEL = {"ph": "X", "cat": "kernel", "name": "fused_moe_kernel", "ts": 0, "dur": 3000, "pid": 0}


def seen(*answers):
    sent = Sent(exchanges=[exchange_of() for _ in answers], late={}, client=None, scheduler="ordinary")
    return observe(answers, sent, a_load(num_requests=len(answers)))


def test_vllm_is_started_with_the_number_of_cycles_whatever_its_folder_is_called():
    start = profiled_start(Start(argv=("serve",)), VLLM, Path("/it's here/a b"), concurrency=4)
    assert start.argv[:2] == ("serve", "--profiler-config")
    config = json.loads(start.argv[2])
    assert (config["torch_profiler_dir"], config["max_iterations"]) == ("/it's here/a b", 20)
    assert config["delay_iterations"] == 5  # four prefills and one step more
    assert profiled_start(Start(argv=("serve",)), SGLANG, Path("/x"), concurrency=4) == Start(argv=("serve",))
    assert profiled_start(Start(argv=("serve",)), OPENAI, Path("/x"), concurrency=4) == Start(argv=("serve",))


@pytest.mark.parametrize(("num", "is_short"), [(22, True), (23, False)])
def test_a_load_whose_longest_answer_shows_too_few_steps_is_refused(num, is_short):
    """One prefill and one step are left out, 20 are profiled, one more shows that they are over: 23."""
    assert num_needed(1) == 23
    assert bool(too_short(seen(an_answer(num=2), an_answer(num=num)), 1)) == is_short


def test_steps_that_the_engine_marks_are_counted_and_others_are_not():
    def mark(name, pid=1, cat="user_annotation"):
        return {"ph": "X", "cat": cat, "name": name, "ts": 0, "dur": 5, "pid": pid}

    vllm = [mark("execute_context_0(0)_generation_1(1)"), mark("execute_new_0_cached_1"), mark("gpu_model_runner: x")]
    assert (
        num_steps({"traceEvents": [*vllm, mark("execute_context_0(0)_generation_1(1)", cat="gpu_user_annotation")]})
        == 2
    )
    assert num_steps({"traceEvents": [*vllm, mark("execute_new_0_cached_1", pid=2)]}) == 2  # another rank's
    assert num_steps({"traceEvents": [mark("step[DECODE bs=1]"), mark("step[TARGET_VERIFY bs=1]")]}) == 0
    assert num_steps({"traceEvents": [mark("decode")]}) == 0
    assert num_steps([]) == 0


def test_a_trace_of_vllm_is_divided_by_the_cycles_that_it_holds(tmp_path):
    result = launch(tmp_path, "vllm", {"trace": [KERNEL]}, trace=True, tokens=40)
    trace = result["engine"]["load"]["trace"]
    assert (trace["cycles"], trace["seconds"]["moe_s"]) == (CYCLES, pytest.approx(0.003))


def test_a_trace_of_sglang_is_that_of_decoding_and_not_of_prefill(tmp_path):
    result = launch(tmp_path, "sglang", {"trace": [{**KERNEL, "dur": 20_000}]}, trace=True, tokens=40)
    trace = result["engine"]["load"]["trace"]
    assert (trace["cycles"], trace["seconds"]["moe_s"]) == (20, pytest.approx(0.001))
    assert trace["file"] == "1-TP-0-DECODE.trace.json.gz"


def test_a_trace_without_a_kernel_is_said_and_not_waited_for_in_vain(tmp_path, monkeypatch):
    """As of an engine on a processor. The long wait is for a trace that is not there yet."""
    monkeypatch.setattr(profile, "WAIT_S", 1e9)
    monkeypatch.setattr(profile, "OTHERS_S", 0.0)
    (tmp_path / "rank0.pt.trace.json").write_text(json.dumps({"traceEvents": [{**KERNEL, "cat": "cpu_op"}]}))
    found = profile.read_trace(tmp_path, VLLM.profiler)
    assert found == {"error": "rank0.pt.trace.json holds no kernel of a device"}


def test_a_draft_that_is_accepted_makes_too_few_cycles_of_enough_tokens(tmp_path):
    """After one token of prefill, 39 tokens in cycles of 4 are 10: 11 events."""
    script = {"trace": [KERNEL], "accept": [4]}
    result = launch(tmp_path, "vllm", script, ("ngram",), trace=True, tokens=40, speculative_args=NGRAM)
    assert result["status"] == "ok"
    assert result["engine"]["ngram"]["trace"]["error"].startswith("the longest answer came in 11 events, and 20 cycles")


def test_answers_that_are_too_short_to_be_traced_are_wrong_usage_before_a_server_is_started(tmp_path, here):
    project = engine_project(tmp_path, "vllm", pids=str(tmp_path / "pids"))
    done = here(project, "compare", "HEAD", "HEAD", "-w", "vllm", "--trace", *sets(tokens=22), code=2)
    assert "fewer steps than the 23 that this takes" in done.stderr
    assert not (tmp_path / "pids").exists()


def test_a_server_that_outlives_the_trial_is_not_traced():
    """What is measured on it next would be slowed down."""
    with pytest.raises(ParamsError, match="leave out trace, or url"):
        profile.refuse_short(read_params({"engine": "vllm", "trace": True, "url": "localhost:8000", "tokens": 128}))


def test_only_its_own_files_know_an_engine_by_its_name():
    """A new engine is a record of its own and a place in the table of known.py."""
    folder = Path(__file__).parents[2] / "runners" / "engines"
    own = {"sglang.py", "vllm.py", "facts_sglang.py", "facts_vllm.py"}
    names = [f'"{name}"' for name in ("sglang", "vllm")]
    found = [
        path.name for path in folder.glob("*.py") if path.name not in own and any(n in path.read_text() for n in names)
    ]
    assert found == []
