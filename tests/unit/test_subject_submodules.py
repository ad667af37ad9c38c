"""Submodules, repositories in repositories and Git LFS in checkouts and in WORKTREE."""

import shutil
import subprocess

import pytest
from subject_support import commit, git, make_repository, photograph, tree_of_files

from perfguard.errors import BuildError, RevisionError
from perfguard.subject import worktree
from perfguard.subject.repository import open_repository


def add_submodule(folder, inner, name="dep"):
    git(folder, "submodule", "--quiet", "add", str(inner), name)
    git(folder, "commit", "--quiet", "--message", f"add {name}")


@pytest.fixture(scope="module")
def submodule_template(tmp_path_factory):
    """repo -> dep -> deeper; the submodule came half-way through history."""
    place = tmp_path_factory.mktemp("submodules")
    shas = make_repository(place / "repo", {"a.py": "1\n"}, {"a.py": "2\n"})
    make_repository(place / "deeper", {"z.py": "deep\n"})
    make_repository(place / "dep", {"d.py": "1\n"})
    add_submodule(place / "dep", place / "deeper", "deeper")
    add_submodule(place / "repo", place / "dep")
    git(place / "repo", "submodule", "--quiet", "update", "--init", "--recursive")
    return place / "repo", shas


@pytest.fixture
def with_submodules(submodule_template, tmp_path):
    folder, shas = submodule_template
    shutil.copytree(folder, tmp_path / "repo")
    git(tmp_path / "repo", "update-index", "--refresh")
    git(tmp_path / "repo" / "dep", "update-index", "--refresh")
    return tmp_path / "repo", shas


def test_submodules_come_from_the_users_own_stores_at_every_commit(with_submodules, tmp_path):
    folder, shas = with_submodules
    (folder / "dep" / "d.py").write_text("2\n")
    git(folder / "dep", "commit", "--quiet", "--all", "--message", "only here, never pushed")
    git(folder, "commit", "--quiet", "--all", "--message", "move dep on")
    before = photograph(folder)
    opened = open_repository(folder)
    for name, revision in {"now": "HEAD", "then": "HEAD~1", "before": shas[1]}.items():
        opened.checkout(opened.resolve(revision), tmp_path / name)
    assert tree_of_files(tmp_path / "now") == tree_of_files(folder)
    assert (tmp_path / "then/dep/d.py").read_text() == "1\n"
    assert (tmp_path / "then/dep/deeper/z.py").read_text() == "deep\n"
    assert not (tmp_path / "before/dep").exists()
    assert photograph(folder) == before


def test_submodules_are_found_when_the_users_checkout_no_longer_has_them(with_submodules, tmp_path):
    folder, shas = with_submodules
    git(folder, "checkout", "--quiet", shas[0])
    shutil.rmtree(folder / "dep", ignore_errors=True)
    opened = open_repository(folder)
    opened.checkout(opened.resolve("main"), tmp_path / "out")
    assert (tmp_path / "out/dep/deeper/z.py").read_text() == "deep\n"


def test_a_submodule_that_is_not_here_is_named_with_the_command_that_gets_it(with_submodules, tmp_path):
    folder, _ = with_submodules
    git(tmp_path, "clone", "--quiet", str(folder), "fresh")
    opened = open_repository(tmp_path / "fresh")
    with pytest.raises(BuildError, match="submodule 'dep' at dep is not in") as caught:
        opened.checkout(opened.resolve("HEAD"), tmp_path / "out")
    assert caught.value.next_step == f"git -C {tmp_path / 'fresh'} submodule update --init --recursive"


def test_a_submodule_commit_that_is_not_here_is_named(with_submodules, tmp_path):
    folder, _ = with_submodules
    git(folder, "update-index", "--cacheinfo", f"160000,{'1' * 40},dep")
    git(folder, "commit", "--quiet", "--message", "a commit nobody has")
    opened = open_repository(folder)
    with pytest.raises(BuildError, match="does not hold all of submodule dep 111111111111"):
        opened.checkout(opened.resolve("HEAD"), tmp_path / "out")


