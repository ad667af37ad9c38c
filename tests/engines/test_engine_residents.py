"""`compare --scope resident` through the whole command line: two stand-ins that sleep in turn, and ones that do not."""

import contextlib
import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from engine_support import codes, compared, engine_project, is_alive, plan, rows, sets, texts, wait_for
from test_engine_compare import supervisors_of

from perfguard.store import open_store

SCOPE = ("--scope", "resident")
SMI = """#!/bin/sh
[ "$1" = --query-gpu=memory.used ] || exit 1
sum=0
for file in {folder}/*; do
    [ -e "/proc/${{file##*/}}" ] && sum=$((sum + $(cat "$file")))
done
echo $sum
"""


def two_commits(folder, engine, base, head):
    project = engine_project(folder, engine, **base)
    project.commit(plan(**head))
    return project


@pytest.fixture
def gpu(tmp_path):
    """A nvidia-smi that adds up what stand-ins say they hold; (script fields, PATH)."""
    memory, programs = tmp_path / "memory", tmp_path / "bin"
    memory.mkdir()
    programs.mkdir()
    smi = programs / "nvidia-smi"
    smi.write_text(SMI.format(folder=memory))
    smi.chmod(0o755)
    return {"memory": str(memory)}, f"{programs}:{os.environ['PATH']}"


def stored(project, comparison):
    with open_store(project.db, read_only=True) as store:
        return store.trials(comparison["id"])


def pids_of(path):
    return [int(pid) for pid in path.read_text().split()]


def test_each_side_is_started_once_and_a_change_is_suspected_at_most(tmp_path, here):
    """Seven times the time of an event: no busy machine hides it, and still it is no REGRESSION."""
    base, head = (tmp_path / side for side in ("base", "head"))
    project = two_commits(tmp_path, "vllm", {"gap_s": 0.004, "pids": str(base)}, {"gap_s": 0.03, "pids": str(head)})
    comparison = compared(project, "-w", "vllm", *SCOPE, *sets())
    assert (comparison["outcome"], comparison["scope"]) == ("SUSPECT", "resident")
    assert "RESIDENT" in codes(comparison)
    assert "the luck of that one launch is in every window" in texts(comparison)
    assert "(scope resident: one launch of each side, awake in turn)" in comparison["sentence"]
    assert "without --scope resident" in comparison["next"]
    trials = stored(project, comparison)
    assert len([t for t in trials if t.stage == 1]) >= 8
    seen = {(t.side, t.record["engine"]["load"]["pid"]) for t in trials}
    assert len(seen) == 2
    assert seen == {("base", pids_of(base)[-1]), ("head", pids_of(head)[-1])}
    assert not any(is_alive(pid) for _, pid in seen)
    assert all("--enable-sleep-mode" in t.record["engine"]["load"]["command"] for t in trials)
    assert "agrees" in here(project, "replay", comparison["id"]).stdout
    assert list((project.cache / "work").iterdir()) == []


@pytest.mark.soak
def test_memory_that_a_sleeper_gives_back_is_read_where_an_engine_has_no_words_for_it(tmp_path, gpu):
    script, path = gpu
    script = {**script, "gap_s": 0.004, "busy_s": 0.2}  # who sleeps at once dies of it
    project = two_commits(tmp_path, "sglang", script, {**script, "more": {"a": "b"}})
    comparison = project.compare("-w", "sglang", *SCOPE, *sets(), code=(0, 3, 4), PATH=path)
    assert comparison["outcome"] in ("EQUIVALENT", "INCONCLUSIVE", "SUSPECT"), texts(comparison)
    seen = [t.record["engine"]["load"]["resident"] for t in stored(project, comparison) if t.status == "ok"]
    mib = 2**20
    # From the second start on the other one sleeps beside it: 150 MiB more at every moment.
    assert {s["awake_bytes"] - s["before_bytes"] for s in seen} == {850 * mib}
    assert {s["asleep_bytes"] for s in seen} == {150 * mib, 300 * mib}


