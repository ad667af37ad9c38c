"""The cache of builds: what comes back, what is not kept, and what a kill leaves. Real setups, locks and processes."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from build_cases import KEY, Setup, build_once, place, said, wanted
from subject_support import git, make_repository, photograph

from perfguard.errors import BuildError
from perfguard.subject.buildcache import provide
from perfguard.subject.kept import ENTRY_NAME, KEPT_NAME, drop, entries, places
from perfguard.subject.owner import LOCK_NAME
from perfguard.subject.workspace import open_workspace, sweep_leftovers

HERE = str(Path(__file__).parent)


@pytest.fixture
def workspace(tmp_path):
    with open_workspace(tmp_path / "cache") as opened:
        yield opened


# --- what comes back


def test_a_kept_build_comes_back_to_the_path_where_it_was_built_without_its_setup(workspace):
    setup = Setup("pwd > where; cp where $CACHES/compiled")
    first = build_once(workspace, setup)
    assert not first.build.checkout.exists()
    again = provide(wanted(), workspace, setup)
    assert setup.num_runs == 1
    assert (first.is_cached, again.is_cached) == (False, True)
    assert again.build == first.build
    assert (again.built_at, again.setup_s, again.key) == (first.built_at, first.setup_s, KEY)
    assert (again.build.checkout / "where").read_text().strip() == str(again.build.checkout)
    assert (again.build.caches / "compiled").read_text().strip() == str(again.build.checkout)
    assert list(again.build.logs.iterdir()) == []
    assert said(again).startswith(f"build of {first.built_at[:10]} ")


def test_it_comes_back_with_links_modes_and_times_and_git_sees_no_change(workspace, tmp_path):
    make_repository(tmp_path / "repo", {"main.c": "int main(void) { return 0; }\n"})

    def fill(build):
        git(tmp_path, "clone", "--quiet", str(tmp_path / "repo"), str(build.checkout))
        Setup("cc -g -o prog main.c; ln prog same; ln -s prog link; mkfifo pipe; mkdir deep; chmod 500 deep")(build)
        (build.checkout / "main.c").touch()

    first = provide(wanted(), workspace, fill)
    before = photograph_without_pipe(first.build.checkout)
    workspace.release(first.build)
    again = provide(wanted(), workspace, fill)
    tree = again.build.checkout
    assert again.is_cached
    after = photograph_without_pipe(tree)
    assert {name for name in before if before[name] != after.get(name)} <= {".git/index"}
    assert before.keys() == after.keys()
    assert (tree / "prog").stat().st_ino == (tree / "same").stat().st_ino
    assert subprocess.run([tree / "prog"]).returncode == 0
    git(tree, "diff-files", "--quiet")


def photograph_without_pipe(tree):
    os.unlink(tree / "pipe")
    return photograph(tree)


def test_paths_of_cached_and_fresh_builds_are_equally_long(workspace):
    cached, fresh = provide(wanted(), workspace, Setup()).build, workspace.new_build()
    for part in ("checkout", "caches", "logs"):
        one, other = getattr(cached, part), getattr(fresh, part)
        assert (len(str(one)), len(one.parts)) == (len(str(other)), len(other.parts))


def test_what_a_trial_writes_into_its_build_never_comes_back(workspace):
    setup = Setup()
    first = provide(wanted(), workspace, setup)
    (first.build.checkout / "where").write_text("spoilt")
    (first.build.checkout / "__pycache__").mkdir()
    (first.build.caches / "triton").mkdir()
    workspace.release(first.build)
    again = provide(wanted(), workspace, setup).build
    assert setup.num_runs == 1
    assert sorted(path.name for path in again.checkout.iterdir()) == ["where"]
    assert (again.checkout / "where").read_text().strip() == str(again.checkout)
    assert list(again.caches.iterdir()) == []


# --- two at once


def test_a_second_build_of_the_same_key_is_made_apart_while_the_first_is_in_use(workspace):
    setup = Setup()
    first, second = (provide(wanted(), workspace, setup) for _ in range(2))
    assert setup.num_runs == 2
    assert first.build != second.build
    assert second.build.checkout.is_relative_to(workspace.folder)
    assert "in use: built apart" in said(second)
    assert second.key == ""


def test_another_process_that_uses_a_build_keeps_it_from_us(workspace):
    build_once(workspace, Setup())
    code = """
import sys; sys.path.insert(0, sys.argv[2])
from pathlib import Path
from build_cases import Setup, wanted
from perfguard.subject.buildcache import provide
from perfguard.subject.workspace import open_workspace
with open_workspace(Path(sys.argv[1])) as workspace:
    print(provide(wanted(), workspace, Setup()).is_cached, flush=True)
    sys.stdin.read()
"""
    command = [sys.executable, "-c", code, str(workspace.root), HERE]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout.readline() == "True\n"
        ours = provide(wanted(), workspace, Setup())
        assert not ours.is_cached
        assert not drop(workspace.root, place(workspace))
        assert sweep_leftovers(workspace.root) == ()
        other.communicate("")
    assert provide(wanted(), workspace, Setup()).is_cached


# --- kills


@pytest.mark.parametrize("moment", ["setup", "copy"])
def test_a_kill_while_filling_leaves_nothing_that_looks_complete(tmp_path, moment):
    root, mark = tmp_path / "cache", tmp_path / "mark"
    code = """
