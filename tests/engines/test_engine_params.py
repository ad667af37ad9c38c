"""What is started for which parameters: words, variables, ports; and what is refused before anything starts."""

import json
from dataclasses import fields

import pytest

from perfguard.config import load, parse_params
from perfguard.engine_workloads import ENGINES, PARAMS
from perfguard.errors import UsageError
from perfguard.workloads import default_modes, find, own_params, with_modes, with_params
from runners.contract import ParamsError, UnbuildableError
from runners.engines.dialect import Start
from runners.engines.known import DIALECTS, dialect_of
from runners.engines.params import EngineParams, address_of, filled, read_params
from runners.engines.program import folder_of, refuse
from runners.engines.running import starting
from runners.engines.vllm import synthetic

WORKLOADS = {workload.name: workload for workload in ENGINES}


def words(name, mode, **params):
    given = read_params({**WORKLOADS[name].params, "model": "m", **params})
    start = starting(given, dialect_of(given.engine), mode, python="/env/bin/python", port=4000)
    return list(start.argv), dict(start.env)


def test_harness_and_runner_know_the_same_parameters_with_the_same_defaults():
    assert {field.name: getattr(EngineParams(), field.name) for field in fields(EngineParams)} == PARAMS


def test_every_workload_of_an_engine_starts_a_server_in_each_of_its_modes():
    for name, workload in WORKLOADS.items():
        for mode in workload.modes or ("",):
            command = {} if DIALECTS[workload.params["engine"]].command else {"command": "serve {model} {port}"}
            argv, _ = words(name, mode, draft="d", **command)
            assert not any("{" in word and not word.startswith('{"') for word in argv), argv
            assert "m" in argv
            assert ("d" in argv or any('"model": "d"' in word for word in argv)) == (mode == "eagle3")


def test_the_draft_is_for_the_speculative_mode_alone():
    eagle3, _ = words("sglang-kimi-eagle3", "eagle3", model="moonshotai/Kimi-K2.5")
    assert eagle3 == [
        "/env/bin/python", "-m", "sglang.launch_server", "--model-path", "moonshotai/Kimi-K2.5",
        "--host", "127.0.0.1", "--port", "4000", "--tp", "8", "--enable-metrics", "--trust-remote-code",
        "--speculative-algorithm", "EAGLE3", "--speculative-draft-model-path", "lightseekorg/kimi-k2.5-eagle3",
        "--speculative-num-steps", "2", "--speculative-eagle-topk", "1", "--speculative-num-draft-tokens", "3",
    ]  # fmt: skip
    plain, _ = words("sglang-kimi-eagle3", "plain", model="moonshotai/Kimi-K2.5")
    assert plain == eagle3[: eagle3.index("--speculative-algorithm")]


def test_json_among_the_words_keeps_its_braces_and_gets_the_draft():
    argv, _ = words("vllm-eagle3", "eagle3", draft="d/raft")
    config = json.loads(argv[argv.index("--speculative-config") + 1])
    assert (config["model"], config["num_speculative_tokens"]) == ("d/raft", 3)


def test_words_may_be_a_list_or_a_text():
    as_list = read_params({"model": "m", "args": ["--a", "b c"], "command": ["serve", "{model}"]})
    assert filled(as_list.args, {}) == ("--a", "b c")
    assert filled(as_list.command, {"model": "x y"}) == ("serve", "x y")


def test_synthetic_acceptance_is_asked_in_the_engine_s_own_way_and_not_of_plain_decoding():
    _, env = words("sglang-eagle3", "eagle3", synthetic_accept_length=2.5)
    assert env == {"SGLANG_SIMULATE_ACC_LEN": "2.5", "SGLANG_SIMULATE_ACC_METHOD": "match-expected"}
    assert words("sglang-eagle3", "plain", synthetic_accept_length=2.5)[1] == {}
    argv, _ = words("vllm-ngram", "ngram", synthetic_accept_length=2.5)
    config = json.loads(argv[argv.index("--speculative-config") + 1])
    assert config["rejection_sample_method"] == "synthetic"
    assert (config["synthetic_acceptance_length"], config["method"]) == (2.5, "ngram")


