"""Engines through the whole command line: commits of a repository whose servers are stand-ins, to a verdict."""

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from engine_support import Project, codes, compared, engine_project, is_alive, plan, rows, sets, texts, wait_for

from perfguard import experiment
from perfguard.store import open_store
from runners.engines.processes import free_port

EAGLE3 = ("--set", "speculative_args=--speculative-algorithm EAGLE3")
NGRAM = ("--set", 'speculative_args=--speculative-config \'{"method": "ngram", "num_speculative_tokens": 3}\'')


def two_commits(folder, engine, base, head):
    project = engine_project(folder, engine, **base)
    project.commit(plan(**head))
    return project


def test_a_longer_time_between_tokens_is_a_regression_and_another_accept_length_is_named_exactly(tmp_path):
    """Seven times the time of an event: no busy machine hides it. Old field names on one side, new ones on the other.

    After one token of prefill, cycles of 3 make 7 tokens in 2 cycles; those of 1, 2, 1, 2 in 4.
    """
    base = {"gap_s": 0.004, "accept": [3], "names": "old"}
    project = two_commits(tmp_path, "sglang", base, {"gap_s": 0.03, "accept": [1, 2], "names": "new"})
    comparison = compared(project, "-w", "sglang-eagle3", *EAGLE3, *sets())
    assert comparison["outcome"] == "REGRESSION"
    by_name = {metric["name"]: metric for metric in comparison["metrics"]}
    assert by_name["eagle3_output_throughput"]["slowdown"] > 1.5
    said = " ".join(reason["text"] for reason in [*by_name["eagle3_accept_length"]["reasons"], *comparison["reasons"]])
    assert "eagle3_accept_length is 3.5 in every base launch and 1.75 in every head launch" in said
    (speculation,) = comparison["speculation"]
    assert (speculation["accept_length"]["finding"], speculation["accept_length"]["base"]) == ("changed", 3.5)
    assert list((project.cache / "work").iterdir()) == []


OLDER = {"ids": False, "between": "time_per_output_token_seconds", "missing": ["/ready", "/server_info", "/model_info"]}


@pytest.mark.parametrize(
    ("engine", "workload", "speculative", "names", "length"),
    [
        ("sglang", "sglang-eagle3", EAGLE3, "older", 7 / 3),
        pytest.param("vllm", "vllm-ngram", NGRAM, "", 2.0, marks=pytest.mark.soak),
    ],
)
def test_an_older_version_is_compared_with_a_newer_one_that_calls_things_otherwise(
    tmp_path, engine, workload, speculative, names, length
):
    """Text alone on one side, ids on the other: the same tokens, of which nobody can say so, and no other output."""
    base = {"gap_s": 0.01, "names": names, **OLDER}
    project = two_commits(tmp_path, engine, base, {"gap_s": 0.01})
    options = ("--no-confirm", "--max-blocks", "2")
    comparison = compared(project, "-w", workload, *options, *speculative, *sets())
    assert comparison["outcome"] != "REGRESSION"
    mode = workload.partition("-")[2]
    (accepted,) = (metric for metric in comparison["metrics"] if metric["exact"])
    assert (accepted["name"], accepted["base_median"], accepted["head_median"]) == (
        f"{mode}_accept_length", pytest.approx(length), pytest.approx(length),
    )  # fmt: skip
    assert "OUTPUT_UNKNOWN" in codes(comparison)
    assert "OUTPUT_CHANGED" not in codes(comparison)
    for trial in stored_trials(project):
        assert trial.record["counts"][mode]["server"]["tpot_s"] is not None
        assert trial.digests[mode].startswith("text:" if trial.side == "base" else "ids:")


def test_an_engine_that_is_not_the_one_that_was_started_makes_the_comparison_invalid(tmp_path):
    project = two_commits(tmp_path, "vllm", {}, {"version": "0.5.5"})
    comparison = compared(project, "-w", "vllm", *sets(), is_void=True)
    assert codes(comparison) == ["wrong_engine"]
    assert "first run of head: the server on port" in texts(comparison)
    assert "says it is version 0.5.5; this side's is 0.5.6" in texts(comparison)


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ({"requests": 0}, "requests is 0"),
        ({"prompt_file": "/nowhere"}, "/nowhere"),
        ({"python": "/nowhere/python"}, "cannot start '/nowhere/python': no such program"),
        ({"command": "/nowhere/serve {port}"}, "cannot start '/nowhere/serve': No such file or directory"),
        ({"age_s": "NaN"}, "age_s='NaN' is not a number"),
        ({"pinned_args": {"plain": "'unclosed"}}, "No closing quotation"),
    ],
)
def test_a_parameter_that_cannot_be_is_wrong_usage_before_any_server_is_started(tmp_path, here, setting, said):
    """The last one is that of the second of two modes, whose server would be started after the first one's."""
    project = engine_project(tmp_path, "sglang", pids=str(tmp_path / "pids"))
    modes = ("--modes", "both", *EAGLE3)
    done = here(project, "run", "HEAD", "--trials", "1", "-w", "sglang-eagle3", *modes, *sets(**setting), code=2)
    (line,) = (line for line in done.stderr.splitlines() if said in line)
    assert line.startswith("error: ")
    assert "Traceback" not in done.stderr
    assert "next: perfguard workloads" in done.stderr
    assert not (tmp_path / "pids").exists()
    if project.db.exists():
        with open_store(project.db, read_only=True) as store:
            assert store.campaigns(1) == []  # or it would be the latest result


