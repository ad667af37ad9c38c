"""Opening repositories and resolving names: what works, and what each refusal says."""

import shutil
import subprocess
import sys

import pytest
from subject_support import commit, git, make_repository

from perfguard.errors import RevisionError, UsageError
from perfguard.subject.patches import MAX_PATCH_BYTES, read_patch
from perfguard.subject.repository import open_repository


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    folder = tmp_path_factory.mktemp("template") / "repo"
    return folder, make_repository(folder, {"a.py": "1\n"}, {"a.py": "2\n"}, {"a.py": "3\n"})


@pytest.fixture
def repository(template, tmp_path):
    folder, shas = template
    shutil.copytree(folder, tmp_path / "repo")
    return tmp_path / "repo", shas


def test_the_root_is_found_from_a_folder_inside(repository):
    folder, _ = repository
    (folder / "deep" / "er").mkdir(parents=True)
    assert open_repository(folder / "deep" / "er").root == folder
    assert open_repository(folder / ".git").root == folder


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(UsageError, match="nowhere is not a folder"):
        open_repository(tmp_path / "nowhere")


def test_a_folder_without_repository_is_named(tmp_path):
    with pytest.raises(RevisionError, match=r"no git repository at .* or above it") as caught:
        open_repository(tmp_path)
    assert "--repo" in caught.value.next_step
    assert caught.value.exit_code == 2


def test_a_repository_without_commits_is_refused(tmp_path):
    git(tmp_path, "init", "--quiet")
    with pytest.raises(RevisionError, match="has no commits yet"):
        open_repository(tmp_path)


def test_a_bare_repository_resolves_but_has_no_working_tree(repository, tmp_path):
    folder, shas = repository
    git(tmp_path, "clone", "--quiet", "--bare", str(folder), str(tmp_path / "bare"))
    bare = open_repository(tmp_path / "bare")
    assert bare.resolve("main").commit == shas[2]
    with pytest.raises(RevisionError, match="bare repository"):
        bare.resolve("WORKTREE")


def test_dubious_ownership_passes_gits_text_and_command_on(repository, monkeypatch):
    folder, _ = repository
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    with pytest.raises(RevisionError, match="dubious ownership") as caught:
        open_repository(folder)
    assert caught.value.next_step.startswith("git config --global --add safe.directory")


def test_the_environment_of_a_git_hook_does_not_move_us_to_another_repository(repository, tmp_path, monkeypatch):
    folder, shas = repository
    other = make_repository(tmp_path / "other", {"b": "b"})
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "other" / ".git"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "other" / ".git" / "index"))
    assert open_repository(folder).resolve("HEAD").commit == shas[2] != other[0]


def test_every_spelling_that_git_resolves_is_resolved(repository):
    folder, shas = repository
    git(folder, "tag", "light", shas[0])
    git(folder, "tag", "--annotate", "--message", "m", "heavy", shas[1])
    git(folder, "checkout", "--quiet", "-b", "side/branch", shas[1])
    (folder / "a.py").write_text("stashed\n")
    git(folder, "stash")
    opened = open_repository(folder)
    expected = {
        "main": shas[2], "main~2": shas[0], "light": shas[0], "heavy": shas[1], "HEAD@{1}": shas[1], "@": shas[1],
        shas[0]: shas[0], shas[0][:9]: shas[0], ":/step 0": shas[0], "main^{/step 1}": shas[1],
        "stash@{0}": git(folder, "rev-parse", "stash@{0}"),
    }  # fmt: skip
    assert {name: opened.resolve(name).commit for name in expected} == expected


def test_a_revision_carries_what_git_says_of_the_commit(repository):
    folder, shas = repository
    revision = open_repository(folder).resolve("HEAD~1")
    assert revision.name == "HEAD~1"
    assert revision.tree == git(folder, "rev-parse", f"{shas[1]}^{{tree}}")
    assert revision.committed_at == git(folder, "show", "-s", "--format=%cI", shas[1])
    assert (revision.subject, revision.patch, revision.is_dirty) == ("step 1", b"", False)


def test_a_program_where_a_revision_belongs_is_told_as_one(repository):
    with pytest.raises(RevisionError, match=r"cannot resolve 'sh' in .*: it is a program") as caught:
        open_repository(repository[0]).resolve("sh")
    assert caught.value.next_step == "name a revision before it, such as HEAD -- sh"


