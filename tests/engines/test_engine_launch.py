"""One launch of an engine's runner against stand-ins: what it reads, and what it calls invalid and why."""

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from engine_support import codes_of, is_alive, launch

EAGLE3 = "--speculative-algorithm EAGLE3 --speculative-num-draft-tokens 4"
NGRAM = '--speculative-config \'{"method": "ngram", "num_speculative_tokens": 3}\''


def speculating(engine):
    return {"speculative_args": EAGLE3 if engine == "sglang" else NGRAM}


def pids_of(path):
    return [int(pid) for pid in path.read_text().split()]


# A request of 7 tokens: one of prefill, then cycles of 2, 3, and one token of a last: 3 cycles, 3 drafts accepted.
@pytest.mark.parametrize(
    ("engine", "names", "length", "definition"),
    [
        ("sglang", "new", 7 / 3, "tokens / verify"),
        ("sglang", "old", 7 / 3, "tokens / verify"),
        ("sglang", "older", 7 / 3, "tokens / verify"),
        ("vllm", "", 1 + 3 / 3, "1 + accepted / drafts"),
    ],
)
def test_accept_length_is_that_of_the_measured_requests_in_the_engine_s_own_definition(
    tmp_path, engine, names, length, definition
):
    result = launch(tmp_path, engine, {"names": names}, ("eagle3",), **speculating(engine))
    assert (result["status"], result["reasons"]) == ("ok", [])
    assert result["values"]["eagle3_accept_length"] == pytest.approx(length, abs=1e-12)
    counts = result["counts"]["eagle3"]
    assert (counts["cycles"], counts["accepted"], counts["drafted"]) == (9, 9, 27)
    assert (counts["accept_length_is"], counts["num_output_tokens"]) == (definition, 21)
    assert result["values"]["eagle3_accept_rate"] == pytest.approx(9 / 27)


def test_both_modes_are_measured_each_on_a_server_of_its_own(tmp_path):
    result = launch(tmp_path, "sglang", {"names": "older"}, ("plain", "eagle3"), **speculating("sglang"))
    assert (result["status"], result["reasons"]) == ("ok", [])
    assert "plain_accept_length" not in result["values"]
    assert result["values"]["eagle3_accept_length"] == 7 / 3
    assert "EAGLE3" in result["engine"]["eagle3"]["command"]
    assert "EAGLE3" not in result["engine"]["plain"]["command"]
    assert result["engine"]["plain"]["pid"] != result["engine"]["eagle3"]["pid"]


def test_what_a_server_is_and_where_its_code_came_from_is_recorded(tmp_path):
    result = launch(tmp_path, "sglang", {})
    engine = result["engine"]["load"]
    assert (engine["name"], engine["version"], engine["model"]) == ("sglang", "0.5.6", "models/tiny")
    assert engine["command"][:3] == [sys.executable, "-m", "sglang.launch_server"]
    assert engine["prefix_cache"] == "flushed before the measured window"
    assert engine["module_path"] == str(tmp_path / "checkout" / "sglang")
    assert set(result["origin"]) == {"sglang", "sglang.launch_server", "sglang.version"}
    assert "OMP_NUM_THREADS" not in engine["environment"]  # ours, for ranks that compute
    assert engine["stop"]["left"] == []


def test_several_tokens_in_one_event_do_not_look_like_one(tmp_path):
    result = launch(tmp_path, "sglang", {"gap_s": 0.01, "tokens_per_event": 4}, tokens=12)
    assert result["counts"]["load"]["num_output_tokens"] == 3 * 12
    assert result["counts"]["load"]["num_events"] <= 3 * 3
    # The last of three events comes 80 ms after the first; whoever reads it late reads it later still.
    assert result["values"]["e2e_s"] > 0.08


@pytest.mark.parametrize("missing", [["/ready", "/server_info"], ["/ready", "/model_info", "/v1/models"]])
def test_an_older_server_that_lacks_newer_paths_is_measured(tmp_path, missing):
    result = launch(tmp_path, "sglang", {"missing": missing})
    assert (result["status"], result["reasons"]) == ("ok", [])
    assert result["engine"]["load"]["version"] == "0.5.6"


def test_a_slow_start_is_waited_for(tmp_path):
    result = launch(tmp_path, "vllm", {"start_s": 0.4, "load_s": 0.5})
    assert (result["status"], result["reasons"]) == ("ok", [])
    assert result["load_s"] > 0.9


