"""`compare --scope in-process` end to end: real processes, real git, the installed runners."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from perfguard.records import Arm, Revision
from perfguard.replay import replay_one
from perfguard.store import open_store
from perfguard.trial.quads import run_quad
from perfguard.trial.request import TrialRequest
from perfguard.workloads import BUILT_IN, find, with_params

ROOT = Path(__file__).resolve().parents[2]
PERFGUARD = (sys.executable, "-c", "from perfguard.cli import main; main()")
# A verdict after two blocks, a change confirmed after two more; statistics are tested elsewhere.
SHORT = ("--margin", "20%", "--alpha", "0.05", "--max-blocks", "2", "--seed", "1", "--quiet", "--json", "-")
FAKE = ("-w", "fake", "--set", "instance_noise=0.003")


class Project:
    def __init__(self, folder):
        self.folder, self.repo = folder, folder / "repo"
        self.repo.mkdir()
        self.git("init", "--quiet")
        (self.repo / "perfguard.toml").write_text("[policy]\npause_share = 0\nconfirm_builds = 2\n")

    def environment(self):
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PERFGUARD", "GIT_"))}
        own = {"PERFGUARD_CACHE": str(self.folder / "cache"), "PERFGUARD_LOCK_DIR": str(self.folder / "lock")}
        return {**kept, **own, "GIT_CONFIG_GLOBAL": "/dev/null", "PYTHONPATH": str(ROOT)}

    def git(self, *arguments):
        command = ["git", "-C", str(self.repo), "-c", "user.name=t", "-c", "user.email=t@example.org", *arguments]
        subprocess.run(command, env=self.environment(), check=True, capture_output=True)

    def commit(self, files):
        for name, text in files.items():
            (self.repo / name).parent.mkdir(parents=True, exist_ok=True)
            (self.repo / name).write_text(text)
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--message", "next")

    def compare(self, *arguments, code):
        command = [*PERFGUARD, "compare", "HEAD~1", "HEAD", *SHORT, *arguments]
        done = subprocess.run(
            command, cwd=self.repo, env=self.environment(), capture_output=True, text=True, timeout=120
        )
        assert done.returncode == code, done.stdout + done.stderr
        return json.loads(done.stdout) if done.stdout else done.stderr

    def store(self):
        return open_store(self.repo / ".perfguard" / "results.db", read_only=True)

    def trials(self, comparison, stage):
        with self.store() as store:
            return [t for t in store.trials(comparison["id"]) if t.stage == stage]


@pytest.fixture
def project(tmp_path):
    return Project(tmp_path)


def plant(slowdown=1.0, **settings):
    return {"fake.json": json.dumps({"slowdown": slowdown, **settings})}


def launches(trials):
    return {trial.record.get("launch", trial.id) for trial in trials}


def test_a_suspicion_of_one_launch_a_block_is_confirmed_by_launches_of_their_own(project):
    project.commit(plant())
    project.commit(plant(1.5))
    found = project.compare(*FAKE, "--scope", "in-process", code=1)
    assert (found["outcome"], found["scope"]) == ("REGRESSION", "in-process")
    assert found["metrics"][0]["slowdown"] == pytest.approx(1.5, rel=0.05)
    assert found["sentence"].endswith("(scope in-process, confirmed by fresh launches).")
    assert "Shared process" in found["conclusions"]["can"]
    suspected, confirming = project.trials(found, 1), project.trials(found, 2)
    assert (len(suspected), len(launches(suspected))) == (8, 2)
    assert len(confirming) == len(launches(confirming)) == 8
    assert not any("launch" in trial.record for trial in confirming)


def test_an_unchanged_head_is_equivalent_in_two_launches_and_says_in_which_scope(project):
    project.commit(plant())
    project.commit({"README.md": "words"})
    found = project.compare(*FAKE, "--scope", "in-process", code=0)
    assert (found["outcome"], found["scope"]) == ("EQUIVALENT", "in-process")
    assert "(scope in-process)" in found["sentence"]
    assert "SHARED_PROCESS" in [reason["code"] for reason in found["reasons"]]
    assert "SLOW_RATE" not in [reason["code"] for reason in found["reasons"]]
    trials = project.trials(found, 1)
    assert (len(trials), len(launches(trials))) == (8, 2)
    assert {(trial.block, trial.slot) for trial in trials} == {(block, slot) for block in (0, 1) for slot in range(4)}
    for trial in trials:
        assert Path(trial.record["origin"]["fake.json"]["path"]).parent == Path(trial.record["checkout"])
    with project.store() as store:
        assert replay_one(store, found["id"])["agrees"]


def test_a_suspicion_alone_never_becomes_a_regression(project):
    project.commit(plant())
    project.commit(plant(1.5))
    found = project.compare(*FAKE, "--scope", "in-process", "--no-confirm", code=3)
    assert found["outcome"] == "SUSPECT"
    assert "was not confirmed" in found["conclusions"]["cannot"]


def test_prices_of_shared_launches_are_not_taken_for_launch_noise(project):
    project.commit(plant())
    project.commit({"README.md": "words"})
    found = project.compare(*FAKE, "--scope", "in-process", code=0)
    with project.store() as store:
        machine = found["machine"]
        assert store.trial_costs("fake", machine) == []
        (costs,) = store.trial_costs("fake", machine, scope="in-process")
    assert costs.num_trials == 8
    assert costs.noise["plain_throughput"] < 0.009


def test_a_side_that_dies_alone_already_is_said_before_any_launch_is_shared(project):
    project.commit(plant())
    project.commit(plant(crash="measured"))
    found = project.compare(*FAKE, "--scope", "in-process", code=4)
    assert "first run of head" in found["reasons"][0]["text"]


def test_a_command_is_refused_with_the_way_on(project):
    project.commit({})
    project.commit({})
    said = project.compare("--scope", "in-process", "--", "true", code=2)
    assert "a process of its own" in said
    assert "--scope full" in said


# Speaks the contract without torch and answers every question with the prompt's length.
STAND_IN = """
API_VERSION = 1
def build(spec):
    return Session()