def test_synthetic_acceptance_finds_its_configuration_however_it_is_written():
    asked = EngineParams(model="m", synthetic_accept_length=2.0)
    start = synthetic(Start(argv=("x", '--speculative-config={"method": "eagle3"}', "y")), asked)
    assert json.loads(start.argv[1].partition("=")[2])["synthetic_acceptance_length"] == 2.0
    with pytest.raises(ValueError, match="needs --speculative-config"):
        synthetic(Start(argv=("x",)), asked)
    other = EngineParams(model="m", command="c", synthetic_accept_length=2.0)
    with pytest.raises(ValueError, match="openai has no synthetic acceptance"):
        starting(other, dialect_of("openai"), "", python="p", port=1)


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({}, "model is empty"),
        ({"model": "m", "tokens": 1}, "one token has no time between tokens"),
        ({"model": "m", "requests": 0}, "requests is 0"),
        ({"model": "m", "prefix_cache": "empty"}, "none of flush, unique, keep"),
        ({"model": "m", "modell": "x"}, "did you mean 'model'"),
        ({"model": "m", "tokens": "12"}, "tokens is '12'"),
        ({"model": "m", "tp": 0}, "tp is 0, not at least 1"),
        ({"model": "m", "concurrency": -2}, "concurrency is -2, not at least 1"),
        ({"model": "m", "prompt_tokens": -1}, "prompt_tokens is -1, not at least 0"),
        ({"model": "m", "rate_per_s": float("nan")}, "rate_per_s is nan, not a finite number"),
        ({"model": "m", "rate_per_s": -1}, "rate_per_s is -1, not at least 0"),
        ({"model": "m", "request_timeout_s": 0.0}, "request_timeout_s is 0.0, not above 0"),
        ({"model": "m", "request_timeout_s": float("inf")}, "request_timeout_s is inf"),
        ({"model": "m", "warmup_requests": -1}, "warmup_requests is -1, not at least 0"),
        ({"model": "m", "stop_grace_s": -1.0}, "stop_grace_s is -1.0, not at least 0"),
        ({"model": "m", "max_wait_share": -1.0}, "max_wait_share is -1.0, not at least 0"),
        ({"model": "m", "age_s": -1.0}, "age_s is -1.0, not at least 0"),
        ({"model": "m", "thin_layers": -1}, "thin_layers is -1, not at least 0"),
        ({"model": "m", "layers_field": "a..b"}, "layers_field is 'a..b'"),
        ({"model": "m", "layers_field": ""}, "layers_field is ''"),
        ({"model": "m", "port": -1}, "port is -1, not at least 0"),
        ({"model": "m", "port": 65536}, "port is 65536, not at most 65535"),
        ({"model": "m", "requests": 99_999_999_999}, "requests is 99999999999, not at most 1000000"),
        ({"model": "m", "age_s": 1e300}, "age_s is 1e\\+300, not at most 2592000"),
        ({"model": "m", "host": ""}, "host is empty"),
        ({"model": "m", "host": "300.1.1.1"}, "host is '300.1.1.1'"),
        ({"model": "m", "synthetic_accept_length": 0.5}, "synthetic_accept_length is 0.5"),
        ({"model": "m", "synthetic_accept_length": -1.0}, "synthetic_accept_length is -1.0, not at least 0"),
        ({"model": "m", "pinned_args": {"load": 5}}, "pinned_args of load is 5"),
    ],
)
def test_what_cannot_be_measured_is_refused_by_name(params, said):
    with pytest.raises(ValueError, match=said):
        read_params(params)


@pytest.mark.parametrize(("key", "value"), [("age_s", "NaN"), ("requests", "x"), ("port", True)])
def test_a_word_for_a_number_is_refused_before_a_price_is_made_of_it(key, value):
    with pytest.raises(UsageError, match=f"{key}={value!r} is not a number"):
        with_params(WORKLOADS["vllm"], {key: value})


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_number_without_end_is_refused(value):
    with pytest.raises(UsageError, match="is not a finite number"):
        with_params(WORKLOADS["vllm"], {"age_s": value})


def test_what_json_does_not_know_is_text():
    assert parse_params(["a=NaN", "b=-Infinity", "c=[NaN]", "d=1"], "--set") == {
        "a": "NaN", "b": "-Infinity", "c": "[NaN]", "d": 1,
    }  # fmt: skip


def test_a_program_or_folder_that_is_not_there_is_the_commit_s_fault_only_in_its_own_checkout(tmp_path):
    with pytest.raises(UnbuildableError, match="'bin/serve'"):
        refuse("bin/serve", "no such program")
    for name in ("serve", "/opt/serve"):
        with pytest.raises(ParamsError, match="no such program"):
            refuse(name, "no such program")
    assert folder_of("", tmp_path) == tmp_path
    with pytest.raises(UnbuildableError, match="no folder of this checkout"):
        folder_of("python", tmp_path)
    with pytest.raises(ParamsError, match="which is no folder"):
        folder_of("/nowhere", tmp_path)


def test_an_engine_that_is_not_known_or_not_told_how_to_start_is_refused():
    with pytest.raises(ValueError, match="'sglan' is none of sglang, vllm, openai, transformers"):
        dialect_of("sglan")
    with pytest.raises(ValueError, match="command is empty"):
        starting(EngineParams(model="m"), dialect_of("openai"), "", python="p", port=1)


def test_a_url_is_host_and_port():
    assert address_of("http://127.0.0.1:8000") == ("127.0.0.1", 8000)
    assert address_of("http://gpu-7/") == ("gpu-7", 80)
    for url in ("https://a:1", "127.0.0.1:8000", "http://a:1/v1"):
        with pytest.raises(ValueError, match="not like http"):
            address_of(url)


def test_an_engine_has_one_client_whatever_its_ranks_and_one_mode_unless_asked():
    kimi = with_params(WORKLOADS["sglang-kimi-eagle3"], {"tp": 8})
    assert kimi.world_size == 1
    assert with_modes(kimi, default_modes(kimi)).modes == ("eagle3",)
    assert default_modes(WORKLOADS["vllm"]) == ""
    assert [metric.name for metric in kimi.metrics if metric.primary] == [
        "eagle3_output_throughput", "plain_output_throughput",
    ]  # fmt: skip
    assert "plain_accept_length" not in {metric.name for metric in kimi.metrics}
    assert own_params(WORKLOADS["vllm"]) == {"engine": "vllm"}


def test_perfguard_toml_makes_a_workload_of_an_engine(tmp_path):
    (tmp_path / "perfguard.toml").write_text(
        '[workload.mine]\nbased_on = "sglang-eagle3"\nready_timeout_s = 1200\n'
        'params = {model = "m", draft = "d", tp = 2, args = ["--enable-metrics", "--disable-radix-cache"]}\n'
    )
    mine = find("mine", load(tmp_path).workloads)
    assert (mine.runner, mine.modes, mine.world_size, mine.ready_timeout_s) == ("engine", ("eagle3", "plain"), 1, 1200)
    assert read_params(mine.params).args == "--enable-metrics --disable-radix-cache"
    (tmp_path / "perfguard.toml").write_text('[workload.mine]\nrunner = "engine"\nparams = {model = "m"}\n')
    with pytest.raises(UsageError, match="has no parameter 'model'"):
        load(tmp_path)
