"""The launcher as a real process: paths, origin, faults, signals, result files."""

import signal

import pytest
from launcher_support import launch, start, wait_for, workload_files, write_spec

from perfguard import protocol
from runners.__main__ import STACKS

# --- a whole launch of tp_moe with a stand-in model


def test_both_modes_are_measured_in_one_launch_with_exact_counts(tmp_path, subject):
    params = workload_files(tmp_path)
    code, result, errors = launch(write_spec(tmp_path, subject, "tp_moe", tokens=9, **params))
    assert (code, result.status, result.error) == (0, "ok", ""), errors
    assert (tmp_path / "ready-0").read_bytes() == b""
    # 9 ids: one from prefill, then cycles emit 3, 2, 3 of the 8 others: no surplus. Twice, for two prompts.
    assert result.counts["eagle3"] == {
        "cycles": 6, "drafted": 18, "accepted": 10, "emitted": 16, "accepted_by_position": [6, 4, 0],
        "cycles_by_prompt": [3, 3], "emitted_by_prompt": [8, 8], "prompts": 2, "tokens": 18, "marks": {},
        "equals_plain": True,
    }  # fmt: skip
    assert result.counts["plain"] == {"prompts": 2, "tokens": 18, "steps": 16, "marks": {}}
    assert result.values["eagle3_accept_length"] == pytest.approx(16 / 6)
    assert result.digests["plain"] == result.digests["eagle3"]
    assert set(result.values) == {
        "plain_throughput", "plain_token_s", "plain_ttft_s", "eagle3_throughput", "eagle3_accept_length",
        "eagle3_draft_s", "eagle3_verify_s", "eagle3_accept_s", "eagle3_cycle_s", "eagle3_ttft_s",
    }  # fmt: skip
    assert all(value > 0 for value in result.values.values())
    assert result.peak_memory_bytes == 12345
    assert result.load_s > 0
    assert result.measured_s > 0
    assert result.versions["torch"] == "none"
    assert set(result.versions["files_sha256"]) == {"target", "draft", "prompts"}
    assert set(result.origin) == {"model", "model.entry"}
    assert result.origin["model.entry"]["path"] == str(subject / "model" / "entry.py")


def test_order_of_modes_does_not_change_what_is_counted(tmp_path, subject):
    results = []
    for modes in (("plain", "eagle3"), ("eagle3", "plain")):
        folder = tmp_path / "-".join(modes)
        folder.mkdir()
        spec = write_spec(folder, subject, "tp_moe", modes, tokens=20, **workload_files(folder))
        results.append(launch(spec)[1])
    first, second = results
    assert next(iter(first.samples)).startswith("plain")
    assert next(iter(second.samples)).startswith("eagle3")
    assert first.counts == second.counts
    assert first.digests == second.digests


def test_a_launch_of_one_mode_loads_no_draft_and_reports_no_metric_of_the_other(tmp_path, subject):
    code, result, errors = launch(write_spec(tmp_path, subject, "tp_moe", ("plain",), **workload_files(tmp_path)))
    assert code == 0, errors
    assert set(result.values) == {"plain_throughput", "plain_token_s", "plain_ttft_s"}
    assert set(result.digests) == {"plain"}
    assert result.versions["session"]["spec"]["draft"] is None


def test_ranks_write_their_own_files_and_only_the_first_carries_values(tmp_path, subject):
    spec = write_spec(tmp_path, subject, "tp_moe", tp=2, **workload_files(tmp_path))
    processes = [start(spec, RANK=str(rank), WORLD_SIZE="2") for rank in (0, 1)]
    errors = [process.communicate(timeout=60)[1] for process in processes]
    assert [process.returncode for process in processes] == [0, 0], errors
    first, second = (protocol.read_result(tmp_path / f"result-{rank}.json") for rank in (0, 1))
    assert (first.rank, second.rank, second.world_size) == (0, 1, 2)
    assert first.values
    assert (second.values, second.samples, second.counts) == ({}, {}, {})
    assert second.digests == first.digests
    assert second.origin == first.origin
    assert (tmp_path / "ready-1").exists()