import sys, time; sys.path.insert(0, sys.argv[2])
from pathlib import Path
from build_cases import Setup, wanted
from perfguard.subject import buildcache
from perfguard.subject.workspace import open_workspace
mark, moment = Path(sys.argv[3]), sys.argv[4]
def stop(*_):
    mark.touch()
    time.sleep(600)
if moment == "copy":
    whole = buildcache.copy_build
    buildcache.copy_build = lambda *folders: (whole(*folders), stop())
with open_workspace(Path(sys.argv[1])) as workspace:
    buildcache.provide(wanted(), workspace, stop if moment == "setup" else Setup())
"""
    with subprocess.Popen([sys.executable, "-c", code, str(root), HERE, str(mark), moment]) as owner:
        while not mark.exists():
            assert owner.poll() is None
            time.sleep(0.01)
        half = places(root) / KEY[:14]
        assert half.is_dir()
        assert entries(root) == []
        owner.send_signal(signal.SIGKILL)
    assert half in sweep_leftovers(root)
    assert list(places(root).iterdir()) == []
    with open_workspace(root) as workspace:
        setup = Setup()
        assert not provide(wanted(), workspace, setup).is_cached
        assert setup.num_runs == 1


def test_a_kill_while_a_build_is_in_use_leaves_the_kept_one_sound(workspace):
    build_once(workspace, Setup())
    left = place(workspace) / "01234567" / "tree"
    left.mkdir(parents=True)
    assert sweep_leftovers(workspace.root) == (left.parent,)
    assert sorted(path.name for path in place(workspace).iterdir()) == [ENTRY_NAME, KEPT_NAME, LOCK_NAME]
    assert provide(wanted(), workspace, Setup()).is_cached


def test_what_a_killed_owner_left_running_in_a_place_is_ended_before_it_is_used_again(workspace):
    build_once(workspace, Setup())
    live = place(workspace) / KEY[14:22]
    live.mkdir()
    about = {"pid": 1, "host": socket.gethostname(), "owner": "killed-owner-of-this-test"}
    (place(workspace) / LOCK_NAME).write_text(json.dumps(about))
    orphan = subprocess.Popen(["sleep", "600"], env=os.environ | {"PERFGUARD_OWNER": "killed-owner-of-this-test"})
    assert provide(wanted(), workspace, Setup()).is_cached
    orphan.wait(5)  # raises if it still runs


# --- what is not used and not kept


def test_a_damaged_build_is_made_again_and_said(workspace):
    setup = Setup("echo one > file; echo two > other")
    build_once(workspace, setup)
    kept = place(workspace) / KEPT_NAME / "tree" / "file"
    about = kept.stat()
    kept.write_text("0ne\n")  # as long, and as old
    os.utime(kept, ns=(about.st_atime_ns, about.st_mtime_ns))
    again = build_once(workspace, setup)
    assert (again.is_cached, setup.num_runs) == (False, 2)
    assert "was damaged and is made again" in said(again)
    assert (provide(wanted(), workspace, setup).is_cached, setup.num_runs) == (True, 2)


@pytest.mark.parametrize("text", ["", "{", '{"key": "x"}', "[]"])
def test_an_unreadable_entry_is_no_entry(workspace, text):
    setup = Setup()
    build_once(workspace, setup)
    (place(workspace) / ENTRY_NAME).write_text(text)
    assert (build_once(workspace, setup).is_cached, setup.num_runs) == (False, 2)
    assert build_once(workspace, setup).is_cached


def test_another_key_with_the_same_beginning_is_another_build(workspace):
    setup = Setup()
    build_once(workspace, setup)
    assert not build_once(workspace, setup, key=KEY[:-1] + "0").is_cached
    assert setup.num_runs == 2


def test_a_build_that_is_too_old_is_made_again(workspace):
    setup = Setup()
    build_once(workspace, setup)
    entry = place(workspace) / ENTRY_NAME
    about = json.loads(entry.read_text())
    entry.write_text(json.dumps(about | {"built_at": "2020-01-02T03:04:05+00:00"}))
    again = build_once(workspace, setup)
    assert (again.is_cached, setup.num_runs) == (False, 2)
    assert said(again) == "the cached build of 2020-01-02 03:04 UTC is too old and is made again"


def test_a_setup_that_fails_leaves_no_entry_and_no_folder(workspace):
    with pytest.raises(BuildError):
        provide(wanted(), workspace, Setup("echo half > file; false"))
    assert list(places(workspace.root).iterdir()) == []
    assert workspace.held == {}


def test_a_setup_that_leaves_a_process_running_is_not_kept(workspace):
    started = []

    def fill(build):
        env = os.environ | {"PERFGUARD_OWNER": workspace.owner}
        started.append(subprocess.Popen(["sleep", "600"], env=env))

    provided = provide(wanted(), workspace, fill)
    assert "not kept for later: its setup left a process running" in said(provided)
    assert entries(workspace.root) == []
    started[0].kill()
    started[0].wait()