@pytest.mark.parametrize(
    ("engine", "script", "code", "words"),
    [
        ("vllm", {"version": "0.5.5"}, "wrong_engine", "says it is version 0.5.5; this side's is 0.5.6"),
        ("sglang", {"version": "0.5.5"}, "wrong_engine", "says it is version 0.5.5; this side's is 0.5.6"),
        ("sglang", {"model": "models/other"}, "wrong_engine", "offers models/other, asked for was models/tiny"),
        ("vllm", {"model": "models/other"}, "wrong_engine", "offers models/other, asked for was models/tiny"),
        ("vllm", {"unread_models": True}, "wrong_engine", "which model is served cannot be told: /v1/models answered"),
        ("sglang", {"die_after": 5, "die_at_request": 3}, "engine_died", "it ended with code 9"),
        ("vllm", {"die_after": 5, "die_at_request": 3}, "engine_died", "it ended with code 9"),
        ("vllm", {"stop_after": 5}, "short_answers", "(the first: 5, finish 'length')"),
        ("sglang", {"fail_share": 0.34}, "requests_failed", "too many requests"),
        ("sglang", {"missing": ["/flush_cache"]}, "cache_not_flushed", "/flush_cache answered 404"),
        ("vllm", {"extra_tokens": 40}, "other_clients", "made 141 tokens while this client got 21"),
    ],
    ids=lambda part: part if isinstance(part, str) and " " not in part else "",
)
def test_what_must_not_count_is_invalid_and_says_why(tmp_path, engine, script, code, words):
    result = launch(tmp_path, engine, script)
    assert result["status"] == "ok", result["error"]
    assert code in codes_of(result)
    assert words in next(reason["text"] for reason in result["reasons"] if reason["code"] == code)


def test_an_accept_length_that_is_not_told_is_unknown_and_not_one(tmp_path):
    result = launch(tmp_path, "sglang", {"names": "none"}, ("eagle3",), **speculating("sglang"))
    assert codes_of(result) == ["accept_length_unread"]
    assert "eagle3_accept_length" not in result["values"]


@pytest.mark.parametrize("engine", ["sglang", "vllm"])
def test_a_synthetic_accept_length_is_asked_of_the_engine_and_read_back(tmp_path, engine):
    asked = {**speculating(engine), "synthetic_accept_length": 2.5, "tokens": 101}
    result = launch(tmp_path, engine, {"gap_s": 0.001}, ("eagle3",), **asked)
    assert codes_of(result) == []
    assert result["values"]["eagle3_accept_length"] == pytest.approx(2.5, rel=0.02)


@pytest.mark.parametrize("engine", ["sglang", "vllm"])
def test_an_engine_that_does_not_simulate_as_asked_is_found_out(tmp_path, engine):
    asked = {**speculating(engine), "synthetic_accept_length": 2.8, "tokens": 101}
    result = launch(tmp_path, engine, {"gap_s": 0.001, "unsynthetic": True}, ("eagle3",), **asked)
    assert codes_of(result) == ["synthetic_accept_length"]
    assert "asked for was 2.8" in result["reasons"][-1]["text"]


def test_an_engine_that_dies_before_it_is_ready_is_a_crash_with_its_last_words(tmp_path):
    result = launch(tmp_path, "sglang", {"die_at_start": 3})
    assert (result["status"], result["code"], result["is_ready"]) == ("failed", 1, False)
    assert "the engine ended with code 3 before it was ready" in result["error"]
    assert "CUDA error: out of memory" in result["error"]


def test_a_python_without_the_engine_is_unbuildable_and_not_tried_again(tmp_path):
    result = launch(tmp_path, "sglang", {}, workdir="sglang")
    assert result["error"].startswith("unbuildable: ")
    assert "finds no package sglang" in result["error"]


def test_all_processes_of_an_engine_are_ended_also_those_that_left_its_session(tmp_path):
    pids = tmp_path / "pids"
    result = launch(tmp_path, "vllm", {"orphan": True, "pids": str(pids)}, stop_grace_s=0.5)
    assert result["reasons"] == []
    assert result["engine"]["load"]["stop"]["num_killed"] == 1
    # Those of the last launch, where a busy machine made it be made again.
    assert len(pids_of(pids)[-2:]) == 2
    assert [pid for pid in pids_of(pids) if is_alive(pid)] == []


