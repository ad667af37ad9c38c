"""What changed since a moment: read from time stamps and logs, without a trace in what is read."""

import hashlib
import os
import time
from datetime import UTC, datetime
from pathlib import Path

import psutil
import pytest
from subject_support import commit, git, make_repository, photograph

from perfguard import timeline as story
from perfguard.errors import UsageError
from perfguard.machine import past as machine
from perfguard.subject import past as subject
from perfguard.subject.provenance import repository_state
from perfguard.subject.repository import open_repository

DAY_S = 86400.0


@pytest.fixture
def repo(tmp_path):
    folder = tmp_path / "repo"
    make_repository(folder, {"engine.py": "a = 1\n", "topk.py": "b = 1\n"})
    return folder


def lose_a_stash(folder):
    """The patch of the story: stashed, and the stash dropped. Returns its commit."""
    (folder / "engine.py").write_text("a = 2  # NCCL patch\n")
    git(folder, "stash")
    lost = git(folder, "rev-parse", "stash@{0}")
    git(folder, "stash", "drop")
    return lost


def items(found):
    return {item["what"]: item for item in found["items"]}


def test_a_dropped_stash_is_found_with_the_files_it_held_and_nothing_is_written(repo, monkeypatch):
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    lost = lose_a_stash(repo)
    commit(repo, {"topk.py": "b = 2\n"}, message="pull")
    (repo / "topk.py").write_text("b = 3\n")
    before = photograph(repo)
    found = story.timeline(open_repository(repo), "1 hour ago", {"HOME": str(repo.parent / "home")}, [])
    assert photograph(repo) == before
    told = items(found)
    assert [event["text"] for event in told["lost commits (named by nothing)"]["events"]] == [
        f"{lost[:12]} WIP on main: {git(repo, 'rev-parse', '--short', 'HEAD~1')} step 0: engine.py"
    ]
    assert "commit: pull" in told["HEAD (reflog)"]["events"][0]["text"]
    assert [event["text"] for event in told["uncommitted files"]["events"]] == ["topk.py"]
    assert told["stashes"]["state"] == "unchanged"
    assert {item["state"] for item in found["items"]} <= {"changed", "unchanged", "unknown"}
    assert found["schema"] == "perfguard/timeline@1"
    assert set(story.changed(found)) >= {"HEAD (reflog)", "uncommitted files", "lost commits (named by nothing)"}


def test_what_is_older_than_the_moment_is_unchanged(repo):
    location = open_repository(repo).location
    lose_a_stash(repo)
    later = time.time() + 10
    assert subject.reflog(location, "HEAD", later) == subject.lost_commits(location, later) == []
    assert subject.edited_files(location, later) == []


def test_moments_are_read_as_git_reads_them_and_nonsense_is_an_error(repo):
    assert subject.moment(repo, "2026-01-02T03:04:05+00:00") == 1767323045.0  # date -u -d ... +%s
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    assert subject.moment(repo, now) == datetime.fromisoformat(now).timestamp(), "of this second, and a moment"
    assert subject.moment(repo, "yesterday") == pytest.approx(time.time() - DAY_S, abs=5)
    for words in ("no moment at all", "tomorrow"):
        with pytest.raises(UsageError, match="no moment in the past"):
            subject.moment(repo, words)


def test_where_the_repository_stands_is_recorded_without_a_trace(repo):
    (repo / "engine.py").write_text("a = 2\n")
    git(repo, "stash")
    (repo / "mine.txt").write_text("untracked\n")
    before = photograph(repo)
    state = repository_state(open_repository(repo).location)
    assert photograph(repo) == before
    assert state["head"] == git(repo, "rev-parse", "HEAD")
    assert (state["branch"], state["num_stashes"]) == ("main", 1)
    assert state["stashes"][0]["commit"] == git(repo, "rev-parse", "stash@{0}")
    assert state["reflog"]["commit"] == state["head"]
    assert state["uncommitted"] == {"mine.txt": hashlib.sha256(b"untracked\n").hexdigest()}