def test_an_unknown_name_is_answered_with_near_names_and_fetch(repository):
    folder, _ = repository
    git(folder, "branch", "feature/speculation")
    with pytest.raises(RevisionError, match=r"'feature/speculaton'.*did you mean feature/speculation\?") as caught:
        open_repository(folder).resolve("feature/speculaton")
    assert caught.value.next_step == f"git -C {folder} fetch --all --tags"


@pytest.mark.parametrize("name", ["f" * 40, "abcdef12", "HEAD~50", "v1.0"])
def test_a_revision_that_is_not_here_says_how_to_fetch(repository, name):
    with pytest.raises(RevisionError) as caught:
        open_repository(repository[0]).resolve(name)
    assert name in str(caught.value)
    assert "fetch --all --tags" in caught.value.next_step


@pytest.mark.parametrize("name", ["HEAD~2", "full sha"])
def test_a_shallow_clone_says_how_to_deepen(repository, tmp_path, name):
    folder, shas = repository
    git(tmp_path, "clone", "--quiet", "--depth=1", f"file://{folder}", str(tmp_path / "shallow"))
    opened = open_repository(tmp_path / "shallow")
    assert opened.resolve("HEAD").commit == shas[2]
    with pytest.raises(RevisionError) as caught:
        opened.resolve(shas[0] if name == "full sha" else name)
    assert "fetch --unshallow" in caught.value.next_step


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("", "is not a revision"),
        ("--all", "is not a revision"),
        ("^HEAD", "is not a revision"),
        ("HEAD~1..HEAD", "is a range"),
        ("HEAD:a.py", "is a blob, not a commit"),
        ("HEAD^{tree}", "is a tree, not a commit"),
    ],
)
def test_what_is_no_commit_is_refused_by_kind(repository, name, message):
    with pytest.raises(RevisionError, match=message):
        open_repository(repository[0]).resolve(name)


def test_a_range_is_answered_with_its_two_ends(repository):
    with pytest.raises(RevisionError) as caught:
        open_repository(repository[0]).resolve("HEAD~1..")
    assert caught.value.next_step == "perfguard compare HEAD~1 HEAD"


@pytest.mark.parametrize(
    ("raw", "encoding", "subject"),
    [
        (b"caf\xe9 raw", None, "caf\ufffd raw"),
        (b"caf\xe9 declared", "latin1", "café declared"),
        ("rocket 🚀".encode(), None, "rocket 🚀"),
        (b"red \x1b[31m and bell \x07", None, "red \ufffd[31m and bell \ufffd"),
        (b"[bold]x[/bold] <script>%s{}", None, "[bold]x[/bold] <script>%s{}"),
    ],
)
def test_commit_text_of_any_bytes_survives(repository, raw, encoding, subject):
    folder, _ = repository
    tree = git(folder, "rev-parse", "HEAD^{tree}")
    declared = f"encoding {encoding}\n".encode() if encoding else b""
    person = b"t <t@example.org> 1700000000 +0000"
    text = b"tree %s\nauthor %s\ncommitter %s\n%s\n%s\n" % (tree.encode(), person, person, declared, raw)
    sha = git(folder, "hash-object", "-t", "commit", "-w", "--stdin", stdin=text)
    revision = open_repository(folder).resolve(sha)
    assert (revision.commit, revision.subject) == (sha, subject)


def test_an_empty_commit_message_is_no_error(repository):
    folder, _ = repository
    git(folder, "commit", "--quiet", "--allow-empty", "--allow-empty-message", "--message", "")
    assert open_repository(folder).resolve("HEAD").subject == ""


def test_settings_of_a_person_do_not_reach_what_is_read(repository):
    folder, _ = repository
    for setting in ("color.ui=always", "log.showSignature=true", "core.pager=false", "diff.noprefix=true"):
        git(folder, "config", *setting.split("="))
    assert open_repository(folder).resolve("HEAD").subject == "step 2"


def test_changed_files_lists_content_and_not_modes(repository):
    folder, shas = repository
    commit(folder, {"b.py": "b\n", "sub dir/ü.py": "x\n"})
    (folder / "a.py").chmod(0o755)
    git(folder, "rm", "--quiet", "--cached", "b.py")
    (folder / "b.py").rename(folder / "c.py")
    commit(folder, {})
    opened = open_repository(folder)
    first, last = opened.resolve(shas[2]), opened.resolve("HEAD")
    assert opened.changed_files(first, last) == {"c.py", "sub dir/ü.py"}
    assert opened.changed_files(opened.resolve("HEAD~1"), last) == {"b.py", "c.py"}
    assert opened.changed_files(last, last) == frozenset()


