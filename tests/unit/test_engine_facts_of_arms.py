"""What the engines of two arms say -> the first line of a report and its findings."""

import json

import pytest

from perfguard.engine_facts import differences, engine_json, engine_note, is_graph_asked
from perfguard.records import Trial

ARGS = {"attention_backend": "fa3", "cuda_graph_max_bs": 160, "tp_size": 8, "kv_cache_dtype": "auto", "x": None}
RECORD = {
    "name": "sglang", "device": "cuda", "args": ARGS, "attention_backend": "fa3", "kv_tokens": 400_000,
    "graphs": {"verify": "full", "draft": "full"}, "quantization": "w4afp8", "asked": {"tp": "8"},
}  # fmt: skip


def trial(side, slot=0, stage=1, status="ok", mode="eagle3", **changed):
    record = {} if changed.get("engine", True) is None else {"engine": {mode: {**RECORD, **changed}}}
    return Trial(
        id=f"{side}{slot}{stage}", stage=stage, block=0, slot=slot, side=side, build=1, attempt=0, status=status,
        started_at="", wall_s=1.0, measured_s=1.0, values={}, record=record,
    )  # fmt: skip


def found(base=None, head=None, **more):
    told = engine_json([trial("base", **(base or {})), trial("head", **(head or {}))], **more)
    json.dumps(told, allow_nan=False)
    return told


def args(**changed):
    return {"args": {**ARGS, **changed}}


def test_a_comparison_without_an_engine_has_nothing_of_it():
    assert engine_json([trial("base", engine=None), trial("head", engine=None)]) == {}


def test_the_first_line_says_that_nothing_differs_or_what_does():
    assert found()["lines"] == ["arguments as the engine resolved them: the same on both sides (5 compared)"]
    told = found(head=args(attention_backend="flashinfer", kv_cache_dtype="fp8_e4m3"))
    assert told["lines"][0] == (
        "arguments as the engine resolved them differ: attention_backend fa3 → flashinfer; "
        "kv_cache_dtype auto → fp8_e4m3 (--pin-args base takes them out)"
    )
    assert told["differences"] == {
        "eagle3": [
            ["attention_backend", "fa3", "flashinfer", [True, True]],
            ["kv_cache_dtype", "auto", "fp8_e4m3", [True, True]],
        ]
    }
    assert "--pin-args" not in found(head=args(tp_size=4), is_pinned=True)["lines"][0]


def test_a_conclusion_says_that_code_and_defaults_were_judged_together_where_they_were():
    assert "judged together" in engine_note(found(head=args(tp_size=4)))
    assert engine_note(found()) == engine_note({}) == ""


def test_an_argument_that_one_version_does_not_have_counts_only_where_it_is_set():
    (one,) = differences({"args": {**ARGS, "gone": False, "old": 3}}, {"args": {**ARGS, "new": None}})
    assert (one.name, one.base, one.has) == ("old", 3, (True, False))
    line = found(base=args(old=3), head=args(tp_size=4))["lines"][0]
    assert "tp_size 8 → 4; only base has old=3" in line


def test_many_differences_are_counted_and_the_influential_named_first():
    changed = {f"a{n}": n for n in range(9)}
    line = found(base=args(**dict.fromkeys(changed, -1)), head=args(**changed, cuda_graph_max_bs=8))["lines"][0]
    assert line.split("differ: ")[1].startswith("cuda_graph_max_bs 160 → 8; a0 -1 → 0;")
    assert "a5" not in line
    assert " and 4 more" in line  # ten differ, six are named


def test_a_side_that_does_not_tell_is_unknown_and_not_equal():
    (line,) = found(head={"args": {}})["lines"]
    assert line == "arguments as the engine resolved them: head did not tell, so a default may differ"


def graphs(**changed):
    return {"graphs": {"verify": "full", "draft": "full", **changed}}


@pytest.mark.parametrize(
    ("base", "head", "words"),
    [
        (graphs(), graphs(verify="piecewise"), "verify of head ran in piecewise CUDA graphs, base in full graphs"),
        (graphs(verify="none"), graphs(), "verify of base ran without CUDA graphs (eager), head in full graphs"),
        (graphs(verify="piecewise"), graphs(verify="piecewise"),
         "verify of both sides ran in piecewise CUDA graphs where full ones were expected"),
        ({"graphs": {}}, graphs(draft="none"), "draft of head ran without CUDA graphs (eager), full ones expected"),
    ],
)  # fmt: skip
def test_a_graph_that_is_not_full_where_it_was_expected_stands_in_the_first_line(base, head, words):
    told = found(base, head)
    assert told["lines"][0].startswith(f"eagle3: {words}; arguments")
    assert [one["code"] for one in told["findings"]] == ["ENGINE_GRAPH"]


