"""Checkouts and WORKTREE: the files are right, and the user's repository is the same to the last time stamp."""

import os
import shutil
import subprocess
from dataclasses import replace

import pytest
from subject_support import commit, git, photograph, tree_of_files

from perfguard.errors import BuildError
from perfguard.subject.checkout import explain
from perfguard.subject.commands import Answer
from perfguard.subject.repository import open_repository


def make_dirty(folder):
    """Every kind of uncommitted change at once, over a commit that holds the files changed here."""
    binary = bytes(range(256)) * 40
    names = ("staged", "both", "gone", "gone_staged", "mode", "link", "sub/moved")
    commit(folder, {name: name * 50 + "\n" for name in names})
    (folder / "blob.bin").write_bytes(binary)
    commit(folder, {})
    (folder / "staged").write_text("staged only\n")
    (folder / "both").write_text("staged first\n")
    (folder / "empty_staged").touch()
    git(folder, "add", "staged", "both", "empty_staged")
    (folder / "both").write_text("then changed again, no newline at end")
    (folder / "blob.bin").write_bytes(binary[::-1] + b"\0tail")
    (folder / "gone").unlink()
    git(folder, "rm", "--quiet", "gone_staged")
    (folder / "mode").chmod(0o755)
    (folder / "link").unlink()
    (folder / "link").symlink_to("sub/target")
    git(folder, "mv", "sub/moved", "sub/here")
    (folder / "new dir").mkdir()
    (folder / "new dir" / 'ünicode\n"quoted".txt').write_text("untracked\n")
    (folder / "empty_untracked").touch()
    (folder / "later").write_text("intent\n")
    git(folder, "add", "--intent-to-add", "later")
    (folder / "ignored.log").write_text("ignored\n")


def test_a_checkout_holds_exactly_the_files_of_the_commit(repository, tmp_path):
    folder, shas = repository
    opened = open_repository(folder)
    opened.checkout(opened.resolve(shas[0]), tmp_path / "out")
    git(folder, "worktree", "add", "--quiet", "--detach", str(tmp_path / "expected"), shas[0])
    assert tree_of_files(tmp_path / "out") == tree_of_files(tmp_path / "expected")
    assert git(tmp_path / "out", "rev-parse", "HEAD") == shas[0]
    assert git(tmp_path / "out", "status", "--porcelain") == ""


def test_worktree_carries_every_kind_of_uncommitted_change(repository, tmp_path):
    folder, _ = repository
    make_dirty(folder)
    opened = open_repository(folder)
    revision = opened.resolve("WORKTREE")
    opened.checkout(revision, tmp_path / "out")
    expected = tree_of_files(folder)
    assert expected.pop("ignored.log")
    assert tree_of_files(tmp_path / "out") == expected
    assert (revision.name, revision.commit) == ("WORKTREE", git(folder, "rev-parse", "HEAD"))


def test_the_users_repository_is_untouched_to_the_last_time_stamp(repository, tmp_path):
    folder, shas = repository
    git(folder, "worktree", "add", "--quiet", str(tmp_path / "linked"))
    (folder / "a.py").write_text("stashed\n")
    git(folder, "stash")
    git(folder, "config", "core.splitIndex", "true")
    git(folder, "config", "core.untrackedCache", "true")
    make_dirty(folder)
    facts = ("status --porcelain=v2 --show-stash", "for-each-ref", "worktree list", "reflog", "count-objects -v")
    said = [git(folder, *fact.split(), GIT_OPTIONAL_LOCKS="0") for fact in facts]
    before = photograph(folder)
    opened = open_repository(folder)
    dirty = opened.resolve("WORKTREE")
    (tmp_path / "carry.patch").write_bytes(dirty.patch)
    carried = opened.with_patch(opened.resolve("HEAD"), tmp_path / "carry.patch")
    opened.checkout(dirty, tmp_path / "one")
    opened.checkout(carried, tmp_path / "two")
    opened.checkout(opened.resolve(shas[0]), tmp_path / "three")
    assert opened.changed_files(opened.resolve(shas[0]), dirty)
    assert opened.python_modules(dirty)
    git(tmp_path / "one", "add", "--all")
    git(tmp_path / "one", "commit", "--quiet", "--message", "the subject may use its own repository")
    git(tmp_path / "two", "gc", "--quiet", "--prune=now")
    assert photograph(folder) == before
    assert [git(folder, *fact.split(), GIT_OPTIONAL_LOCKS="0") for fact in facts] == said
    assert tree_of_files(tmp_path / "one") == tree_of_files(tmp_path / "two")


