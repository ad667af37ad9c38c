"""Built-in runners: the contract they are started under, and how their answers become a Trial. Real processes.

The runner here is a few lines of standard library: it speaks the JSON protocol as an engine in any language would.
"""

import json
import sys
from dataclasses import replace

import pytest

from perfguard.errors import BuildError
from perfguard.protocol import Result
from perfguard.records import Arm, Metric, Revision, Workload
from perfguard.trial.launch import Launched
from perfguard.trial.outcome import Observed, conclude, merge_origin
from perfguard.trial.ranks import run_ranks
from perfguard.trial.request import TrialRequest

RUNNER = """
import json, os, sys, time
rank = int(os.environ["RANK"])
spec = json.load(open(sys.argv[1]))
result = {
    "schema": "perfguard/result@1", "trial": spec["trial"], "rank": rank, "world_size": int(os.environ["WORLD_SIZE"]),
    "values": {"speed": 80.0 + rank}, "digests": {"plain": "abc"}, "measured_s": 0.5, "peak_memory_bytes": 10 + rank,
    "environment": dict(os.environ), "samples": {"plain": [0.1, 0.2]}, "load_s": 0.1,
    "origin": {"model.entry": {"path": spec["subject_root"] + "/model/entry.py", "sha256": "d" * 64}},
}
def ready():
    open(spec["ready"].replace("{rank}", str(rank)), "w").close()
def answer():
    path = spec["result"].replace("{rank}", str(rank))
    json.dump(result, open(path + ".part", "w"))
    os.rename(path + ".part", path)
exec(spec["params"].get("script", "ready(); answer()"))
"""
SPEED = Metric(name="speed", unit="token/s", better="higher")


@pytest.fixture
def bundle(tmp_path):
    (tmp_path / "bundle" / "runners").mkdir(parents=True)
    (tmp_path / "bundle" / "runners" / "__main__.py").write_text(RUNNER)
    (tmp_path / "tree").mkdir()
    return tmp_path / "bundle"


def request(bundle, script="ready(); answer()", world_size=1, env=None, **limits):
    folder = bundle.parent
    workload = Workload(
        name="w", runner="fake", metrics=(SPEED,), params={"script": script}, modes=("plain",), world_size=world_size,
        **({"timeout_s": 20.0, "ready_timeout_s": 20.0} | limits),
    )  # fmt: skip
    revision = Revision(name="HEAD~1", commit="c" * 40, tree="t" * 40)
    return TrialRequest(
        id="t-9", stage=1, block=0, slot=2, side="base", build=1, attempt=0, workload=workload,
        arm=Arm(side="base", revision=revision, env=env or {}), checkout=folder / "tree", caches=folder / "caches",
        folder=folder / "trial", strays=folder / "strays", owner="token", seed=11,
    )  # fmt: skip


def run(bundle, *arguments, **options):
    return run_ranks(request(bundle, *arguments, **options), bundle=bundle)


def test_rank_0_gives_the_values_and_all_ranks_are_in_the_record(bundle):
    trial = run(bundle, world_size=2, env={"NCCL_PROTO": "LL"})
    assert (trial.status, trial.values, trial.digests, trial.reasons) == ("ok", {"speed": 80.0}, {"plain": "abc"}, ())
    assert trial.measured_s == 0.5
    assert trial.record["samples"] == {"plain": [0.1, 0.2]}
    assert trial.record["peak_memory_bytes"] == 11
    assert trial.record["origin"]["model.entry"]["path"] == f"{bundle.parent}/tree/model/entry.py"
    assert [answer["rank"] for answer in trial.record["ranks"]] == [0, 1]
    assert trial.record["environment"]["NCCL_PROTO"] == "LL"
    json.dumps(trial.record)


def test_ranks_start_under_the_contract_of_torchrun_with_a_clean_environment(bundle, monkeypatch):
    monkeypatch.setenv("NCCL_ALGO", "Tree")
    monkeypatch.setenv("PYTHONPATH", "/somewhere")
    trial = run(bundle, world_size=2)
    seen = [answer["environment"] for answer in trial.record["ranks"]]
    for rank, environment in enumerate(seen):
        assert (environment["RANK"], environment["LOCAL_RANK"]) == (str(rank), str(rank))
        assert (environment["WORLD_SIZE"], environment["LOCAL_WORLD_SIZE"]) == ("2", "2")
        assert (environment["MASTER_ADDR"], environment["OMP_NUM_THREADS"]) == ("127.0.0.1", "1")
        assert not {"NCCL_ALGO", "PYTHONPATH"} & set(environment)
    assert seen[0]["MASTER_PORT"] == seen[1]["MASTER_PORT"]


