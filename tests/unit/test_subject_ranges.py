"""Commits between two revisions in real repositories: which there are, what names their code, and clear refusals."""

import pytest
from subject_support import commit, git, make_repository, photograph

from perfguard.errors import RevisionError
from perfguard.subject.repository import open_repository


def line(folder, good="HEAD~3", bad="HEAD", **options):
    repository = open_repository(folder)
    return repository.line_between(repository.resolve(good), repository.resolve(bad), **options)


def commits(found):
    return [candidate.revision.commit for candidate in found.candidates]


def test_all_commits_after_good_up_to_bad_with_what_they_say_of_themselves(tmp_path):
    folder = tmp_path / "repo"
    shas = make_repository(folder, {"a": "1"}, {"a": "2"}, {"b": "x"}, {"a": "3"})
    before = photograph(folder)
    found = line(folder)
    assert commits(found) == shas[1:]
    assert found.num_commits == 3
    last = found.candidates[-1]
    assert (last.revision.name, last.revision.subject, last.parents) == ("HEAD", "step 3", (shas[2],))
    assert [c.revision.tree for c in found.candidates] == [git(folder, "rev-parse", f"{s}^{{tree}}") for s in shas[1:]]
    assert photograph(folder) == before


def test_a_subject_with_odd_bytes_and_an_empty_one_do_not_shift_the_fields(tmp_path):
    folder = tmp_path / "repo"
    make_repository(folder, {"a": "1"})
    message = tmp_path / "message"
    message.write_bytes(b"caf\xe9 \x1b[31m\n\nbody\n")
    (folder / "a").write_text("2")
    git(folder, "commit", "--quiet", "--all", "--file", str(message))
    (folder / "a").write_text("3")
    git(folder, "commit", "--quiet", "--all", "--allow-empty-message", "--message", "")
    found = line(folder, "HEAD~2")
    # Git itself takes bytes that are no UTF-8 for Latin-1.
    assert [c.revision.subject for c in found.candidates] == ["caf\u00e9 \ufffd[31m", ""]


def test_commits_with_the_code_of_the_one_before_are_no_candidates(tmp_path):
    folder = tmp_path / "repo"
    shas = make_repository(
        folder, {"model/a.py": "1"}, {"doc": "x"}, {"model/a.py": "2"}, {"doc": "y"}, {"model/a.py": "1"}, {"doc": "z"}
    )
    found = line(folder, shas[0], paths=("model/",))
    assert commits(found) == [shas[2], shas[4]]
    assert found.num_commits == 5
    # The last one has the code of GOOD again, under the same name.
    assert found.candidates[0].code != found.candidates[1].code
    assert line(folder, shas[2], shas[3], paths=("model",)).candidates == ()


def test_a_path_that_appears_late_and_one_that_is_nowhere(tmp_path):
    folder = tmp_path / "repo"
    shas = make_repository(folder, {"a": "1"}, {"new/b": "1"}, {"a": "2"})
    assert commits(line(folder, shas[0], paths=("new",))) == [shas[1]]
    assert line(folder, shas[0], paths=("new",)).absent == ()
    assert line(folder, shas[0], paths=("nowhere", "a")).absent == ("nowhere",)


def test_the_uncommitted_state_is_the_last_candidate(tmp_path):
    folder = tmp_path / "repo"
    shas = make_repository(folder, {"a": "1"}, {"a": "2"})
    (folder / "a").write_text("3")
    found = line(folder, shas[0], "WORKTREE")
    assert commits(found) == [shas[1], shas[1]]
    assert found.candidates[-1].revision.is_dirty
    with pytest.raises(RevisionError, match="uncommitted work"):
        line(folder, "WORKTREE", "HEAD")


def test_ends_that_lie_apart_are_told_where_they_part(tmp_path):
    folder = tmp_path / "repo"
    shas = make_repository(folder, {"a": "1"}, {"a": "2"})
    git(folder, "checkout", "--quiet", "-b", "side", shas[0])
    commit(folder, {"b": "1"})
    with pytest.raises(RevisionError, match=f"both come from {shas[0][:12]}") as error:
        line(folder, "main", "side")
    assert error.value.next_step == f"perfguard bisect {shas[0][:12]} side"


def test_two_thousand_commits_are_read_at_once(tmp_path):
    folder = tmp_path / "repo"
    make_repository(folder, {"a": "1"})
    stream = "".join(
        f"commit refs/heads/main\nmark :{k}\ncommitter t <t@e.x> {1_700_000_000 + k} +0000\ndata 1\nx\n"
        + ("from refs/heads/main^0\n" if k == 1 else f"from :{k - 1}\n")
        + f"M 100644 inline a\ndata {len(str(k))}\n{k}\n\n"
        for k in range(1, 2001)
    )
    git(folder, "fast-import", "--quiet", stdin=stream.encode())
    found = line(folder, "main~2000", "main", paths=("a",))
    assert found.num_commits == 2000
    assert len(line(folder, "main~2000", "main", all_parents=True).candidates) == len(found.candidates)


def test_files_of_another_revision_take_the_place_of_what_is_there(tmp_path):
    folder = tmp_path / "repo"
    shas = make_repository(folder, {"bench/a": "old", "bench/gone": "x", "code": "1"}, {"code": "2"})
    git(folder, "rm", "--quiet", "bench/gone")
    commit(folder, {"bench/a": "new", "bench/b[1]": "more"})
    before = photograph(folder)
    repository = open_repository(folder)
    newest = repository.resolve("HEAD")
    furnished = repository.with_files(repository.resolve(shas[0]), newest, "bench/")
    checkout = tmp_path / "checkout"
    repository.checkout(furnished, checkout)
    assert (checkout / "code").read_text() == "1"
    assert sorted(path.name for path in (checkout / "bench").iterdir()) == ["a", "b[1]"]
    assert (checkout / "bench" / "a").read_text() == "new"
    assert photograph(folder) == before
    # Where nothing changes by it, it is the commit itself.
    assert not repository.with_files(newest, newest, "bench").is_dirty
    with pytest.raises(RevisionError, match="holds no nothing"):
        repository.with_files(newest, newest, "nothing")


def test_the_main_line_back_from_a_commit_and_where_two_commits_part(tmp_path):
    folder = tmp_path / "repo"
    shas = make_repository(folder, {"a": "1"}, {"a": "2"}, {"a": "3"})
    repository = open_repository(folder)
    assert repository.ancestors(shas[2], 1) == [shas[2], shas[1]]
    assert repository.ancestors(shas[2], 9) == shas[::-1]
    git(folder, "checkout", "--quiet", "-b", "side", shas[1])
    side = commit(folder, {"b": "1"})
    fork = repository.fork_point(shas[2], side)
    assert fork is not None
    assert fork.commit == shas[1]
    git(folder, "checkout", "--quiet", "--orphan", "alone")
    assert repository.fork_point(shas[2], commit(folder, {"c": "1"})) is None