def test_a_clean_tree_has_no_patch(repository):
    folder, _ = repository
    (folder / "ignored.log").write_text("x\n")
    (folder / "a.py").touch()
    opened = open_repository(folder)
    assert opened.resolve("WORKTREE") == replace(opened.resolve("HEAD"), name="WORKTREE")


def test_a_change_that_keeps_size_and_time_stamp_is_still_seen(repository):
    """Git reads such a file again if it is as young as the index: our copy of the index must be as old."""
    folder, _ = repository
    git(folder, "config", "core.trustctime", "false")
    os.utime(folder / "a.py", (1_700_000_000, 1_700_000_000))
    git(folder, "update-index", "--refresh")
    (folder / "a.py").write_text("3\n")
    for path in (folder / "a.py", folder / ".git" / "index"):
        os.utime(path, (1_700_000_000, 1_700_000_000))
    assert b"+3" in open_repository(folder).resolve("WORKTREE").patch


def test_worktree_in_the_middle_of_a_merge_is_what_the_files_say(repository, tmp_path):
    folder, shas = repository
    git(folder, "checkout", "--quiet", "-b", "side", shas[0])
    commit(folder, {"a.py": "side\n"})
    subprocess.run(["git", "merge", "main"], cwd=folder, capture_output=True, check=False)
    opened = open_repository(folder)
    opened.checkout(opened.resolve("WORKTREE"), tmp_path / "out")
    assert (tmp_path / "out" / "a.py").read_text() == (folder / "a.py").read_text()
    assert "<<<<<<<" in (folder / "a.py").read_text()


def test_worktree_and_checkout_work_from_a_linked_worktree(repository, tmp_path):
    folder, shas = repository
    linked = tmp_path / "linked"
    git(folder, "worktree", "add", "--quiet", "--detach", str(linked), shas[0])
    (linked / "a.py").write_text("linked\n")
    opened = open_repository(linked)
    assert opened.root == linked
    opened.checkout(opened.resolve("WORKTREE"), tmp_path / "out")
    assert (tmp_path / "out" / "a.py").read_text() == "linked\n"
    assert opened.resolve("WORKTREE").commit == shas[0]


def test_objects_borrowed_by_the_users_repository_are_found(repository, tmp_path):
    folder, shas = repository
    lender = folder
    for name in ("one", "two", "three", "four", "five", "six"):  # as deep as git itself follows
        git(tmp_path, "clone", "--quiet", "--shared", str(lender), name)
        lender = tmp_path / name
    # As a repository that was moved together with its lender has it.
    (tmp_path / "two/.git/objects/info/alternates").write_text("../../../one/.git/objects\n")
    opened = open_repository(lender)
    opened.checkout(opened.resolve(shas[0]), tmp_path / "out")
    assert (tmp_path / "out" / "a.py").read_text() == "1\n"


def test_a_shallow_clone_checks_out_and_its_history_reads(repository, tmp_path):
    folder, shas = repository
    git(tmp_path, "clone", "--quiet", "--depth=1", f"file://{folder}", "shallow")
    opened = open_repository(tmp_path / "shallow")
    opened.checkout(opened.resolve("HEAD"), tmp_path / "out")
    assert git(tmp_path / "out", "log", "--format=%H") == shas[1]


