"""Ended in the middle, by Ctrl-C or without mercy: nothing runs on, nothing measured is lost, and it can be resumed."""

import json
import os
import random
import re
import shlex
import signal
import time

import pytest
from cli_support import SHORT, is_alive, rows, wait_for

MEASURED = "SELECT block, slot, side, metrics, started_at FROM trials WHERE stage > 0 ORDER BY rowid"
PLANNED = "SELECT stage, block, slot_order, builds, pauses FROM blocks ORDER BY rowid"
SECONDS = ("--metric", "seconds", "--", "sh", "bench.sh")


@pytest.fixture
def engine(project):
    """Each run leaves its pid and that of a child in a session of its own in `pids`; the child ends with the run.

    A run goes on as long as there is a file `hold`. The owner of the repository is in the middle of something: a
    stash, staged, unstaged and untracked changes.
    """
    child = f"setsid sleep 600 & echo $$ $! >> {project.folder}/pids\n"
    held = f"sleep 0.1; while test -e {project.folder}/hold; do sleep 0.05; done\n"
    project.commit({"bench.sh": f"{child}{held}kill $!; echo '{{\"seconds\": 1}}'\n"})
    project.commit({"README": "two\n"})
    project.write({"README": "stashed\n"})
    project.git("stash", "push", "--quiet")
    project.write({"README": "staged\n"})
    project.git("add", "README")
    project.write({"README": "unstaged\n", "notes.txt": "untracked\n"})
    return project


@pytest.fixture
def begun(engine):
    """A comparison that stays in the middle of a trial, with two or more measured, until `hold` is removed."""
    said, hold = engine.folder / "said", engine.folder / "hold"
    process = engine.start("compare", "HEAD~1", "WORKTREE", *SHORT, *SECONDS, said=said)
    try:
        wait_for(lambda: len(rows(engine.db, MEASURED)) >= 2 or process.poll() is not None, "two measured trials")
        hold.touch()
        num_ended = len(rows(engine.db, "SELECT id FROM trials"))
        wait_for(lambda: len(pids(engine)) > 2 * num_ended, "the next trial")
        assert process.poll() is None, said.read_text()
        yield process, said
    finally:
        hold.unlink(missing_ok=True)
        process.kill()
        process.wait()


def pids(project):
    return [int(pid) for pid in (project.folder / "pids").read_text().split()]


def test_a_killed_comparison_leaves_no_process_and_goes_on_where_it_was(engine, begun):
    process, _ = begun
    repository = photograph(engine)
    process.kill()
    process.wait()
    wait_for(lambda: not any(map(is_alive, pids(engine))), "the end of all processes of the trial", limit_s=10)
    assert photograph(engine) == repository
    before, planned = rows(engine.db, MEASURED), rows(engine.db, PLANNED)
    assert len(before) >= 2
    assert len(list((engine.cache / "work").iterdir())) == 1  # what a dead process cannot remove

    (engine.folder / "hold").unlink()
    resumed = engine.run("compare", "--resume", "latest", "--json", "-")
    comparison = json.loads(resumed.stdout)
    assert (comparison["outcome"], comparison["blocks"]["used"]) == ("EQUIVALENT", 2)
    assert "removed what an earlier run left in" in resumed.stderr
    assert list((engine.cache / "work").iterdir()) == []
    assert photograph(engine) == repository
    after = rows(engine.db, MEASURED)
    assert after[: len(before)] == before
    assert len(after) == 8
    assert rows(engine.db, PLANNED) == planned
    orders = {(stage, block): order for stage, block, order, *_ in planned}
    sides = ["AB"[side == "head"] for _, _, side, _, _ in after]
    assert "".join(sides) == orders[1, 0] + orders[1, 1]
    assert f"{comparison['id']}  EQUIVALENT  agrees" in engine.run("replay").stdout


@pytest.mark.parametrize("scope", ["full", "in-process"])
def test_temporary_files_of_a_killed_comparison_go_with_the_next_start(project, monkeypatch, scope):
    temporary = project.folder / "tmp"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    project.commit({"fake.json": {"instance_noise": 0.003, "load_s": 0.5}})
    settings = ("-w", "fake", "--set", "noise=0", "--scope", scope)
    process = project.start("compare", "HEAD", "HEAD", *settings, *SHORT, said=project.folder / "said")
    try:
        wait_for(lambda: rows(project.db, MEASURED) or process.poll() is not None, "a measured trial")
        wait_for(lambda: [*temporary.glob("pg-*")], "the folder of the next launch")
    finally:
        process.kill()
        process.wait()
    assert [*temporary.glob("pg-*")]
    project.run("run", "HEAD", "--trials", "1", "-w", "fake")
    assert [*temporary.glob("pg-*")] == []


def test_a_folder_for_temporary_files_that_goes_away_ends_it_with_the_command_that_goes_on(project, monkeypatch):
    temporary = project.folder / "tmp"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    project.commit({"fake.json": {"load_s": 0.3}})
    said = project.folder / "said"
    process = project.start("compare", "HEAD", "HEAD", "-w", "fake", "--set", "noise=0", *SHORT, said=said)
    wait_for(lambda: rows(project.db, MEASURED) or process.poll() is not None, "a measured trial")
    temporary.rename(project.folder / "gone")
    assert process.wait(60) == 5, said.read_text()
    ((wanted,),) = rows(project.db, "SELECT id FROM campaigns")
    error, step = said.read_text().splitlines()[-2:]
    why = r"cannot be written: No such file or directory; \d+ trials are stored"
    assert re.fullmatch(rf"error: {temporary}/pg-\w+ {why}", error)
    assert step == f" next: TMPDIR=DIR perfguard compare --resume {wanted} --db {project.db}"
    (project.folder / "gone").rename(temporary)
    assert json.loads(project.run("compare", "--resume", wanted, "--json", "-").stdout)["outcome"] == "EQUIVALENT"