def test_the_spec_says_what_to_do_and_where(bundle):
    run(bundle)
    spec = json.loads((bundle.parent / "trial" / "spec.json").read_text())
    assert (spec["trial"], spec["runner"], spec["modes"], spec["seed"]) == ("t-9", "fake", ["plain"], 11)
    assert spec["subject_root"] == str(bundle.parent / "tree")
    assert spec["result"] == f"{bundle.parent}/trial/result-{{rank}}.json"


def test_the_folder_of_the_launcher_is_not_on_its_path(bundle):
    trial = run(bundle, "result['environment'] = {'path': str(sys.path)}; ready(); answer()")
    assert str(bundle) not in trial.record["environment"]["path"]


def test_the_interpreter_of_the_arm_is_used(bundle, tmp_path):
    wrapper = tmp_path / "python"
    wrapper.write_text(f'#!/bin/sh\nMARK=mine exec {sys.executable} "$@"\n')
    wrapper.chmod(0o755)
    asked = request(bundle)
    trial = run_ranks(replace(asked, arm=replace(asked.arm, python=str(wrapper))), bundle=bundle)
    assert trial.record["environment"]["MARK"] == "mine"


def test_a_rank_that_dies_while_loading_is_crashed_before_ready_with_its_log(bundle):
    trial = run(bundle, "print('no GPU', flush=True); os._exit(4)")
    (reason,) = trial.reasons
    assert (trial.status, trial.record["before_ready"], trial.values) == ("crashed", True, {})
    assert (reason.code, reason.text) == ("crashed", "rank 0 ended with exit code 4\nno GPU")


def test_a_rank_that_dies_while_measured_is_crashed_after_ready(bundle):
    trial = run(bundle, "ready(); os.kill(os.getpid(), 11)")
    assert (trial.status, trial.record["before_ready"]) == ("crashed", False)
    assert "was ended by SIGSEGV" in trial.reasons[0].text


def test_a_hang_is_timed_out_in_its_phase_with_stacks(bundle):
    hang = "import faulthandler, signal; faulthandler.register(signal.SIGURG); ready(); time.sleep(600)"
    trial = run(bundle, hang, timeout_s=0.2)
    (reason,) = trial.reasons
    assert (trial.status, reason.code, trial.record["before_ready"]) == ("timed_out", "timed_out", False)
    assert "after it was ready (--timeout)" in reason.text
    assert "Current thread" in reason.text


def test_a_load_without_end_names_the_other_limit(bundle):
    trial = run(bundle, "import signal; signal.signal(10, signal.SIG_IGN); time.sleep(600)", ready_timeout_s=0.3)
    assert (trial.status, trial.record["before_ready"]) == ("timed_out", True)
    assert "not ready within 0.3 s (--ready-timeout)" in trial.reasons[0].text


FAIL = "result.update(status='failed', error={!r}); answer(); os._exit(1)"


def test_a_wrong_origin_is_invalid_and_says_same_code(bundle):
    trial = run(bundle, FAIL.format("origin: model was loaded from /home/u/repo/model"))
    (reason,) = trial.reasons
    assert (trial.status, reason.code) == ("invalid", "same_code")
    assert reason.text == "rank 0: origin: model was loaded from /home/u/repo/model"


def test_a_run_that_measured_something_else_than_was_asked_for_is_invalid(bundle):
    trial = run(bundle, FAIL.format("invalid: InvalidError: accept length 1.400"))
    (reason,) = trial.reasons
    assert (trial.status, reason.code) == ("invalid", "not_as_asked")
    assert reason.text == "rank 0: invalid: InvalidError: accept length 1.400"


def test_a_commit_that_cannot_be_measured_ends_the_build(bundle):
    with pytest.raises(BuildError, match=r"HEAD~1 \(cccccccccccc\) cannot be measured: API_VERSION is 99"):
        run(bundle, FAIL.format("unbuildable: API_VERSION is 99"))


