"""Two records -> hypotheses: ruled out, differs with fields in the documented order, unknown. Pure; small records."""

import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from campaign_cases import campaign as make_campaign
from campaign_cases import trial as make_trial

from perfguard.errors import UsageError
from perfguard.explain import stored_facts
from perfguard.explaining import influence
from perfguard.explaining.explanation import Acquittal, Evidence, explain
from perfguard.explaining.facts import HYPOTHESES, claimed_facts, facts_of
from perfguard.explaining.words import explanation_json
from perfguard.records import Arm, Metric, Revision, Workload

SPEED = Metric(name="speed", unit="token/s", better="higher")
MACHINE = {
    "host": {"hostname_sha256": "h1", "cpu_model": "EPYC", "num_threads": 64, "kernel": "Linux 6.8"},
    "gpu": {"gpus": [{"name": "H200", "uuid": "GPU-1"}], "driver": "580.1", "cuda_driver": "13.0", "reason": ""},
}
PACKAGES = {"torch": "2.9.0", "requests": "2.0"}
LL = {"NCCL_PROTO": "LL", "OMP_NUM_THREADS": "1", "TRITON_CACHE_DIR": "/w/1/caches/triton_cache_dir"}


def conditions(clock=1980, pressure=1.0, processes=()):
    card = {
        "before": {"power_limit_w": 700, "processes": list(processes)},
        "during": {"fields": {"sm_clock_mhz": [[-1.0, 345], [0.1, clock], [0.2, clock]]}},
    }
    return {"gpus": {"GPU-1": card}, "host": {"before": {"pressure_cpu_percent": pressure}}}