class Session:
    def prefill(self, prompt, mode="plain"): return len(prompt)
    def decode(self, token): return token
    def synchronize(self): pass
    def marks(self): return {}
    def peak_memory_bytes(self): return 1
    def describe(self): return {"target": {"layers": 2}}
    def close(self): pass
"""


def test_subjects_that_cannot_share_a_process_are_sent_to_launches_of_their_own(project):
    project.commit({"model/__init__.py": "", "model/entry.py": STAND_IN})
    project.commit({"model/entry.py": STAND_IN.replace('"layers": 2', '"layers": 3')})
    said = project.compare("-w", "moe-eagle3", "--modes", "plain", "--scope", "in-process", code=5)
    assert "base HEAD~1 and head HEAD cannot share a process" in said
    assert "target is {'layers': 2}" in said
    assert "--scope full" in said


PAUSE = "import time\n\ndef pause():\n    time.sleep(0.02)\n"


def write_model(folder, *, is_slow):
    """Today's model; the slow one imports late, inside its step, what the other does not have."""
    model = ROOT / "model"
    texts = {str(path.relative_to(model)): path.read_text() for path in model.rglob("*.py")}
    old = '        self._run("decode", 1)\n'
    assert texts["entry.py"].count(old) == 1
    if is_slow:
        late = "        from model.pause import pause\n        pause()\n"
        texts |= {"entry.py": texts["entry.py"].replace(old, late + old), "pause.py": PAUSE}
    for name, text in texts.items():
        (folder / "model" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "model" / name).write_text(text)


@pytest.mark.parametrize("tp", [1, 2])
def test_the_tiny_model_runs_both_sides_in_one_process_a_rank(tmp_path, tp):
    for side in ("base", "head"):
        write_model(tmp_path / side, is_slow=side == "head")
    built_in = with_params(find("moe-eagle3", {w.name: w for w in BUILT_IN}), {"tokens": 12, "prompts": 2, "tp": tp})
    revision = Revision(name="HEAD", commit="c" * 40, tree="t" * 40)
    requests = [
        TrialRequest(
            id=f"t{slot}", stage=1, block=0, slot=slot, side=side, build=1, attempt=0, workload=built_in,
            arm=Arm(side=side, revision=revision), checkout=tmp_path / side, caches=tmp_path / "caches",
            folder=tmp_path / "quad", strays=tmp_path / "strays", owner="token", seed=3,
        )
        for slot, side in enumerate(("head", "base", "base", "head"))
    ]  # fmt: skip
    trials = run_quad("quad", requests, bundle=ROOT)
    assert [(trial.status, trial.reasons) for trial in trials] == [("ok", ())] * 4
    assert [(trial.id, trial.record["launch"]) for trial in trials] == [(f"t{slot}", "quad") for slot in range(4)]
    assert len({(t.digests["plain"], t.digests["eagle3"]) for t in trials}) == 1
    for trial in trials:
        assert len(trial.record["ranks"]) == tp
        assert trial.record["counts"]["eagle3"]["equals_plain"]
        assert ("model.pause" in trial.record["origin"]) == (trial.side == "head")
        paths = [Path(file["path"]) for file in trial.record["origin"].values()]
        assert all(path.is_relative_to(tmp_path / trial.side / "model") for path in paths)
    # 20 ms in every step of head.
    assert min(t.values["plain_token_s"] for t in trials if t.side == "head") >= 0.02