@pytest.mark.parametrize(
    "changed",
    [
        graphs(),
        {"graphs": {}},
        {**graphs(verify="none", draft="none"), "device": "cpu"},
        {**graphs(verify="none", draft="none"), "asked": {"disable_cuda_graph": "true"}},
        {**graphs(verify="piecewise"), "asked": {"compilation_config": '{"cudagraph_mode": "PIECEWISE"}'}},
    ],
)
def test_no_graph_is_expected_where_nobody_told_of_one_or_something_else_was_asked_for(changed):
    assert found(changed, changed)["findings"] == []


def test_flags_that_choose_graphs_are_known():
    assert is_graph_asked({"enforce_eager": "true"})
    assert not is_graph_asked({"compilation_config": '{"level": 3}', "tp": "8"})


def test_backend_settings_and_room_are_findings_of_their_own():
    told = found(head={"attention_backend": "flashinfer", "moe_config": "default", "kv_tokens": 300_000})
    assert [one["text"] for one in told["findings"]] == [
        "eagle3: attention backend: base fa3, head flashinfer",
        "eagle3: room for tokens in the KV cache: base 400,000, head 300,000",
    ]
    assert found(head={"kv_tokens": 393_000})["findings"] == []  # 1.75 %


def test_a_variable_that_one_version_overwrites_is_told_with_what_both_came_to():
    told = found(base={"overwritten": {"NCCL_CUMEM_ENABLE": {"server": "", "worker": "0"}}})
    assert told["findings"][0] == {
        "code": "ENGINE_OVERWROTE",
        "text": "eagle3: NCCL_CUMEM_ENABLE in the workers is the engine's own doing: "
        "base set to '0', head left as it was",
    }


def test_the_same_library_in_another_folder_is_no_difference():
    places = ({"overwritten": {"LD_PRELOAD": {"server": "", "worker": f"/{env}/lib/libgomp.so.1"}}} for env in "ab")
    assert found(*places)["findings"] == []


def test_launches_of_one_side_that_chose_differently_are_told():
    trials = [trial("base"), trial("head"), trial("head", 1, attention_backend="flashinfer"), trial("head", 2)]
    texts = [one["text"] for one in engine_json(trials)["findings"]]
    assert texts == ["eagle3: launches of head chose different attention backend: fa3 in 2, flashinfer in 1"]


def test_modes_that_differ_in_the_same_share_a_line_and_others_are_named():
    both = [
        trial("base", mode="plain"), trial("base", 1), trial("head", mode="plain", **args(tp_size=4)),
        trial("head", 1, **args(tp_size=4)),
    ]  # fmt: skip
    assert engine_json(both)["lines"][0].count("tp_size 8 → 4") == 1
    one = [*both[:3], trial("head", 1)]
    assert engine_json(one)["lines"][0].startswith("plain: arguments as the engine resolved them differ: tp_size")


def test_measured_launches_speak_before_first_runs_and_invalid_ones():
    trials = [trial("base", stage=0, attention_backend="x"), trial("base"), trial("head", status="invalid")]
    assert engine_json(trials)["sides"]["base"]["eagle3"]["attention_backend"] == "fa3"
    assert engine_json(trials[:1])["sides"]["base"]["eagle3"]["attention_backend"] == "x"


def traced(side, busy_s=None, **where):
    trace = {"error": "no trace was written"} if busy_s is None else {"cycles": 20, "seconds": {"busy_s": busy_s}}
    return trial(side, trace=trace, **where)


@pytest.mark.parametrize(
    ("base", "said"),
    [
        ([traced("base", 0.001), traced("base", 0.002, stage=0)], "busy 2/5"),  # as of a second build
        ([traced("base", 0.001, stage=0), traced("base", 0.003), traced("base", 0.004, slot=2)], "busy 4/5"),
        ([traced("base", 0.003), traced("base", 0.004, slot=2, status="invalid"), trial("base", slot=3)], "busy 3/5"),
        (
            [traced("base", 0.003), traced("base", slot=2)],
            "busy 3/5, base: of an earlier launch, the last: no trace was written",
        ),
        ([traced("base", 0.003), traced("base", slot=2), traced("base", 0.004, slot=3)], "busy 4/5"),
        ([traced("base", stage=0), traced("base")], "busy unknown/5, base: no trace was written"),
    ],
)
def test_the_trace_of_a_side_is_the_last_that_came(base, said):
    lines = engine_json([*base, traced("head", 0.005)])["lines"]
    assert lines[-1] == f"traced cycles of eagle3, ms a cycle, base/head: {said}"