def run(name="r1", values=(89.0, 89.3, 88.9, 89.2), *, tree="t1", env=LL, packages=PACKAGES, **changes):
    """Facts of one arm whose launches gave these values."""
    ranks = [
        {"environment": env, "software": {"python": "CPython 3.12", "packages": packages}, "environment_changes": {}}
        for _ in range(2)
    ]
    record = {"ranks": ranks, "conditions": changes.pop("conditions", conditions()), "caches": {"num_files": 3}}
    record |= changes.pop("record", {})
    trials = [
        make_trial(1, k // 4, k % 4, "base", 1.0, id=f"{name}{k}", values={"speed": value}, record=record)
        for k, value in enumerate(values)
    ]
    workload = Workload(name="w", runner="tp_moe", metrics=(SPEED,), params={"tp": 2}, world_size=2)
    arm = Arm(side="base", revision=Revision(name="x", commit=tree * 20, tree=tree * 20), env=changes.pop("asked", {}))
    whole = {"id": name, "arms": (arm,), "workload": workload, "machine": MACHINE, "method": {"runner_sha256": "s"}}
    return facts_of(make_campaign(**(whole | changes)), "base", trials)


def states(found):
    return {h.name: h.state for h in found.hypotheses}


def fields(found, name):
    hypothesis = next(h for h in found.hypotheses if h.name == name)
    return [(d.field, d.a, d.b) for d in hypothesis.differences]


def test_two_runs_of_one_thing_rule_everything_out():
    found = explain(run(), run("r2"))
    assert states(found) == dict.fromkeys(HYPOTHESES, "ruled out") | {"noise": "possible"}
    assert found.differences == ()


def test_a_lost_variable_comes_first_and_the_innocent_are_ruled_out():
    """89 token/s with NCCL_PROTO=LL, 82 without it: 8.2 % where launches vary by 0.2 %."""
    b = run("r2", (82.0, 82.2, 81.9, 82.1), env={k: v for k, v in LL.items() if k != "NCCL_PROTO"})
    found = explain(run(), b)
    assert found.hypotheses[0].name == "environment"
    assert fields(found, "environment") == [("NCCL_PROTO", "LL", "not set")]
    assert states(found) == dict.fromkeys(HYPOTHESES, "ruled out") | {"environment": "differs"}
    told = explanation_json(found)
    assert told["metrics"][0]["is_larger_than_noise"] is True
    assert told["next"] == f"perfguard compare r2:base {'t1' * 6} --base-env NCCL_PROTO=LL"
    moved = "speed went from 89.1 to 82.05 token/s (slowdown +8.6 %), more than launch noise makes."  # 89.1 / 82.05
    assert moved in told["conclusions"]["can"]
    assert "first in NCCL_PROTO (LL → not set). Ruled out: code, method" in told["conclusions"]["can"]
    assert "measuring shows what matters" in told["conclusions"]["cannot"]


def test_folders_of_caches_and_our_own_variables_are_no_difference_unless_they_were_asked_for():
    moved = LL | {"TRITON_CACHE_DIR": "/w/2/caches/triton_cache_dir", "PERFGUARD_OWNER": "2", "RANK": "1"}
    assert states(explain(run(), run("r2", env=moved)))["environment"] == "ruled out"
    asked = {"TRITON_CACHE_DIR": "/w/2/caches/triton_cache_dir"}
    assert states(explain(run(), run("r2", env=moved, asked=asked)))["environment"] == "differs"


def test_ranks_that_differ_are_shown_by_rank_and_a_change_on_the_way_with_its_place():
    ranks = [
        {"environment": LL, "software": {"packages": PACKAGES, "python": "CPython 3.12"}},
        {
            "environment": LL | {"NCCL_PROTO": "Simple"},
            "software": {"packages": PACKAGES, "python": "CPython 3.12"},
            "environment_changes": {"NCCL_PROTO": "changed while Python started, by /s.py"},
        },
    ]
    found = explain(run(), run("r2", record={"ranks": ranks}))
    assert fields(found, "environment") == [("NCCL_PROTO", "LL", "0: LL, 1: Simple")]
    assert found.differences[0].note == "in B changed while Python started, by /s.py"


def test_values_that_are_not_stored_tell_nothing():
    a, b = run(env=LL | {"NCCL_X_TOKEN": "<redacted>"}), run("r2", env=LL | {"NCCL_X_TOKEN": "other"})
    assert states(explain(a, b))["environment"] == "ruled out"


def test_code_is_ruled_out_by_equal_trees_equal_files_or_a_measurement_and_else_differs():
    a, b = run(), run("r2", tree="t2")
    differs = explain(a, b, Evidence(num_changed_files=3))
    assert states(differs)["code"] == "differs"
    assert [(d.field, d.kind) for d in differs.differences] == [("commit", "commit")]
    assert next(h.detail for h in differs.hypotheses if h.name == "code") == "3 changed files"
    same_files = {"record": {"origin": {"model.layers": {"path": "/x", "sha256": "1"}}}}
    same = explain(run(**same_files), run("r2", tree="t2", **same_files))
    assert states(same)["code"] == "ruled out"
    acquitted = explain(a, b, Evidence(acquittal=Acquittal(id="c9", margin=0.02)))
    assert states(acquitted)["code"] == "ruled out"
    detail = next(h.detail for h in acquitted.hypotheses if h.name == "code")
    assert detail == "the trees differ, but c9 measured them as EQUIVALENT within 2 %"


def test_an_acquittal_within_a_margin_as_large_as_the_difference_rules_out_nothing():
    # 100 against 80: ln 1.25 = 0.223, half of it 0.112, which ln 1.11 = 0.104 is below and ln 1.13 = 0.122 is not.
    a, b = run(values=(100.0, 100.0, 100.0)), run("r2", tree="t2", values=(80.0, 80.0, 80.0))
    for margin, state in ((0.11, "ruled out"), (0.13, "differs"), (0.5, "differs")):
        assert states(explain(a, b, Evidence(acquittal=Acquittal(id="c9", margin=margin))))["code"] == state


def test_another_method_is_named_before_anything_else():
    other = Workload(name="w", runner="tp_moe", metrics=(SPEED,), params={"tp": 4}, world_size=4)
    b = run("r2", workload=other, tree="t2", env=LL | {"NCCL_PROTO": "Simple"}, method={"runner_sha256": "z"})
    found = explain(run(), b)
    assert [h.name for h in found.hypotheses[:3]] == ["method", "environment", "code"]
    assert [d.field for d in found.differences[:3]] == ["param tp", "world_size", "NCCL_PROTO"]


def test_a_parameter_that_only_one_side_has_is_another_method():
    params = {"tp": 2, "planted_slowdown": 1.1}
    more = Workload(name="w", runner="tp_moe", metrics=(SPEED,), params=params, world_size=2)
    assert fields(explain(run(), run("r2", workload=more)), "method") == [("param planted_slowdown", "none", "1.1")]


def test_packages_and_the_driver_are_software_and_torch_comes_before_the_rest():
    newer = {"host": MACHINE["host"], "gpu": MACHINE["gpu"] | {"driver": "590.2"}}
    b = run("r2", machine=newer, packages={"torch": "2.10.0", "requests": "2.0", "attrs": "1"})
    assert fields(explain(run(), b), "software") == [
        ("driver", "580.1", "590.2"),
        ("package torch", "2.9.0", "2.10.0"),
        ("package attrs", "not installed", "1"),
    ]


def test_what_was_not_recorded_is_unknown_and_never_ruled_out():
    b = run("r2", conditions={}, packages={})
    found = explain(run(), b)
    unknown = {"software": "unknown", "GPU state": "unknown", "neighbours": "unknown"}
    assert {k: v for k, v in states(found).items() if v == "unknown"} == unknown
    assert "Anything about software, GPU state and neighbours" in explanation_json(found)["conclusions"]["cannot"]


def test_clocks_and_neighbours_differ_only_beyond_what_a_machine_moves_by_anyway():
    alike = explain(run(), run("r2", conditions=conditions(clock=1965, pressure=8.0)))
    assert (states(alike)["GPU state"], states(alike)["neighbours"]) == ("ruled out", "ruled out")
    moved = explain(run(), run("r2", conditions=conditions(clock=1200, pressure=60.0, processes=[[1, 2]])))
    assert fields(moved, "GPU state") == [("sm_clock_mhz", "1980.0", "1200.0")]
    assert [field for field, *_ in fields(moved, "neighbours")] == [
        "pressure_cpu_percent",
        "processes on the GPUs before",
    ]


def test_without_any_gpu_its_state_explains_nothing():
    none = {"host": MACHINE["host"], "gpu": {"gpus": [], "reason": "no NVML bindings (package nvidia-ml-py)"}}
    found = explain(run(machine=none, conditions={}), run("r2", machine=none, conditions={}))
    assert states(found)["GPU state"] == "ruled out"
    broken = {"host": MACHINE["host"], "gpu": {"gpus": [], "reason": "NVML: Driver/library version mismatch"}}
    found = explain(run(machine=broken, conditions={}), run("r2", machine=broken, conditions={}))
    assert states(found)["GPU state"] == "unknown"


def test_a_gpu_on_one_side_only_is_not_ruled_out():
    none = {"host": MACHINE["host"], "gpu": {"gpus": [], "reason": "NVML: NVML Shared Library Not Found"}}
    found = explain(run(machine=none, conditions={}), run("r2"))
    assert (states(found)["GPU state"], states(found)["machine"]) == ("unknown", "differs")


def test_fields_that_one_side_lacks_are_named_though_the_rest_is_alike():
    cooler = conditions()
    cooler["gpus"]["GPU-1"]["during"]["fields"]["temperature_c"] = [[0.1, 60]]
    found = explain(run(), run("r2", conditions=cooler))
    detail = next(h.detail for h in found.hypotheses if h.name == "GPU state")
    assert detail == "2 recorded fields are alike; recorded on one side only: temperature_c"


def test_a_claimed_number_has_no_record_so_all_but_the_number_is_unknown():
    found = explain(claimed_facts(SPEED, 89.0), run("r2", (82.0, 82.2)), Evidence(noise={"speed": 0.003}))
    assert states(found) == dict.fromkeys(HYPOTHESES, "unknown") | {"noise": "ruled out"}
    assert explanation_json(found)["next"] == "perfguard compare r2:base HEAD"


def test_a_difference_within_noise_asks_for_a_comparison_before_any_reason():
    found = explain(run(), run("r2", (89.1, 88.8), env={}), Evidence(noise={"speed": 0.01}))
    assert states(found)["noise"] == "possible"
    assert explanation_json(found)["next"] == f"perfguard compare r1:base {'t1' * 6}"


def test_the_next_step_keeps_what_b_asked_for_and_never_the_value_of_a_secret():
    asked = {"NCCL_ALGO": "Ring", "HF_TOKEN": "<redacted>"}
    b = run("r2", (82.0, 82.2, 81.9, 82.1), env=LL | {"NCCL_PROTO": "Simple"}, asked=asked)
    assert explanation_json(explain(run(), b))["next"] == (
        f"perfguard compare r2:base {'t1' * 6} --base-env NCCL_PROTO=LL --head-env HF_TOKEN --head-env NCCL_ALGO=Ring"
    )


def test_where_several_settings_differ_the_next_step_tells_them_apart_by_experiment():
    b = run("r2", (82.0, 82.2, 81.9, 82.1), env=LL | {"NCCL_PROTO": "Simple"}, tree="t2")
    assert explanation_json(explain(run(), b))["next"] == "perfguard explain r1:base r2:base --experiment"


def test_where_nothing_can_be_toggled_the_whole_of_a_is_measured_again():
    b = run("r2", (82.0, 82.2, 81.9, 82.1), tree="t2")
    assert explanation_json(explain(run(), b))["next"] == f"perfguard compare r1:base {'t2' * 6}"
    added = run("r3", (82.0, 82.2, 81.9, 82.1), env=LL | {"NCCL_ALGO": "Tree"})
    assert explanation_json(explain(run(), added))["next"] == (
        f"perfguard compare r1:base {'t1' * 6} --head-env NCCL_ALGO=Tree"
    )


def test_a_command_is_explained_by_any_variable_that_it_inherited_but_those_of_a_session():
    inherited = {"SLOW": "0", "HOME": "/root", "SHLVL": "1", "GITHUB_RUN_ID": "7", "TMPDIR": "/tmp/a"}
    later = inherited | {"SLOW": "1", "SHLVL": "2", "GITHUB_RUN_ID": "8", "TMPDIR": "/tmp/b", "SSH_TTY": "x"}
    workload = Workload(name="w", runner="command", command=("./b",), metrics=(SPEED,))
    a, b = (
        run(name, values, workload=workload, record={"ranks": [], "environment": environ})
        for name, values, environ in (("r1", (89.0, 89.3, 88.9), inherited), ("r2", (82.0, 82.2, 81.9), later))
    )
    found = explain(a, b)
    assert [(d.field, d.a, d.b) for d in found.differences] == [("SLOW", "0", "1")]
    assert explanation_json(found)["next"] == f"perfguard compare r2:base {'t1' * 6} --base-env SLOW=0"
    lacked = {name: value for name, value in inherited.items() if name != "SLOW"}
    before = run("r0", (89.0, 89.3, 88.9), workload=workload, record={"ranks": [], "environment": lacked})
    assert explanation_json(explain(before, b))["next"] == f"perfguard compare r0:base {'t1' * 6} --head-env SLOW=1"


def test_one_launch_each_and_no_history_leaves_noise_unknown():
    assert states(explain(run(values=(89.0,)), run("r2", (82.0,))))["noise"] == "unknown"


@pytest.mark.parametrize("a_side", ["", "base"])
def test_the_json_is_complete_and_plain(a_side):
    told = explanation_json(explain(replace(run(), side=a_side), run("r2", tree="t2")))
    assert told["schema"] == "perfguard/explanation@1"
    assert {h["hypothesis"] for h in told["hypotheses"]} == set(HYPOTHESES)
    assert set(told["hypotheses"][0]["fields"][0]) == {"field", "a", "b", "influence", "kind", "note"}


def test_the_documented_order_of_influence_is_the_order_used():
    page = (Path(__file__).parents[2] / "docs" / "explain.md").read_text()
    rows = re.findall(r"^\| (\d+) \| ([^|]+) \| ([^|]+) \|", page, re.MULTILINE)
    assert [(h.strip(), what.strip()) for _, h, what in rows] == [(r.hypothesis, r.what) for r in influence.ORDER]
    assert [int(number) for number, *_ in rows] == list(range(1, len(influence.ORDER) + 1))


def test_a_bisect_is_no_run_and_its_confirmation_is_named_instead():
    bisect = SimpleNamespace(
        campaign=lambda _: SimpleNamespace(id="b-1", kind="bisect"),
        latest_verdict=lambda _: {"confirmation": {"id": "c-7"}},
    )
    with pytest.raises(UsageError, match="b-1 is a bisect") as error:
        stored_facts(bisect, "b-1", "base")
    assert error.value.next_step == "perfguard explain c-7:base c-7:head"
