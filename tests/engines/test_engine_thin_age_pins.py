"""--thin, --age and --pin-args: what the command line makes of them, what is started, and a verdict of each."""

import json
from dataclasses import replace

import pytest
from engine_support import compared, engine_project, launch, plan, rows, sets

from perfguard.cli.engine_asking import engine_workload
from perfguard.conclusions import next_step
from perfguard.engine_workloads import ENGINES
from perfguard.errors import UsageError
from perfguard.records import Decision, Outcome
from perfguard.scopes import scope_note, scoped_sentence
from perfguard.store import open_store
from perfguard.workloads import of_command
from runners.engines.known import dialect_of
from runners.engines.params import read_params
from runners.engines.running import starting

WORKLOADS = {workload.name: workload for workload in ENGINES}


def argv(engine, mode="", **params):
    given = read_params({"engine": engine, "model": "m", **params})
    return list(starting(given, dialect_of(engine), mode, python="py", port=4000).argv)


def after(words, option):
    return json.loads(words[words.index(option) + 1])


def test_few_layers_are_started_by_the_engine_s_own_flags():
    words = argv("sglang", thin_layers=8)
    assert words[-4:-1] == ["--load-format", "dummy", "--json-model-override-args"]
    assert after(words, "--json-model-override-args") == {"num_hidden_layers": 8}
    nested = argv("vllm", thin_layers=4, layers_field="text_config.num_hidden_layers")
    assert after(nested, "--hf-overrides") == {"text_config": {"num_hidden_layers": 4}}
    assert "--load-format" not in argv("vllm")


@pytest.mark.parametrize("args", ["--hf-overrides '{\"a\": 1}'", "--hf-overrides='{\"a\": 1}'"])
def test_layers_are_added_to_what_is_overridden_already(args):
    words = argv("vllm", thin_layers=2, args=args)
    assert after(words, "--hf-overrides") == {"a": 1, "num_hidden_layers": 2}
    assert sum(word.startswith("--hf-overrides") for word in words) == 1


def test_an_override_that_is_no_object_and_an_engine_without_few_layers_are_refused():
    with pytest.raises(ValueError, match="not a JSON object"):
        argv("vllm", thin_layers=2, args="--hf-overrides some.function")
    with pytest.raises(ValueError, match="cannot be started with few layers"):
        argv("transformers", thin_layers=2)


def test_pinned_arguments_come_last_and_only_to_their_mode():
    pinned = {"eagle3": "--page-size 16", "load": "--x 1"}
    assert argv("sglang", "eagle3", pinned_args=pinned, args="--page-size 1")[-4:] == [
        "--page-size", "1", "--page-size", "16",
    ]  # fmt: skip
    assert "--page-size" not in argv("sglang", "plain", pinned_args=pinned)
    assert argv("sglang", "", pinned_args=pinned)[-2:] == ["--x", "1"]


def asked(name="sglang-eagle3", **options):
    return engine_workload(WORKLOADS[name], options)


def test_thin_makes_acceptance_synthetic_where_a_draft_has_weights_drawn_at_random():
    thin = asked(thin="layers=8").params
    assert (thin["thin_layers"], thin["synthetic_accept_length"]) == (8, 2.0)
    assert asked("sglang", thin="layers=8").params["synthetic_accept_length"] == 0.0  # nothing is drafted
    keyed = asked(thin="layers=8,accept=2.5,field=text_config.num_hidden_layers").params
    assert (keyed["synthetic_accept_length"], keyed["layers_field"]) == (2.5, "text_config.num_hidden_layers")
    assert asked(thin="layers=8,accept=0").params["synthetic_accept_length"] == 0.0