def test_changed_files_sees_patches_and_the_same_patch_on_both_sides_is_no_difference(repository, tmp_path):
    folder, shas = repository
    (folder / "new.py").write_text("new\n")
    opened = open_repository(folder)
    dirty = opened.resolve("WORKTREE")
    assert opened.changed_files(opened.resolve("HEAD"), dirty) == {"new.py"}
    carried = tmp_path / "carry.patch"
    carried.write_bytes(dirty.patch)
    base, head = (opened.with_patch(opened.resolve(sha), carried) for sha in shas[1:])
    assert opened.changed_files(base, head) == {"a.py"}


def test_python_modules_are_named_as_python_imports_them(repository):
    folder, _ = repository
    files = ("src/pkg/__init__.py", "src/pkg/deep/mod.py", "python/engine/x.py", "tools/run-me.py", "pkg.txt")
    commit(folder, dict.fromkeys(files, "x = 1\n"))
    (folder / "untracked.py").write_text("x = 1\n")
    opened = open_repository(folder)
    names = opened.python_modules(opened.resolve("HEAD"))
    assert names == {
        "a": "a.py",
        "src.pkg": "src/pkg/__init__.py",
        "pkg": "src/pkg/__init__.py",
        "src.pkg.deep.mod": "src/pkg/deep/mod.py",
        "pkg.deep.mod": "src/pkg/deep/mod.py",
        "python.engine.x": "python/engine/x.py",
        "engine.x": "python/engine/x.py",
    }
    assert opened.python_modules(opened.resolve("WORKTREE")) == names | {"untracked": "untracked.py"}


def test_a_carried_patch_merges_three_way_where_the_lines_moved(tmp_path):
    folder = tmp_path / "repo"
    lines = [f"line {number}\n" for number in range(30)]
    moved = ["extra\n"] * 7 + lines
    shas = make_repository(folder, {"a.txt": "".join(lines)}, {"a.txt": "".join(moved)})
    git(folder, "checkout", "--quiet", shas[0])
    (folder / "a.txt").write_text("".join(lines).replace("line 20", "line twenty"))
    carried = tmp_path / "carry.patch"
    carried.write_text(git(folder, "diff") + "\n")
    opened = open_repository(folder)
    patched = opened.with_patch(opened.resolve("main"), carried)
    opened.checkout(patched, tmp_path / "out")
    assert (tmp_path / "out" / "a.txt").read_text() == "".join(moved).replace("line 20", "line twenty")
    assert patched.commit == shas[1]


def test_a_patch_that_is_already_in_the_commit_changes_nothing(repository, tmp_path):
    folder, shas = repository
    carried = tmp_path / "carry.patch"
    carried.write_text(git(folder, "diff", shas[0], shas[1]) + "\n")
    opened = open_repository(folder)
    assert opened.with_patch(opened.resolve(shas[1]), carried) == opened.resolve(shas[1])


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        (None, UsageError, "No such file"),
        ("\n", UsageError, "the patch is empty"),
        ("no patch at all\n", RevisionError, "does not apply"),
        ("--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-other\n+text\n", RevisionError, "does not apply to HEAD"),
        ("--- /dev/null\n+++ b/../../outside\n@@ -0,0 +1 @@\n+x\n", RevisionError, "does not apply"),
    ],
)
def test_a_patch_that_cannot_be_carried_says_why(repository, tmp_path, text, kind, message):
    carried = tmp_path / "carry.patch"
    if text is not None:
        carried.write_text(text)
    opened = open_repository(repository[0])
    with pytest.raises(kind, match=message):
        opened.with_patch(opened.resolve("HEAD"), carried)


def test_git_missing_from_path_is_said(tmp_path):
    code = (
        "from pathlib import Path; from perfguard.errors import UsageError\n"
        "from perfguard.subject.repository import open_repository\n"
        "try: open_repository(Path('/'))\n"
        "except UsageError as error: print(error)"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], env={"PATH": str(tmp_path)}, capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "git was not found on PATH"


def test_a_patch_that_no_database_should_keep_is_refused_before_it_is_read(tmp_path):
    huge = tmp_path / "huge.patch"
    with open(huge, "wb") as stream:
        stream.truncate(MAX_PATCH_BYTES + 1)
    with pytest.raises(UsageError, match="holds 64 MiB, more than the 64 that a patch may have"):
        read_patch(huge)
    with pytest.raises(UsageError, match="is no regular file"):
        read_patch(tmp_path)