@pytest.mark.parametrize("change", ["tracked", "untracked"])
def test_worktree_names_a_submodule_whose_changes_it_cannot_carry(with_submodules, change):
    folder, _ = with_submodules
    (folder / "dep" / ("d.py" if change == "tracked" else "new.py")).write_text("changed\n")
    with pytest.raises(RevisionError, match="submodule dep has uncommitted changes"):
        open_repository(folder).resolve("WORKTREE")


def test_worktree_carries_a_submodule_that_was_moved_to_another_commit(with_submodules, tmp_path):
    folder, _ = with_submodules
    (folder / "dep" / "d.py").write_text("2\n")
    git(folder / "dep", "commit", "--quiet", "--all", "--message", "on")
    opened = open_repository(folder)
    opened.checkout(opened.resolve("WORKTREE"), tmp_path / "out")
    assert (tmp_path / "out/dep/d.py").read_text() == "2\n"


def test_worktree_names_an_untracked_repository(repository):
    folder, _ = repository
    make_repository(folder / "vendor" / "thing", {"x": "x\n"})
    with pytest.raises(RevisionError, match="vendor/thing/ is an untracked repository") as caught:
        open_repository(folder).resolve("WORKTREE")
    subprocess.run(caught.value.next_step, shell=True, check=True)
    assert open_repository(folder).resolve("WORKTREE").patch == b""


def test_worktree_refuses_files_that_are_no_code_by_their_size(repository, monkeypatch):
    folder, _ = repository
    (folder / "weights.bin").write_bytes(bytes(3 * 2**20))
    (folder / "small").write_text("x")
    monkeypatch.setattr(worktree, "MAX_CHANGED_BYTES", 2 * 2**20)
    with pytest.raises(RevisionError, match=r"hold 3 MiB, more than 2 MiB; the largest is weights.bin with 3 MiB"):
        open_repository(folder).resolve("WORKTREE")


POINTER = f"version https://git-lfs.github.com/spec/v1\noid sha256:{'a' * 64}\nsize 12345\n"


@pytest.fixture
def with_lfs(repository, tmp_path, monkeypatch):
    """As git-lfs sets a person's machine up: its filter is required; here the program itself is missing."""
    folder, _ = repository
    attributes = "*.bin filter=lfs diff=lfs merge=lfs -text\n"
    commit(folder, {".gitattributes": attributes, "weights.bin": POINTER, "more.bin": POINTER})
    config = tmp_path / "gitconfig"
    config.write_text('[filter "lfs"]\nsmudge = git-lfs smudge\nprocess = git-lfs filter-process\nrequired = true\n')
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(config))
    return folder


@pytest.mark.skipif(shutil.which("git-lfs") is not None, reason="this is about machines without git-lfs")
def test_lfs_pointers_without_git_lfs_are_named(with_lfs, tmp_path):
    opened = open_repository(with_lfs)
    with pytest.raises(BuildError, match=r"more.bin and 1 more: an LFS pointer.*git-lfs is not installed") as caught:
        opened.checkout(opened.resolve("HEAD"), tmp_path / "out")
    assert "install git-lfs" in caught.value.next_step


def test_lfs_pointers_are_kept_for_a_person_who_asks_for_them(with_lfs, tmp_path, monkeypatch):
    monkeypatch.setenv("GIT_LFS_SKIP_SMUDGE", "1")
    opened = open_repository(with_lfs)
    opened.checkout(opened.resolve("HEAD"), tmp_path / "out")
    assert (tmp_path / "out" / "weights.bin").read_text() == POINTER


def test_content_that_came_with_the_patch_is_no_pointer(with_lfs, tmp_path):
    for name in ("weights.bin", "more.bin"):
        (with_lfs / name).write_bytes(b"\x80real weights\0" * 100)
    opened = open_repository(with_lfs)
    opened.checkout(opened.resolve("WORKTREE"), tmp_path / "out")
    assert (tmp_path / "out" / "weights.bin").read_bytes() == b"\x80real weights\0" * 100
