"""The launcher as a real process: paths, origin, faults, signals, result files."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from perfguard import protocol

ROOT = Path(__file__).resolve().parents[2]
LAUNCHER = ROOT / "runners" / "__main__.py"

# A subject that speaks the contract without torch: the next id depends on all ids before it; of the drafted ids
# the third is always wrong and the second in every other cycle.
STAND_IN = """
API_VERSION = 1

def target(ids):
    return (sum(ids) * 7 + len(ids)) % 256

def build(spec):
    return Session(spec)

class Session:
    def __init__(self, spec):
        self.spec, self.ids, self.cycles = spec, [], 0
    def prefill(self, prompt, mode="plain"):
        self.ids, self.cycles = list(prompt), 0
        self.ids.append(target(self.ids))
        return self.ids[-1]
    def decode(self, token):
        assert token == self.ids[-1]
        self.ids.append(target(self.ids))
        return self.ids[-1]
    def draft(self):
        ids = list(self.ids)
        for _ in range(self.spec["num_draft_tokens"]):
            ids.append(target(ids))
        drafted = ids[len(self.ids):]
        drafted[2] = 255 - drafted[2]
        if self.cycles % 2:
            drafted[1] = 255 - drafted[1]
        self.cycles += 1
        return drafted
    def verify(self, drafted):
        return [target(self.ids + drafted[:n]) for n in range(len(drafted) + 1)]
    def accept(self, drafted, verified):
        n = next((i for i, d in enumerate(drafted) if d != verified[i]), len(drafted))
        self.ids += [*drafted[:n], verified[n]]
        return [*drafted[:n], verified[n]]
    def synchronize(self): pass
    def marks(self): return {}
    def peak_memory_bytes(self): return 12345
    def describe(self): return {"versions": {"torch": "none"}, "spec": dict(self.spec)}
    def close(self): pass