def test_a_folder_that_a_commit_lacks_is_told_in_one_line(tmp_path, here):
    project = engine_project(tmp_path, "sglang")
    done = here(project, "run", "HEAD", "--trials", "1", "-w", "sglang", *sets(workdir="python"), code=5)
    assert "workdir 'python' is no folder of this checkout" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_start_that_fails_once_is_tried_again_in_its_slot(tmp_path):
    project = engine_project(tmp_path, "sglang", die_once=str(tmp_path / "died"))
    project.run("run", "HEAD", "--trials", "1", "-w", "sglang", *sets())
    trials = stored_trials(project)
    tried = [(trial.stage, trial.attempt, trial.status) for trial in trials]
    assert tried == [(0, 0, "crashed"), (0, 1, "ok"), (1, 0, "ok")]
    assert "out of memory, once" in trials[0].reasons[0].text
    engine = trials[2].record["engine"]["load"]
    assert (engine["version"], engine["model"], engine["stop"]["left"]) == ("0.5.6", "models/tiny", [])


def test_where_a_start_is_dear_the_other_side_is_not_started_only_to_tell_what_ails_it(tmp_path, here, monkeypatch):
    monkeypatch.setattr(experiment, "DEAR_S", 0.0)
    project = two_commits(tmp_path, "sglang", {"die_at_start": 3}, {})
    # With this seed base is made first.
    done = here(project, "compare", "HEAD~1", "HEAD", "-w", "sglang", "--seed", "0", *sets(), code=4)
    assert "first run of base, build 1: crashed, try 3: " in done.stderr
    assert {trial.side for trial in stored_trials(project)} == {"base"}


def stored_trials(project):
    with open_store(project.db, read_only=True) as store:
        (campaign,) = store.campaigns(1)
        return store.trials(campaign.id)


def test_the_price_list_of_a_large_model_needs_no_gpu(tmp_path, here):
    project = engine_project(tmp_path, "sglang")
    project.git("tag", "v0.5.6")
    project.commit(plan(gap_s=0.003))
    arguments = ("compare", "v0.5.6", "main", "--repo", str(project.repo), "-w", "sglang-kimi-eagle3", "--plan-only")
    said = here(project, *arguments, cwd=tmp_path).stdout
    assert "a launch: 13 min to load, 60 s measured" in " ".join(said.split()), said
    assert "earliest REGRESSION" in said


@pytest.fixture
def running(tmp_path):
    """A running stand-in of vLLM with commits beside it; (project, url)."""
    project = two_commits(tmp_path, "vllm", {"gap_s": 0.004}, {"gap_s": 0.003})
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", "models/tiny"]
    place = ["--host", "127.0.0.1", "--port", str(port)]
    server = subprocess.Popen([*command, *place], cwd=project.repo, stdout=subprocess.DEVNULL)
    wait_for(lambda: socket.socket().connect_ex(("127.0.0.1", port)) == 0, "the server")
    yield project, f"http://127.0.0.1:{port}"
    server.kill()
    server.wait()


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_running_servers_are_measured_with_a_weaker_promise_that_is_said(running, here):
    project, url = running
    comparison = compared(project, "-w", "vllm", "--url", url, *sets(), base="HEAD", head="HEAD")
    assert comparison["scope"] == "attached"
    assert "ATTACHED" in codes(comparison)
    assert f"both sides asked one and the same server, {url}" in texts(comparison)
    assert "(scope attached: servers that were running already)" in comparison["sentence"]
    assert "only launches of our own" in comparison["conclusions"]["can"]
    assert "agrees" in here(project, "replay", "latest").stdout


def test_a_url_where_nobody_listens_is_wrong_usage(tmp_path, here):
    project = engine_project(tmp_path, "vllm")
    url = f"http://127.0.0.1:{free_port('127.0.0.1')}"
    done = here(project, "compare", "HEAD", "HEAD", "-w", "vllm", "--url", url, *sets(), code=2)
    assert f"error: params: url is '{url}', and nobody answers there: [Errno 111] Connection refused" in done.stderr


def test_one_running_server_against_one_of_our_own_is_refused(tmp_path, here):
    project = engine_project(tmp_path, "vllm")
    options = ("--head-set", "url=http://127.0.0.1:1", *sets())
    done = here(project, "compare", "HEAD", "HEAD", "-w", "vllm", *options, code=2)
    assert "only head is a running server" in done.stderr
    running = ("--set", "url=http://127.0.0.1:1", *sets())
    project.commit(plan(gap_s=0.003))
    done = here(project, "bisect", "HEAD~1", "HEAD", "-w", "vllm", *running, code=2)
    assert "a url is one that runs" in done.stderr


