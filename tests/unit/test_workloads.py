"""Workloads: what is brought along, and how names, parameters, modes and commands become one."""

import pytest

from perfguard.errors import UsageError
from perfguard.workloads import BUILT_IN, PRESETS, find, of_command, refuse_unsaid_rate, with_modes, with_params
from runners.contract import parse_params
from runners.tp_moe import TpMoeParams

KNOWN = {workload.name: workload for workload in BUILT_IN}
TINY = KNOWN["moe-eagle3"]


def command(*words, **changes):
    return of_command(words, **{"metric": "", "better": "lower", "unit": "", "read": "", **changes})


def test_every_workload_that_is_brought_along_has_a_primary_metric_for_each_of_its_modes():
    for workload in BUILT_IN:
        for mode in workload.modes:
            assert any(m.primary for m in workload.metrics if m.name.startswith(mode)), (workload.name, mode)
        assert len({m.name for m in workload.metrics}) == len(workload.metrics)


def test_an_unknown_workload_names_the_nearest_known():
    with pytest.raises(UsageError, match="no workload 'moe-eagel3'; did you mean 'moe-eagle3'"):
        find("moe-eagel3", KNOWN)
    with pytest.raises(UsageError, match="known: fake, mixtral-8x7b, moe-eagle3"):
        find("zzz", KNOWN)
    assert find("fake", KNOWN) is KNOWN["fake"]


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_is_measured_in_bf16_on_a_gpu_and_its_parameters_are_the_runners(name):
    workload = KNOWN[name]
    params = parse_params(TpMoeParams, workload.params)
    assert (params.device, params.dtype, params.layers, params.rates) == ("cuda", "bfloat16", 12, [1.0, 0.0])
    asked = with_params(workload, {"layers": 0, "accept_length": 0.0, "temperature": 0.7, "tp": 2})
    assert parse_params(TpMoeParams, asked.params).is_greedy is False
    sources = params.sources(workload.modes)
    assert sources == {"target": f"preset:{name}?layers=12", "draft": f"preset:{name}"}


def test_one_mode_keeps_its_own_metrics_only():
    assert with_modes(TINY, "both") is TINY
    plain = with_modes(TINY, "plain")
    assert (plain.modes, {m.name.split("_")[0] for m in plain.metrics}) == (("plain",), {"plain"})
    assert with_modes(command("true"), "plain") == command("true")
    with pytest.raises(UsageError, match="--modes 'fast': moe-eagle3 has plain, eagle3"):
        with_modes(TINY, "fast")


def test_parameters_are_changed_and_tp_sets_the_number_of_ranks():
    changed = with_params(TINY, {"tp": 2, "tokens": 8})
    assert (changed.world_size, changed.params["tokens"], changed.params["prompts"]) == (2, 8, TINY.params["prompts"])
    assert (TINY.world_size, TINY.params["tokens"]) == (1, 64)


@pytest.mark.parametrize("tp", [0, -1, 1.5, "2", None])
def test_a_number_of_ranks_that_is_none_is_refused(tp):
    with pytest.raises(UsageError, match="is not a whole number of ranks"):
        with_params(TINY, {"tp": tp})


def test_an_unknown_parameter_names_the_nearest_known():
    with pytest.raises(UsageError, match="no parameter 'token'; did you mean 'tokens'"):
        with_params(TINY, {"token": 8})
    with pytest.raises(UsageError, match="known: none"):
        with_params(command("true"), {"tokens": 8})


def test_a_command_without_a_metric_is_measured_by_its_wall_time():
    workload = command("python", "bench.py")
    (metric,) = workload.metrics
    assert (metric.name, metric.unit, metric.better, workload.read) == ("wall", "s", "lower", "wall")
    assert (workload.runner, workload.command) == ("command", ("python", "bench.py"))


def test_a_command_with_a_metric_is_read_as_json_unless_told_otherwise():
    workload = command("./bench", metric="rate", better="higher", unit="token/s")
    (metric,) = workload.metrics
    assert (metric.name, metric.better, metric.unit, workload.read) == ("rate", "higher", "token/s", "json")
    assert command("./bench", metric="rate", read="regex:(.*)").read == "regex:(.*)"
    with pytest.raises(UsageError, match="no command after --"):
        command()


@pytest.mark.parametrize("said", [{"better": "higher"}, {"unit": "token/s"}, {"read": "regex:(.*)"}])
def test_what_describes_a_metric_needs_one(said):
    # Taken for wall time, a doubled rate would be reported as a slowdown.
    with pytest.raises(UsageError, match="describe a metric, and none is named"):
        command("./bench", **said)


def test_a_command_is_named_as_one_would_type_it_and_not_without_end():
    assert command("sh", "-c", "a b").name == "sh -c 'a b'"
    assert len(command("x" * 500).name) == 80


@pytest.mark.parametrize(
    ("name", "unit"),
    [("tokens_per_s", ""), ("tokens per second", ""), ("x", "token/s"), ("x", "GB / sec"), ("decode_throughput", "")],
)
def test_a_rate_of_which_no_direction_was_said_is_refused(name, unit):
    """Taken for a time, one that fell would be called an improvement."""
    with pytest.raises(UsageError, match=f"^{name}.* looks like a rate: say whether lower or higher is better"):
        refuse_unsaid_rate(name, unit, "")


@pytest.mark.parametrize(("name", "unit"), [("seconds", "s"), ("ttft_s", "s"), ("per_step_s", ""), ("gaps", "")])
def test_what_looks_like_no_rate_is_better_lower(name, unit):
    refuse_unsaid_rate(name, unit, "")