def test_ctrl_c_says_how_to_go_on_and_that_works(engine, begun):
    process, said = begun
    process.send_signal(signal.SIGINT)
    assert process.wait(30) == 130
    words = said.read_text()
    num_stored = len(rows(engine.db, "SELECT id FROM trials"))
    assert f"error: interrupted; {num_stored} trials are stored" in words
    assert not any(map(is_alive, pids(engine)))
    assert list((engine.cache / "work").iterdir()) == []
    assert "interrupted" in engine.run("runs").stdout
    # A comparison without a verdict yet is no reason for all others not to be replayed.
    assert engine.run("replay").stdout == ""
    assert "no verdict yet" in engine.run("report", code=2).stderr

    (command,) = [line.removeprefix(" next: ") for line in words.splitlines() if line.startswith(" next: ")]
    _, *arguments = shlex.split(command)
    (engine.folder / "hold").unlink()
    resumed = engine.run(*arguments, "--quiet", cwd=engine.folder)
    assert resumed.stdout.startswith("= EQUIVALENT")
    assert len(rows(engine.db, MEASURED)) == 8


def test_an_interrupted_retry_goes_on_with_the_next_attempt(project):
    """A launch dies before it measures, and Ctrl-C comes while it is tried again."""
    project.commit({"README": "one\n"})
    counter = project.folder / "count"
    site = project.folder / "site"
    site.mkdir()
    # Launches 1 and 2 are the first runs, 3 the first slot; 4 dies, 5 hangs.
    (site / "sitecustomize.py").write_text(
        "import os, sys, time\n"
        "if 'RANK' in os.environ:\n"
        f"    with open({str(counter)!r}, 'a+') as file:\n"
        "        file.write('.'); file.flush(); number = file.tell()\n"
        "    if number == 4: os._exit(3)\n"
        "    if number == 5: time.sleep(600)\n"
    )
    workload = ("-w", "fake", "--env", f"PYTHONPATH={site}")
    process = project.start("compare", "HEAD", "HEAD", *SHORT, *workload, said=project.folder / "said")
    wait_for(lambda: counter.exists() and len(counter.read_text()) == 5, "the second attempt")
    process.send_signal(signal.SIGINT)
    assert process.wait(30) == 130
    project.run("compare", "--resume", "latest", "--quiet")
    attempts = "SELECT attempt, status FROM trials WHERE stage = 1 AND block = 0 AND slot = 1 ORDER BY rowid"
    assert rows(project.db, attempts) == [(0, "crashed"), (1, "ok")]


def test_a_second_measuring_job_waits_and_says_for_whom(engine, begun):
    first, _ = begun
    said = engine.folder / "second"
    second = engine.start("run", "HEAD", "--trials", "1", *SECONDS, said=said)
    try:
        words = wait_for(lambda: "waiting" in said.read_text() and said.read_text(), "the second job to wait")
        (campaign,) = rows(engine.db, "SELECT id FROM campaigns WHERE kind = 'compare'")[0]
        assert f"waiting: this machine is being measured on by pid {first.pid} (user {os.getuid()}, " in words
        assert f"perfguard compare {campaign}" in words
        assert rows(engine.db, f"SELECT count(*) FROM trials WHERE campaign != '{campaign}'") == [(0,)]
        (engine.folder / "hold").unlink()
        assert first.wait(60) == 0
        assert second.wait(60) == 0
    finally:
        second.kill()
        second.wait()
    # Not one trial of the second job began before the last of the first had begun.
    kinds = "SELECT c.kind FROM trials t JOIN campaigns c ON c.id = t.campaign ORDER BY t.started_at"
    assert [kind for (kind,) in rows(engine.db, kinds)] == ["compare"] * 10 + ["run"] * 2


def test_resuming_takes_nothing_that_was_asked_for_before(engine):
    done = engine.run("compare", "--resume", "latest", "--max-blocks", "9", code=2)
    assert "--resume goes on with what was asked for then; max_blocks cannot be given again" in done.stderr
    done = engine.run("compare", "--resume", "latest", code=2)
    assert "no results database at" in done.stderr


def photograph(project):
    """What git says of the repository, and every file of it but the results; time stamps where git renews none.

    Refs, reflog, index, stash, worktrees and objects are among these files.
    """
    questions = (("status", "--porcelain=v2", "--branch"), ("for-each-ref",), ("worktree", "list"), ("stash", "list"))
    answers = [project.git("--no-optional-locks", *question) for question in questions]
    files = sorted(path for path in project.repo.rglob("*") if path.is_file() and ".perfguard" not in path.parts)
    stamps = [path.stat().st_mtime_ns for path in files if "objects" not in path.parts]
    return answers, [(path, path.read_bytes()) for path in files], stamps


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_fifty_kills_at_random_moments_lose_nothing_and_leave_nothing(engine):
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    moments, before = random.Random(seed), []
    first = ("compare", "HEAD~1", "HEAD", *SHORT, *SECONDS)
    for _ in range(50):
        again = ("compare", "--resume", "latest") if before else first
        process = engine.start(*again, said=engine.folder / "said")
        time.sleep(moments.uniform(0.1, 2.5))
        process.kill()
        process.wait()
        if (engine.folder / "pids").exists():
            wait_for(lambda: not any(map(is_alive, pids(engine))), "the end of all processes", limit_s=10)
        measured = rows(engine.db, MEASURED) if engine.db.exists() else []
        assert measured[: len(before)] == before
        before = measured
    engine.run("compare", "--resume", "latest")
    assert list((engine.cache / "work").iterdir()) == []
    assert "agrees" in engine.run("replay", "latest").stdout