def test_a_sha256_repository_checks_out(tmp_path):
    folder = tmp_path / "repo"
    folder.mkdir()
    git(folder, "init", "--quiet", "--object-format=sha256")
    sha = commit(folder, {"a": "a\n"})
    opened = open_repository(folder)
    opened.checkout(opened.resolve("HEAD"), tmp_path / "out")
    assert len(sha) == 64
    assert (tmp_path / "out" / "a").read_text() == "a\n"


def test_git_describe_answers_in_a_checkout_as_in_the_repository(repository, tmp_path):
    folder, shas = repository
    git(folder, "tag", "--annotate", "--message", "m", "v1.2", shas[0])
    git(folder, "tag", "light", shas[0])
    opened = open_repository(folder)
    opened.checkout(opened.resolve("HEAD"), tmp_path / "out")
    ask = ("describe", "--tags", "--long", "--dirty")
    assert git(tmp_path / "out", *ask) == git(folder, *ask) == f"v1.2-1-g{shas[1][:7]}"


def test_hooks_and_templates_of_a_person_do_not_run_in_a_checkout(repository, tmp_path, monkeypatch):
    folder, _ = repository
    hooks = tmp_path / "hooks"
    hooks.mkdir()
    (hooks / "post-checkout").write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    (hooks / "post-checkout").chmod(0o755)
    shutil.copytree(hooks, tmp_path / "template" / "hooks")
    config = tmp_path / "gitconfig"
    config.write_text(f"[core]\nhooksPath = {hooks}\n[init]\ntemplateDir = {tmp_path}/template\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(config))
    opened = open_repository(folder)
    opened.checkout(opened.resolve("HEAD"), tmp_path / "out")
    assert not (tmp_path / "ran").exists()
    assert not (tmp_path / "out" / ".git" / "hooks").exists()


def test_a_folder_that_is_not_empty_is_refused(repository, tmp_path):
    folder, _ = repository
    opened = open_repository(folder)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").touch()
    with pytest.raises(BuildError, match="is not empty"):
        opened.checkout(opened.resolve("HEAD"), tmp_path / "out")


def test_a_patch_that_does_not_belong_to_the_commit_ends_the_build(repository, tmp_path):
    folder, shas = repository
    (folder / "a.py").write_text("3\n")
    opened = open_repository(folder)
    dirty = opened.resolve("WORKTREE")
    with pytest.raises(BuildError, match="does not apply"):
        opened.checkout(replace(dirty, commit=shas[0]), tmp_path / "out")
    with pytest.raises(BuildError, match="was recorded"):
        opened.checkout(replace(dirty, tree="0" * 40), tmp_path / "other")


def test_a_commit_whose_files_were_never_fetched_says_how_to_fetch_them(repository, tmp_path):
    folder, shas = repository
    git(folder, "config", "uploadpack.allowFilter", "true")
    git(tmp_path, "clone", "--quiet", "--filter=blob:none", "--no-checkout", f"file://{folder}", "partial")
    opened = open_repository(tmp_path / "partial")
    before = photograph(tmp_path / "partial")
    with pytest.raises(BuildError, match="does not hold all of") as caught:
        opened.checkout(opened.resolve("HEAD"), tmp_path / "out")
    assert photograph(tmp_path / "partial") == before
    git(tmp_path, "-C", str(tmp_path / "partial"), "archive", "--output=/dev/null", shas[1])
    assert f"archive {shas[1]}" in caught.value.next_step
    opened.checkout(opened.resolve("HEAD"), tmp_path / "again")


def test_a_full_disk_is_named_with_what_is_free(repository, tmp_path):
    words = "error: unable to write file a.py\nfatal: unable to write: No space left on device"
    source = open_repository(repository[0]).location
    error = explain(Answer(status=128, output=b"", error=words), tmp_path, what="abc", source=source, commit="abc")
    assert "no space to check out abc" in str(error)
    assert "MiB free" in str(error)
    assert "PERFGUARD_CACHE" in error.next_step