@pytest.mark.parametrize(
    ("engine", "fault", "code", "said"),
    [
        ("vllm", {"sleepless": True}, "not_asleep", "/sleep?level=1 answered 200, but it says that it is awake"),
        ("vllm", {"drowsy": True}, "not_awake", "/wake_up answered 200, but /is_sleeping says that it sleeps"),
        ("vllm", {"dies_asleep_s": 0.2}, "engine_died", "the engine died"),
        ("sglang", {"sleepless": True}, "not_asleep", "it gave back 0 of 1000 MiB on the GPUs"),
    ],
)
def test_a_server_that_does_not_sleep_or_does_not_wake_makes_the_comparison_invalid(
    tmp_path, gpu, engine, fault, code, said
):
    script, path = gpu
    pids = tmp_path / "pids"
    project = two_commits(tmp_path, engine, {**script, "pids": str(pids)}, {**script, **fault, "pids": str(pids)})
    comparison = compared(project, "-w", engine, *SCOPE, *sets(), is_void=True, PATH=path)
    assert code in codes(comparison), texts(comparison)
    assert said in texts(comparison)
    assert not any(map(is_alive, pids_of(pids)))


def test_a_server_that_dies_while_the_other_is_measured_ends_it_without_further_windows(tmp_path):
    project = two_commits(tmp_path, "vllm", {"dies_asleep_s": 4.0}, {"gap_s": 0.2})
    comparison = compared(project, "-w", "vllm", *SCOPE, *sets(), is_void=True)
    assert "resident server of base: the engine died" in texts(comparison)
    assert len([t for t in stored(project, comparison) if t.status == "invalid"]) == 1


@pytest.mark.soak
def test_a_server_that_an_ended_trial_left_awake_is_put_to_sleep_by_the_next_one(tmp_path, gpu):
    """SIGKILL of the process that measures, in its window: the block is void, nothing else is."""
    script, path = gpu
    # A window of three requests of seven tokens takes a second.
    project = two_commits(tmp_path, "sglang", {**script, "gap_s": 0.05}, {**script, "gap_s": 0.05, "more": {"a": "b"}})
    database = tmp_path / "said"
    options = ("--max-blocks", "2", "--margin", "50%", "--seed", "1")
    with open(database, "wb") as stream:
        running = subprocess.Popen(
            [project.program, "compare", "HEAD~1", "HEAD", "-w", "sglang", *SCOPE, *options, *sets()],
            cwd=project.repo, env=project.env(PATH=path), stdout=stream, stderr=subprocess.STDOUT,
        )  # fmt: skip
    os.kill(wait_for(lambda: visitor(project, "s1b0t0a0"), "the first window"), signal.SIGKILL)
    assert running.wait(timeout=90) in (0, 3), database.read_text()
    with open_store(project.db, read_only=True) as store:
        (campaign,) = store.campaigns(1)
        verdict, trials = store.latest_verdict(campaign.id), store.trials(campaign.id)
    assert verdict["blocks"] == {**verdict["blocks"], "used": 2, "void": 1}
    assert [t.status for t in trials if t.stage == 1][:2] == ["crashed", "ok"]


def visitor(project, trial):
    """The process that measures this trial, once it is in its window; None before."""
    ready = [*(project.cache / "work").glob(f"*/*/logs/*-{trial}/ready-0")]
    for folder in (path.parent for path in ready):
        for entry in Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                if f"{folder}/spec.json".encode() in entry.read_bytes():
                    return int(entry.parent.name)
    return None


def test_the_price_list_counts_two_loads_and_windows_that_wake(tmp_path, here):
    project = two_commits(tmp_path, "sglang", {}, {"gap_s": 0.003})
    asked = ("-w", "sglang-kimi-eagle3", *SCOPE, "--plan-only")
    said = here(project, "compare", "HEAD~1", "HEAD", *asked).stdout
    # 2400 s may pass until it is ready; a third is assumed. Two loads and two first windows: 29.7 min.
    assert "two servers load once, 13 min each" in said
    assert "a launch: 30 s to load, 60 s measured" in said
    assert "earliest REGRESSION" not in said