def test_the_environment_is_reported_as_seen_and_where_the_subject_changed_it(tmp_path, subject):
    (subject / "model" / "__init__.py").write_text("import os\nos.environ['NCCL_PROTO'] = 'Simple'\n")
    spec = write_spec(tmp_path, subject, "tp_moe", **workload_files(tmp_path))
    result = launch(spec, NCCL_PROTO="LL", NCCL_ALGO="Ring", SECRET_TOKEN="x")[1]
    assert result.environment["NCCL_PROTO"] == "Simple"
    assert result.environment["exec:NCCL_PROTO"] == "LL"
    assert result.environment["NCCL_ALGO"] == "Ring"
    assert "exec:NCCL_ALGO" not in result.environment
    assert "SECRET_TOKEN" not in result.environment


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"tokens": 1}, "tokens is 1"),
        ({"prompts": 3}, "prompts is 3"),
        ({"tp": 2}, "tp is 2, but 1 ranks"),
        ({"num_draft_token": 2}, "did you mean 'num_draft_tokens'"),
    ],
)
def test_wrong_parameters_are_named(tmp_path, subject, params, said):
    code, result, _ = launch(write_spec(tmp_path, subject, "tp_moe", **(workload_files(tmp_path) | params)))
    assert (code, result.status) == (1, "failed")
    assert result.error.startswith("usage: params: ")
    assert said in result.error


# --- spec and result files


def test_no_spec_or_a_broken_one_is_said_on_standard_error(tmp_path):
    missing = launch(tmp_path / "spec.json")
    assert missing[0] == 2
    assert "spec.json" in missing[2]
    (tmp_path / "spec.json").write_text('{"schema": "perfguard/spec@9"}')
    broken = launch(tmp_path / "spec.json")
    assert broken[0] == 2
    assert "perfguard/spec@9" in broken[2]


def test_a_result_path_that_cannot_be_written_is_named(tmp_path, empty):
    spec = write_spec(tmp_path, empty, "fake")
    text = spec.read_text().replace("result-{rank}.json", "no_such_folder/result-{rank}.json")
    spec.write_text(text)
    code, result, errors = launch(spec)
    assert (code, result) == (protocol.UNWRITTEN, None)
    assert "no_such_folder/result-0.json cannot be written" in errors


def test_no_temporary_file_is_left_beside_the_result(tmp_path, empty):
    launch(write_spec(tmp_path, empty, "fake"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ready-0", "result-0.json", "spec.json", "subject"]


def test_an_unknown_runner_or_mode_fails_with_the_known_ones(tmp_path, empty, subject):
    result = launch(write_spec(tmp_path, empty, "fakes"))[1]
    assert "tp_moe, fake" in result.error
    result = launch(write_spec(tmp_path, subject, "tp_moe", ("turbo",), **workload_files(tmp_path)))[1]
    assert "plain, eagle3" in result.error


# --- signals


def test_a_hanging_rank_shows_its_stacks_when_asked_and_dies_of_sigterm(tmp_path, empty):
    process = start(write_spec(tmp_path, empty, "fake", hang="measured"))
    wait_for(tmp_path / "ready-0", process)
    frame = ""
    while "in fail" not in frame:  # it says that it is ready a moment before it hangs; frames come innermost first
        process.send_signal(STACKS)
        frame = next(line for line in process.stderr if "in fail" in line or "in <module>" in line)
    assert "fake.py" in frame
    process.terminate()
    process.communicate(timeout=10)
    assert process.returncode == -signal.SIGTERM
    assert not (tmp_path / "result-0.json").exists()


# --- planned crashes of the fake runner


@pytest.mark.parametrize(
    ("how", "code", "has_result"), [("raise", 1, True), ("exit", 3, False), ("kill", -signal.SIGKILL, False)]
)
@pytest.mark.parametrize("window", ["before", "measured"])
def test_fake_crashes_in_the_planned_window(tmp_path, empty, window, how, code, has_result):
    returned, result, _ = launch(write_spec(tmp_path, empty, "fake", crash=window, crash_how=how))
    assert returned == code
    assert (tmp_path / "ready-0").exists() == (window == "measured")
    assert (result is not None) == has_result
    if result is not None:
        assert result.error.startswith("RuntimeError: planned crash")