@pytest.mark.parametrize(
    ("option", "given"),
    [
        ("--trace", ("--trace",)),
        ("--trace", ("--set", "trace=true")),
        ("--age", ("--age", "5s")),
        ("--pin-args", ("--pin-args", "base")),
        ("--thin", ("--thin", "layers=2")),
    ],
)
def test_what_is_done_to_servers_of_our_own_is_not_done_to_running_ones(tmp_path, here, option, given):
    """A profiler would slow down what is measured on the same server next."""
    project = engine_project(tmp_path, "vllm")
    both = [word for side in ("base", "head") for word in (f"--{side}-set", f"url=http://127.0.0.1:{len(side)}")]
    done = here(project, "compare", "HEAD", "HEAD", "-w", "vllm", *both, *given, *sets(tokens=64), code=2)
    assert f"{option} is about a server that is started, and a url is one that runs" in done.stderr


def test_a_killed_perfguard_leaves_no_engine_and_nothing_of_it_behind_the_next_start(tmp_path):
    """SIGKILL of perfguard and of its supervisor in mid-trial: an orphan in its own session, a name in /dev/shm, a
    temporary file, and a server that would hold its port for five minutes.
    """
    pids, name = tmp_path / "pids", f"psm_perfguard_{os.getpid()}"
    script = {"orphan": True, "pids": str(pids), "left": name, "gap_s": 0.5, "linger_s": 300.0}
    project, port = engine_project(tmp_path, "vllm", **script), free_port("127.0.0.1")
    measuring = project.start("run", "HEAD", "-w", "vllm", *sets(port=port), said=tmp_path / "said")
    wait_for(lambda: pids.exists() and len(pids.read_text().split()) == 2, "the engine's processes")
    wait_for(Path("/dev/shm", name).exists, "shared memory")
    (temporary,) = wait_for(lambda: tuple(Path(tempfile.gettempdir()).glob(f"pg-*/{name}")), "a temporary file")
    kill_supervisors(measuring)
    os.kill(measuring.pid, signal.SIGKILL)
    measuring.wait()
    time.sleep(0.2)
    project.write(plan())
    project.git("commit", "-qam", "an engine that does as told")
    project.run("run", "HEAD", "--trials", "1", "-w", "vllm", *sets(port=port))
    assert [pid for pid in map(int, pids.read_text().split()) if is_alive(pid)] == []
    assert not Path("/dev/shm", name).exists()
    assert not temporary.parent.exists()
    assert rows(project.db, "SELECT count(*) FROM trials WHERE status = 'ok'") == [(2,)]


def test_an_engine_that_is_not_installed_is_told_with_what_to_name(tmp_path):
    project = Project(folder=tmp_path)
    commit = project.commit({"README": "no engine\n"})
    said = project.run("run", "HEAD", "-w", "vllm", *sets(python=sys.executable), code=5).stderr
    assert "finds no package vllm" in said
    assert f"next: name the Python that has it with --set python=PATH, or git log -1 -p {commit[:12]}" in said


def kill_supervisors(measuring):
    for pid in supervisors_of(measuring.pid):
        os.kill(pid, signal.SIGKILL)


def interrupt_twice(measuring):
    """The second one while the first is being obeyed."""
    measuring.send_signal(signal.SIGINT)
    time.sleep(0.5)
    measuring.send_signal(signal.SIGINT)


@pytest.mark.parametrize(
    ("end", "code", "said"),
    [(kill_supervisors, 5, "error: the supervisor of a trial ended with code -9"), (interrupt_twice, 130, "interrupt")],
)
def test_a_hasty_end_in_mid_trial_says_so_in_one_line_and_leaves_nothing(tmp_path, end, code, said):
    """Of an engine that takes its time to end, keeps shared memory mapped meanwhile, and has an orphan."""
    pids, name = tmp_path / "pids", f"psm_perfguard_{os.getpid()}_{code}"
    script = {"orphan": True, "pids": str(pids), "left": name, "gap_s": 0.2, "linger_s": 60.0}
    project = engine_project(tmp_path, "sglang", **script)
    measuring = project.start("run", "HEAD", "-w", "sglang", *sets(stop_grace_s=30), said=tmp_path / "said")
    wait_for(lambda: pids.exists() and len(pids.read_text().split()) == 2, "the engine's processes")
    (temporary,) = wait_for(lambda: tuple(Path(tempfile.gettempdir()).glob(f"pg-*/{name}")), "a temporary file")
    end(measuring)
    assert measuring.wait(60) == code
    assert said in (tmp_path / "said").read_text()
    assert [pid for pid in map(int, pids.read_text().split()) if is_alive(pid)] == []
    assert (temporary.parent.exists(), Path("/dev/shm", name).exists()) == (False, False)


def supervisors_of(pid):
    """Children of a process whose command line is that of the supervisor of trials."""
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(child) for child in found if b"warden.py" in Path(f"/proc/{child}/cmdline").read_bytes()]