def test_a_server_that_keeps_its_port_after_sigterm_is_waited_for_then_killed(tmp_path):
    result = launch(tmp_path, "sglang", {"linger_s": 30.0}, stop_grace_s=0.3)
    stop = result["engine"]["load"]["stop"]
    assert (stop["num_killed"], stop["left"], stop["port_is_free"]) == (1, [], True)


def test_a_running_server_is_measured_and_left_alone(tmp_path):
    """Its prompts are new in every trial, so that its cache knows none of them."""
    first = launch(tmp_path / "own", "vllm", {})
    checkout = tmp_path / "own" / "checkout"
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    command = ["-m", "vllm.entrypoints.openai.api_server", "--model", "models/tiny", "--host", "127.0.0.1"]
    server = subprocess.Popen([sys.executable, *command, "--port", str(port)], cwd=checkout, stdout=subprocess.DEVNULL)
    try:
        wait_for_port(port)
        result = launch(tmp_path / "url", "vllm", {}, url=f"http://127.0.0.1:{port}")
        assert (result["status"], result["reasons"]) == ("ok", [])
        assert result["engine"]["load"]["is_attached"]
        assert result["engine"]["load"]["stop"] == {}
        assert (result["digests"], result["origin"]) == ({}, {})
        assert first["digests"] != {}
        assert server.poll() is None
    finally:
        server.kill()
        server.wait()


def wait_for_port(port, limit_s=20.0):
    until_s = time.monotonic() + limit_s
    while time.monotonic() < until_s:
        with socket.socket() as asking:
            if asking.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.02)
    raise AssertionError(f"nobody listens on {port}")


def test_a_server_of_any_other_kind_is_started_by_a_command_of_one_s_own(tmp_path):
    """Strict OpenAI: prompts are texts, and nothing is asked that the interface does not know."""
    command = "{python} -m vllm.entrypoints.openai.api_server --model {model} --host {host} --port {port}"
    result = launch(tmp_path, "vllm", {}, engine="openai", command=command)
    assert (result["status"], codes_of(result)) == ("ok", [])
    assert result["engine"]["load"]["version"] == ""
    assert result["values"]["output_throughput"] > 0


def test_the_environment_of_a_server_is_what_the_arm_asks_for_without_what_is_meant_for_ranks():
    from runners.engines.server import environment

    inherited = {
        "PATH": "/bin", "RANK": "0", "MASTER_PORT": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "4",
        "PERFGUARD_ASKED": "MKL_NUM_THREADS,NCCL_PROTO", "PERFGUARD_OWNER": "me", "NCCL_PROTO": "LL",
    }  # fmt: skip
    env = environment(inherited, {"NCCL_PROTO": "Simple", "SGLANG_SIMULATE_ACC_LEN": "2"}, "/envs/a/bin/python")
    assert env == {
        "PATH": "/envs/a/bin" + os.pathsep + "/bin", "MKL_NUM_THREADS": "4", "PERFGUARD_OWNER": "me",
        "NCCL_PROTO": "LL", "SGLANG_SIMULATE_ACC_LEN": "2", "SPT_NOENV": "1",
    }  # fmt: skip


def test_a_python_that_is_named_relatively_lies_in_the_checkout(tmp_path):
    from runners.engines.program import python_of

    assert python_of(".venv/bin/python", tmp_path) == str(tmp_path / ".venv" / "bin" / "python")
    assert python_of("/envs/a/bin/python", tmp_path) == "/envs/a/bin/python"
    assert Path(python_of("", tmp_path)).name.startswith("python")


def test_an_installed_copy_of_the_commit_counts_as_the_checkout_s_own(tmp_path):
    from runners.engines.probe import Found, package_files

    checkout, installed = tmp_path / "tree" / "python" / "sglang", tmp_path / "site-packages" / "sglang"
    for folder, other in ((checkout, "1"), (installed, "2")):
        folder.mkdir(parents=True)
        (folder / "__init__.py").write_text("")
        (folder / "layers.py").write_text(f"SAME = {other}\n")
    files = package_files(Found(module="sglang", folder=installed), tmp_path / "tree")
    assert files["sglang"]["same_as"] == str(checkout / "__init__.py")
    assert "same_as" not in files["sglang.layers"]
    assert json.dumps(files)