def test_the_time_of_ageing_is_added_to_the_limit_of_the_start():
    aged = asked("vllm", age="2h")
    assert aged.params["age_s"] == 7200.0
    assert aged.ready_timeout_s == WORKLOADS["vllm"].ready_timeout_s + 7200.0


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("vllm", {"no_full_size": True}, "nothing is --thin"),
        ("vllm", {"thin": "layer=8"}, "it knows layers, accept, field"),
        ("vllm", {"thin": "layers=0"}, "a whole number of at least 1"),
        ("vllm-ngram", {"thin": "layers=8,accept=0.5"}, "accept=0.5"),
        ("transformers", {"thin": "layers=8"}, "no weights drawn at random"),
        ("vllm", {"age": "soon"}, "--age 'soon' is not a duration"),
        ("vllm", {"pin_args": "head"}, "only base's arguments"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_started(name, options, words):
    with pytest.raises(UsageError, match=words):
        asked(name, **options)


def test_options_of_engines_are_refused_where_there_is_none():
    command = of_command(("true",), metric="", better="lower", unit="", read="")
    with pytest.raises(UsageError, match="--age is for engines"):
        engine_workload(command, {"age": "1m"})
    assert engine_workload(command, {"age": ""}) is command


def test_the_verdict_on_a_slice_says_what_it_does_not_acquit():
    decision = Decision(state="done", outcome=Outcome.EQUIVALENT, metrics=())
    assert scoped_sentence("No change.", decision, "slice") == (
        "No change (scope slice: few layers, weights drawn at random)."
    )
    note = scope_note(decision, "slice")
    assert all(word in note for word in ("accept length", "skew of routing", "memory", "not acquitted"))
    assert scope_note(replace(decision, outcome=Outcome.INVALID), "slice") == ""


def test_a_server_is_loaded_before_it_is_measured_and_that_belongs_to_its_start(tmp_path):
    result = launch(tmp_path, "sglang", {}, age_s=1.0)
    assert result["status"] == "ok"
    assert result["load_s"] > 1.0 > result["measured_s"]


def test_ageing_a_server_that_answers_nothing_ends_the_launch(tmp_path):
    result = launch(tmp_path, "sglang", {"die_at_request": 3, "die_after": 1}, age_s=30.0)
    assert (result["status"], result["is_ready"]) == ("failed", False)


def test_a_slice_says_so_and_head_runs_with_base_s_arguments_what_is_left_is_told(tmp_path):
    base = {"attention_backend": "fa3", "page_size": 1, "device": "cuda"}
    head = {"attention_backend": "flashinfer", "page_size": 1, "device": "cuda", "new_default": 7}
    project = engine_project(tmp_path, "sglang", arguments=base)
    project.commit(plan(arguments=head))
    options = ("--pin-args", "base", "--thin", "layers=8", "--no-full-size", "--no-confirm", "--max-blocks", "2")
    comparison = compared(project, "-w", "sglang", *options, *sets())
    assert comparison["method"]["pinned_args"] == "base"
    assert comparison["engine"]["lines"][0].endswith("differ: only head has new_default=7")
    with open_store(project.db, read_only=True) as store:
        trials = store.trials(comparison["id"])
    first_runs = [(t.side, t.status) for t in trials if t.stage == 0]
    assert (sorted(first_runs), first_runs[-1]) == ([("base", "ok"), ("head", "ok"), ("head", "ok")], ("head", "ok"))
    measured = next(t for t in trials if t.stage > 0 and t.side == "head")
    command = measured.record["engine"]["load"]["command"]
    assert command[command.index("--attention-backend") + 1] == "fa3"
    assert command[-1] == '{"num_hidden_layers": 8}'
    assert comparison["scope"] == "slice"
    assert "not acquitted" in comparison["conclusions"]["can"]
    assert set(rows(project.db, "SELECT scope FROM campaigns")) == {("slice",)}


def test_what_comes_after_a_slice_is_the_same_at_full_size():
    class OfSlice:
        id, scope, policy, method = "x", "slice", {}, {}

    step = next_step(OfSlice(), Decision(state="done", outcome=Outcome.EQUIVALENT, metrics=()))
    assert step.startswith("the same at full size: without --thin")
