"""Some cycles under an engine's own profiler: how many were profiled, and what is refused as too short."""

import gzip
import json
import threading
import time
from pathlib import Path

import pytest
from client_cases import a_load, an_answer, exchange_of
from engine_support import engine_project, launch, sets

from runners.engines import profile
from runners.engines.dialect import Start
from runners.engines.measuring import Sent, observe
from runners.engines.openai import OPENAI
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
    start = profiled_start(Start(argv=("serve",)), VLLM, Path("/it's here/a b"), concurrency=4, package=None)
    assert start.argv[:2] == ("serve", "--profiler-config")
    config = json.loads(start.argv[2])
    assert (config["torch_profiler_dir"], config["max_iterations"]) == ("/it's here/a b", 20)
    assert config["delay_iterations"] == 5  # four prefills and one step more
    for other in (SGLANG, OPENAI):
        usual = Start(argv=("serve",))
        assert profiled_start(usual, other, Path("/x"), concurrency=4, package=None) == usual


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
    monkeypatch.setattr(profile, "OTHERS_S", 0.0)
    (tmp_path / "rank0.pt.trace.json").write_text(json.dumps({"traceEvents": [{**KERNEL, "cat": "cpu_op"}]}))
    assert read(tmp_path) == {"error": "rank0.pt.trace.json holds no kernel of a device"}


def read(folder, *, is_gone=False, wait_s=1e9):
    return profile.read_trace(folder, VLLM.profiler, time.monotonic() + wait_s, lambda: is_gone)


def write(folder, name, *events):
    (folder / name).write_bytes(gzip.compress(json.dumps({"traceEvents": events}).encode()))


def test_the_first_rank_speaks_though_another_is_done_before(tmp_path, monkeypatch):
    """Another rank waits for the first in its all-reduce: side by side with a first one that would be a difference."""
    monkeypatch.setattr(profile, "LOOK_S", 0.01)
    write(tmp_path, "a_rank1.json.gz", {**KERNEL, "dur": 1_000_000})
    (tmp_path / "b_rank0.json.gz").write_bytes(b"\x1f\x8b")  # begun
    later = threading.Timer(0.2, write, [tmp_path, "b_rank0.json.gz", KERNEL])
    later.start()
    assert read(tmp_path)["file"] == "b_rank0.json.gz"


def test_another_rank_speaks_where_the_first_does_not_come(tmp_path, monkeypatch):
    monkeypatch.setattr(profile, "LOOK_S", 0.01)
    monkeypatch.setattr(profile, "OTHERS_S", 0.05)
    write(tmp_path, "a_rank1.json.gz", KERNEL)
    assert read(tmp_path)["file"] == "a_rank1.json.gz"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"\x1f\x8b", "ended before"),
        (gzip.compress(b"{}" * 99)[:20] + b"\xff" * 99, ""),
        (b"no gzip", "Not a gzipped file"),
    ],
)
def test_a_damaged_trace_is_told_and_nobody_is_waited_for_who_has_ended(tmp_path, content, said):
    (tmp_path / "rank0.json.gz").write_bytes(content)
    found = read(tmp_path, is_gone=True)
    assert found["error"].startswith("rank0.json.gz: ")
    assert said in found["error"]
    assert found["error"].endswith(", and the server has ended")


def test_a_trace_that_is_too_large_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(profile, "MOST_BYTES", 2**20)
    (tmp_path / "rank0.json.gz").write_bytes(gzip.compress(bytes(2**21)))
    assert "rank0.json.gz is larger than 1 MiB" in read(tmp_path, wait_s=0.1)["error"]


def test_nothing_that_goes_wrong_with_a_trace_costs_the_trial(tmp_path):
    """A number too large for its own parser, and nesting that its reader cannot follow."""
    for text in ('{"traceEvents": [' + json.dumps(KERNEL).replace("3000", "9" * 400) + "]}", "[" * 10**6):
        (tmp_path / "rank0.json").write_text(text)
        found = profile._within(60.0, lambda: read(tmp_path, wait_s=0.5))
        assert "error" in found


def test_a_trace_that_takes_too_long_is_given_up():
    until = threading.Event()
    assert profile._within(0.05, lambda: {"error": str(until.wait())}) == {"error": "no trace within 0.05 s"}
    until.set()


def test_a_version_that_does_not_know_the_profiler_is_started_without(tmp_path):
    (tmp_path / "engine").mkdir()
    usual = Start(argv=("serve",))
    for words, argv in (("--profile-dir", 1), ('"--profiler-config"', 3)):
        (tmp_path / "engine" / "arg_utils.py").write_text(f"parser.add_argument({words})")
        assert len(profiled_start(usual, VLLM, tmp_path, 1, tmp_path).argv) == argv
    assert len(profiled_start(usual, VLLM, tmp_path, 1, tmp_path / "laid out otherwise").argv) == 3


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


def test_only_its_own_files_know_an_engine_by_its_name():
    """A new engine is a record of its own and a place in the table of known.py."""
    folder = Path(__file__).parents[2] / "runners" / "engines"
    own = {"sglang.py", "vllm.py", "facts_sglang.py", "facts_vllm.py"}
    names = [f'"{name}"' for name in ("sglang", "vllm")]
    found = [
        path.name for path in folder.glob("*.py") if path.name not in own and any(n in path.read_text() for n in names)
    ]
    assert found == []