def stamped(path, text="", *, days_ago=0.0):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    os.utime(path, (time.time() - days_ago * DAY_S,) * 2)
    return path


def test_packages_startup_files_and_profiles_are_told_by_their_time_stamps(tmp_path):
    site, home = tmp_path / "site", tmp_path / "home"
    for name, days in (("torch-2.9.0.dist-info", 0.1), ("numpy-2.1.dist-info", 9)):
        (site / name).mkdir(parents=True)
        os.utime(site / name, (time.time() - days * DAY_S,) * 2)
    stamped(site / "sitecustomize.py", days_ago=0.1)
    stamped(site / "old.pth", days_ago=9)
    stamped(home / ".bashrc", days_ago=0.1)
    stamped(home / ".profile", days_ago=9)
    since = time.time() - DAY_S
    assert [text for _, text in machine.packages([str(site), str(site)], since)] == ["torch-2.9.0"]
    assert [text for _, text in machine.startup_files([str(site)], since)] == [f"{site}/sitecustomize.py was written"]
    assert [text for _, text in machine.profiles(home, since, root=tmp_path)] == [f"{home}/.bashrc was written"]


def test_dpkg_s_log_is_read_in_local_time_and_its_absence_is_unknown(tmp_path):
    log = tmp_path / "dpkg.log"
    log.write_text(
        "2026-01-02 03:04:05 upgrade nvidia-driver:amd64 580.1 590.2\n"
        "2026-01-02 03:04:06 status installed nvidia-driver:amd64 590.2\n"
    )
    ((at_s, text),) = machine.system_packages(0.0, log)
    assert (time.localtime(at_s)[:6], text) == ((2026, 1, 2, 3, 4, 5), "upgrade nvidia-driver:amd64 580.1 590.2")
    with pytest.raises(OSError, match="No such file"):
        machine.system_packages(0.0, tmp_path / "none.log")


def test_gpu_errors_are_told_with_the_time_since_boot():
    log = (
        "6,1,1000000,-;usb 1-1: new device\n"
        "4,2,9000000,-;NVRM: Xid (PCI:0000:19:00): 79, pid=1, GPU has fallen off the bus.\n"
    )
    ((at_s, text),) = machine.xids(0.0, log)
    assert at_s == pytest.approx(psutil.boot_time() + 9)
    assert text.startswith("Xid (PCI:0000:19:00): 79")
    assert machine.xids(psutil.boot_time() + 10, log) == []


def test_caches_and_snapshots_of_models_are_told(tmp_path):
    stamped(tmp_path / ".triton/cache/abc/kernel.cubin")
    stamped(tmp_path / "hf/hub/models--org--m/snapshots/rev1/config.json")
    since = time.time() - DAY_S
    assert [text for _, text in machine.compile_caches({}, tmp_path, since)] == [f"{tmp_path}/.triton/cache"]
    (event,) = machine.model_snapshots({"HF_HOME": str(tmp_path / "hf")}, tmp_path, since)
    assert event[1] == "models--org--m/snapshots/rev1"


def test_a_driver_that_nobody_can_see_is_unknown(tmp_path):
    with pytest.raises(OSError, match="no file of NVIDIA's kernel module"):
        machine.driver(0.0, root=tmp_path)
    release = os.uname().release
    stamped(tmp_path / "lib/modules" / release / "updates/dkms/nvidia.ko.xz")
    assert len(machine.driver(time.time() - DAY_S, root=tmp_path)) == 1
    assert machine.driver(time.time() + 10, root=tmp_path) == []


def test_secrets_in_the_words_of_git_are_not_shown(repo):
    git(repo, "update-ref", "-m", "fetch https://me:letmein99@host/x", "HEAD", "HEAD~0")
    commit(repo, {"engine.py": "a = 3\n"}, message="token is swordfish-1")
    environ = {"HOME": str(Path(repo).parent), "MY_TOKEN": "swordfish-1"}
    found = story.timeline(open_repository(repo), "1 hour ago", environ, [])
    assert "swordfish" not in str(found)
    assert "letmein99" not in str(found)