"""


@pytest.fixture
def subject(tmp_path):
    root = tmp_path / "subject"
    (root / "model").mkdir(parents=True)
    (root / "model" / "__init__.py").touch()
    (root / "model" / "entry.py").write_text(STAND_IN)
    return root


@pytest.fixture
def empty(tmp_path):
    (tmp_path / "subject").mkdir()
    return tmp_path / "subject"


def write_spec(folder, subject_root, runner, modes=("plain", "eagle3"), seed=1, trial="t1", **params):
    spec = protocol.Spec(
        trial=trial, runner=runner, modes=modes, params=params, subject_root=str(subject_root), seed=seed,
        result=str(folder / "result-{rank}.json"), ready=str(folder / "ready-{rank}"),
    )  # fmt: skip
    protocol.write(folder / "spec.json", spec)
    return folder / "spec.json"


def workload_files(folder, prompts=((1, 2, 3), (40, 50))):
    """Parameters that point to a prompt file and to stand-ins for weights."""
    (folder / "prompts.json").write_text(json.dumps({"prompts": prompts}))
    (folder / "weights").write_bytes(b"w")
    weights = str(folder / "weights")
    return {"target": weights, "draft": weights, "prompt_file": str(folder / "prompts.json"), "prompts": len(prompts)}


def start(spec, launcher=LAUNCHER, options=("-P",), **env):
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "PERFGUARD"))}
    command = [sys.executable, *options, str(launcher), str(spec)]
    return subprocess.Popen(command, env={**clean, **env}, stderr=subprocess.PIPE, text=True)


def launch(spec, **options):
    """(exit code, result of rank 0 or None, standard error)."""
    process = start(spec, **options)
    errors = process.communicate(timeout=60)[1]
    path = spec.parent / "result-0.json"
    return process.returncode, protocol.read_result(path) if path.exists() else None, errors


def wait_for(path, process):
    for _ in range(600):
        if path.exists():
            return
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.05)
    raise AssertionError(f"{path} never appeared")


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


# --- whose code runs


def test_a_subject_with_its_own_perfguard_and_runners_is_measured_by_the_harness(tmp_path, subject):
    for package in ("perfguard", "runners"):
        (subject / package).mkdir()
        (subject / package / "__init__.py").write_text("raise SystemExit('the subject measures itself')")
    params = workload_files(tmp_path)
    spec = write_spec(tmp_path, subject, "tp_moe", tokens=9, **params)
    code, result, errors = launch(spec, PYTHONPATH=str(subject))
    assert code == 0, errors
    assert result.origin["model"]["path"].startswith(str(subject))


def test_another_model_on_pythonpath_loses_and_is_named(tmp_path, subject):
    other = tmp_path / "other"
    (other / "model").mkdir(parents=True)
    (other / "model" / "__init__.py").write_text("raise SystemExit('the other model')")
    spec = write_spec(tmp_path, subject, "tp_moe", **workload_files(tmp_path))
    code, result, errors = launch(spec, PYTHONPATH=str(other))
    assert code == 0, errors
    assert str(other / "model" / "__init__.py") in result.process["other_models"]


def test_a_subject_without_model_does_not_run_the_one_on_pythonpath(tmp_path, empty):
    other = tmp_path / "other"
    shutil.copytree(empty, other)
    (other / "model").mkdir()
    (other / "model" / "__init__.py").touch()
    (other / "model" / "entry.py").write_text(STAND_IN)
    spec = write_spec(tmp_path, empty, "tp_moe", **workload_files(tmp_path))
    code, result, _ = launch(spec, PYTHONPATH=str(other))
    assert (code, result.status, result.values) == (1, "failed", {})
    assert result.error.startswith("origin: ")
    assert str(other / "model") in result.error.splitlines()[0]
    assert str(empty) in result.error.splitlines()[0]


def test_a_model_that_sitecustomize_has_imported_is_found_out(tmp_path, subject):
    other = tmp_path / "other"
    shutil.copytree(subject, other)
    (other / "sitecustomize.py").write_text("import model")
    spec = write_spec(tmp_path, subject, "tp_moe", **workload_files(tmp_path))
    code, result, _ = launch(spec, PYTHONPATH=str(other))
    assert (code, result.status) == (1, "failed")
    assert result.error.startswith("origin: ")
    assert str(other / "model" / "__init__.py") in result.error


def test_another_model_without_an_entry_is_a_wrong_origin_and_not_an_unbuildable_commit(tmp_path, empty):
    other = tmp_path / "other"
    other.mkdir()
    (other / "model.py").touch()
    spec = write_spec(tmp_path, empty, "tp_moe", **workload_files(tmp_path))
    result = launch(spec, PYTHONPATH=str(other))[1]
    assert result.error.startswith("origin: ")
    assert str(other / "model.py") in result.error.splitlines()[0]


def test_another_perfguard_that_sitecustomize_has_imported_is_not_used(tmp_path, empty):
    other = tmp_path / "other"
    (other / "perfguard").mkdir(parents=True)
    (other / "perfguard" / "__init__.py").touch()
    (other / "perfguard" / "protocol.py").write_text("read_spec = write = None")
    (other / "sitecustomize.py").write_text("import perfguard.protocol")
    code, result, errors = launch(write_spec(tmp_path, empty, "fake"), PYTHONPATH=str(other))
    assert code == 0, errors
    assert result.status == "ok"


def test_a_module_imported_late_from_elsewhere_is_found_out(tmp_path, subject):
    other = tmp_path / "other"
    other.mkdir()
    (other / "late.py").write_text("")
    entry = subject / "model" / "entry.py"
    lines = ("import model", f"model.__path__.append({str(other)!r})", "import model.late")
    late = "".join(f"\n        {line}" for line in lines)
    entry.write_text(STAND_IN.replace("def close(self): pass", f"def close(self):{late}"))
    code, result, _ = launch(write_spec(tmp_path, subject, "tp_moe", **workload_files(tmp_path)))
    assert code == 1
    assert result.error.startswith("origin: ")
    assert "model.late" in result.error


def test_the_harness_measures_from_the_layout_of_a_wheel_too(tmp_path, subject):
    site = tmp_path / "site-packages"
    shutil.copytree(ROOT / "perfguard", site / "perfguard", ignore=shutil.ignore_patterns("__pycache__", "_bundle"))
    bundle = site / "perfguard" / "_bundle"
    skipped = shutil.ignore_patterns("__pycache__", "assets")
    shutil.copytree(ROOT / "runners", bundle / "runners", ignore=skipped)
    (bundle / "model").mkdir()
    (bundle / "model" / "__init__.py").write_text("raise SystemExit('the bundled model')")
    spec = write_spec(tmp_path, subject, "tp_moe", **workload_files(tmp_path))
    code, result, errors = launch(spec, launcher=bundle / "runners" / "__main__.py")
    assert code == 0, errors
    assert result.origin["model"]["path"].startswith(str(subject))
    assert not [entry for entry in result.process["sys_path"] if entry.startswith(str(site))]


def test_without_dash_p_the_folder_of_the_script_leaves_the_path(tmp_path, subject):
    # torchrun starts a script without -P, which puts runners/ first: `import timing` would find ours.
    spec = write_spec(tmp_path, subject, "tp_moe", **workload_files(tmp_path))
    code, result, errors = launch(spec, options=())
    assert code == 0, errors
    assert result.process["sys_path"][0] == str(subject)
    assert str(ROOT / "runners") not in result.process["sys_path"]


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("import no_such_package", "no_such_package"),
        ("def build(spec:", "SyntaxError"),
        ("raise SystemExit('no')", "SystemExit"),
        ("API_VERSION = 99", "API_VERSION is 99, supported: 1"),
        ("", "API_VERSION is None"),
    ],
)
def test_a_subject_that_does_not_import_or_speaks_another_version_is_unbuildable(tmp_path, subject, source, said):
    (subject / "model" / "entry.py").write_text(source)
    code, result, _ = launch(write_spec(tmp_path, subject, "tp_moe", **workload_files(tmp_path)))
    assert (code, result.status) == (1, "failed")
    assert result.error.startswith("unbuildable: ")
    assert said in result.error
    assert not (tmp_path / "ready-0").exists()


def test_a_subject_without_model_is_unbuildable(tmp_path, empty):
    result = launch(write_spec(tmp_path, empty, "tp_moe", **workload_files(tmp_path)))[1]
    assert result.error.startswith("unbuildable: ")
    assert "No module named 'model'" in result.error


def test_a_subject_that_breaks_while_measured_fails_with_the_place(tmp_path, subject):
    entry = subject / "model" / "entry.py"
    entry.write_text(STAND_IN.replace("assert token == self.ids[-1]", "raise MemoryError('planted')"))
    code, result, errors = launch(write_spec(tmp_path, subject, "tp_moe", **workload_files(tmp_path)))
    assert (code, result.status) == (1, "failed")
    assert result.error.startswith("MemoryError: planted")
    assert str(entry) in result.error
    assert "planted" in errors


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
    assert (code, result) == (1, None)
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
    process.send_signal(signal.SIGUSR1)
    stacks = next(line for line in process.stderr if "in fail" in line)
    assert "fake.py" in stacks
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