def test_a_runner_that_says_why_it_failed_is_quoted(bundle):
    trial = run(bundle, FAIL.format("RuntimeError: CUDA error"), world_size=1)
    assert (trial.status, trial.reasons[0].code) == ("crashed", "runner_failed")
    assert trial.reasons[0].text == "rank 0: RuntimeError: CUDA error"


def test_a_result_of_an_earlier_attempt_is_not_taken_for_an_answer(bundle):
    assert run(bundle).status == "ok"
    trial = run(bundle, "ready()")
    assert (trial.status, trial.values) == ("invalid", {})
    assert trial.reasons[0].text == "rank 0 ended well, but: no result was written"


@pytest.mark.parametrize(
    ("script", "code", "text"),
    [
        ("result['trial'] = 'other'; answer()", "protocol", "says it is of trial other, rank 0 of 1"),
        ("result['schema'] = 'perfguard/result@9'; answer()", "protocol", "schema is 'perfguard/result@9'"),
        ("result['values'] = {}; answer()", "metric_missing", "metric speed is missing"),
        ("result['values'] = {'speed': float('nan')}; answer()", "not_a_number", "metric speed is nan"),
        ("del result['environment']['NCCL_PROTO']; answer()", "environment", "rank 0 does not see NCCL_PROTO"),
    ],
)
def test_an_answer_that_cannot_be_used_is_invalid_with_its_reason(bundle, script, code, text):
    trial = run(bundle, "ready(); " + script, env={"NCCL_PROTO": "LL"})
    (reason,) = trial.reasons
    assert (trial.status, trial.values, reason.code) == ("invalid", {}, code)
    assert text in reason.text


def test_secrets_that_ranks_report_are_not_stored(bundle):
    trial = run(bundle, env={"HF_TOKEN": "hunter2"})
    assert trial.status == "ok"
    assert "hunter2" not in json.dumps(trial.record)


def result(rank, **changed):
    return Result(**({"trial": "t-9", "rank": rank, "world_size": 2, "values": {"speed": 1.0}} | changed))


def observed(bundle, *results, status="ok", codes=(0, 0), env=None):
    launched = Launched(status=status, returncodes=codes, wall_s=(1.0, 1.0), measured_s=1.0, before_ready=False)
    return Observed(request=request(bundle, world_size=2, env=env), launched=launched, results=results)


def test_the_rank_that_knows_why_speaks_for_those_that_only_died(bundle):
    peer = result(0, status="failed", error="RuntimeError: connection reset by peer")
    cause = result(1, status="failed", error="origin: model from /elsewhere")
    status, reasons = conclude(observed(bundle, peer, cause, status="crashed", codes=(-9, 1)))
    assert (status, [(reason.code, reason.text) for reason in reasons]) == (
        "invalid", [("same_code", "rank 1: origin: model from /elsewhere")],
    )  # fmt: skip


def test_a_rank_that_could_not_write_its_result_is_told_by_its_exit_code(bundle):
    """Its own words would be in a log on the same disk."""
    seen = observed(bundle, "no result", "no result", status="crashed", codes=(74, 0))
    status, (reason,) = conclude(seen)
    assert (status, reason.code) == ("crashed", "crashed")
    folder = seen.request.folder
    said = f"rank 0 ended with exit code 74: its result could not be written to {folder}; is the disk full?"
    assert reason.text == said


def test_a_variable_lost_on_one_rank_is_named_with_the_rank(bundle):
    ranks = (result(0, environment={"NCCL_PROTO": "LL"}), result(1, environment={}))
    status, reasons = conclude(observed(bundle, *ranks, env={"NCCL_PROTO": "LL"}))
    assert status == "invalid"
    assert reasons[0].text.startswith("rank 1 does not see NCCL_PROTO, asked for as 'LL': it had not arrived")


def test_ranks_that_loaded_different_files_are_no_trial(bundle):
    here, there = ({"path": path, "sha256": "a"} for path in ("/one/model.py", "/two/model.py"))
    ranks = (result(0, origin={"model": here}), result(1, origin={"model": there, "model.x": here}))
    merged, reasons = merge_origin(ranks)
    assert merged == {"model": here, "model.x": here}
    assert reasons[0].text == "rank 1 loaded model from /two/model.py, another rank from /one/model.py"
    assert conclude(observed(bundle, *ranks))[0] == "invalid"