def test_what_cannot_be_told_is_no_sleep(tmp_path):
    """SGLang has no words for it, and here is no GPU."""
    project = two_commits(tmp_path, "sglang", {}, {"gap_s": 0.003})
    comparison = compared(project, "-w", "sglang", *SCOPE, *sets(), is_void=True, PATH="/usr/bin:/bin")
    assert "nothing tells that it sleeps" in texts(comparison)


@pytest.mark.parametrize("ended_by", [pytest.param("Ctrl-C", marks=pytest.mark.soak), "SIGKILL"])
def test_residents_end_with_perfguard_or_with_the_next_start(tmp_path, ended_by):
    pids = tmp_path / "pids"
    script = {"pids": str(pids), "gap_s": 0.03, "orphan": True}
    project = two_commits(tmp_path, "vllm", script, {**script, "more": {"a": "b"}})
    asked = ("compare", "HEAD~1", "HEAD", "-w", "vllm", *SCOPE, "--max-blocks", "2", "--margin", "50%", *sets())
    running = project.start(*asked, said=tmp_path / "said")
    wait_for(lambda: rows(project.db, "SELECT count(*) FROM trials") == [(2,)], "both residents")
    alive = [pid for pid in pids_of(pids) if is_alive(pid)]
    assert len(alive) == 4  # each has a child in a session of its own
    if ended_by == "Ctrl-C":
        running.send_signal(signal.SIGINT)
        assert running.wait(timeout=60) == 130
        assert "--resume" in (tmp_path / "said").read_text()
        resumed = project.run("compare", "--resume", "latest", "--json", "-", "--quiet", code=(0, 3))
        assert json.loads(resumed.stdout)["blocks"]["used"] == 2
    else:
        for pid in supervisors_of(running.pid):
            os.kill(pid, signal.SIGKILL)
        running.kill()
        running.wait()
        time.sleep(0.2)
        project.write(plan())
        project.git("commit", "-qam", "one that does as told")
        project.run("run", "HEAD", "--trials", "1", "-w", "vllm", *sets())
    assert [pid for pid in alive if is_alive(pid)] == []
    assert Path(project.cache / "work").exists()


def test_ctrl_c_while_a_resident_still_loads_ends_it(tmp_path):
    pids = tmp_path / "pids"
    project = two_commits(tmp_path, "vllm", {"pids": str(pids), "load_s": 600.0}, {"gap_s": 0.003})
    running = project.start("compare", "HEAD~1", "HEAD", "-w", "vllm", *SCOPE, *sets(), said=tmp_path / "said")
    wait_for(lambda: pids.exists() and pids_of(pids), "the engine")
    running.send_signal(signal.SIGINT)
    assert running.wait(timeout=60) == 130
    assert not any(map(is_alive, pids_of(pids)))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("-w", "transformers"), "transformers cannot be put to sleep"),
        (("-w", "vllm-ngram", "--modes", "both"), "one server a side"),
        (("-w", "vllm", "--age", "1m"), "--age is of a launch"),
        (("-w", "vllm", "--set", "port=4000"), "a fixed port is of a launch"),
        (("-w", "vllm", "--pin-args", "base"), "--pin-args starts head again"),
        (("-w", "vllm", "--thin", "layers=2"), "few layers has a scope of its own"),
        (("-w", "vllm", "--slow-rate", "10%"), "a running server is not launched again"),
    ],
)
def test_what_residents_cannot_give_is_refused_before_anything_is_started(tmp_path, here, options, said):
    project = two_commits(tmp_path, "vllm", {}, {"gap_s": 0.003})
    done = here(project, "compare", "HEAD~1", "HEAD", *SCOPE, *options, *sets(), code=2)
    assert said in " ".join(done.stderr.split())
