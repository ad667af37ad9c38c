"""`perfguard bisect` where history is no plain line, is cut off, or was measured before; and what becomes of a kill."""

import json
import signal
import subprocess
from types import SimpleNamespace

import pytest
from bisect_support import SECONDS, SHORT, bench, bisect, notes
from cli_support import SHORT as SHORT_COMPARISON
from cli_support import rows, wait_for
from test_compare_interruption import photograph

from perfguard.bisection import story
from perfguard.errors import RevisionError, StoreError


def merged(project, *commits, message="Merge side"):
    """A branch of these {path: text} with a commit of the main line beside it; returns the merge and its commits."""
    project.git("checkout", "--quiet", "-b", "side")
    made = [project.commit(files, f"side {number}") for number, files in enumerate(commits)]
    project.git("checkout", "--quiet", "main")
    notes(project, "beside")
    project.git("merge", "--quiet", "--no-ff", "-m", message, "side")
    return project.git("rev-parse", "HEAD"), made


def test_a_blamed_merge_is_searched_inside_and_its_commit_is_named(project):
    good = project.commit(bench(), "start")
    notes(project, "a")
    merge, side = merged(project, {"x": "1\n"}, bench(1.4), {"y": "2\n"})
    notes(project, "b")
    found = bisect(project, good, "HEAD", *SHORT, code=1)
    assert (found["culprit"], found["merged_by"]) == (side[1], merge)
    assert found["confirmation"]["base"]["commit"] == side[0]
    inside = found["inside"]
    assert (inside["outcome"], inside["commits"], inside["merge"]) == ("CULPRIT", 3, merge)
    assert f"brought in by merge {merge[:12]}" in found["sentence"]
    # The main line was counted, not the branch: a, beside, the merge, b.
    assert found["commits"] == 4
    replayed = project.run("replay").stdout.splitlines()
    assert len(replayed) == 4  # two searches, two confirmations
    assert all(line.endswith("agrees") for line in replayed)
    assert "Inside merge" in project.run("show", "latest").stdout


def test_a_merge_that_is_slow_by_itself_is_the_culprit(project):
    """Its branch changes nothing; the level was changed while merging."""
    good = project.commit(bench(), "start")
    project.git("checkout", "--quiet", "-b", "side")
    notes(project, "x", "y")
    project.git("checkout", "--quiet", "main")
    notes(project, "beside")
    project.git("merge", "--quiet", "--no-ff", "--no-commit", "side")
    merge = project.commit(bench(1.4), "Merge side")
    found = bisect(project, good, "HEAD", *SHORT, code=1)
    assert found["culprit"] == merge
    assert found["inside"]["outcome"] == "PHANTOM"
    assert "the merge itself" in found["sentence"]


def test_all_commits_in_one_line_name_a_range_where_a_branch_lies_beside_the_main_line(project):
    good = project.commit(bench(), "start")
    merge, side = merged(project, {"x": "1\n"}, bench(1.4))
    found = bisect(project, good, "HEAD", *SHORT, "--all-parents", code=3)
    assert (found["outcome"], found["commits"]) == ("INCONCLUSIVE", 4)
    assert found["confirmation"]["outcome"] == "REGRESSION"
    assert found["range"][-1] == merge
    assert set(side) < set(found["range"])
    assert {entry["status"] for entry in found["posterior"] if entry["commit"] in side} == {"beside"}


def test_a_stored_comparison_is_not_measured_again(project):
    project.commit(bench(), "start")
    notes(project, "a")
    slow = project.commit(bench(1.4), "Slow down")
    notes(project, "b")
    margin = (*SHORT_COMPARISON, "--quiet", "--json", "-")
    equal = json.loads(project.run("compare", "HEAD~3", "HEAD~2", *margin, *SECONDS, code=0).stdout)
    num_before = rows(project.db, "SELECT count(*) FROM trials")
    phantom = bisect(project, equal["id"], "", "--quiet", code=0, command=())
    assert (phantom["outcome"], phantom["trials"], phantom["builds"]) == ("PHANTOM", 0, 0)
    assert phantom["margin"] == 0.2
    assert rows(project.db, "SELECT count(*) FROM trials") == num_before
    fixed = ("--slow-rate=5%", "--max-blocks=9", "--sm-clock=900", "--timeout=9s", "--ready-timeout=9s")
    for option in (*fixed, "--no-build-cache"):
        refused = project.run("bisect", equal["id"], option, "--quiet", code=2)
        assert f"{option.split('=')[0]} cannot be given again" in refused.stderr
    worse = json.loads(project.run("compare", "HEAD~3", "HEAD", *margin, *SECONDS, code=1).stdout)
    found = bisect(project, worse["id"], "", "--seed", "1", "--quiet", code=1, command=())
    assert (found["culprit"], found["seeded_by"]) == (slow, worse["id"])
    # BAD is known to be slow, and how much: it is not read again.
    assert all(reading["commit"] != found["bad"]["commit"] for reading in found["readings"])
    few = bisect(project, worse["id"], "", "--max-trials", "4", "--quiet", code=(1, 3), command=())
    assert len(few["readings"]) <= 2
    refused = project.run("bisect", found["id"], "--quiet", code=2)
    assert "is a bisect, not a comparison" in refused.stderr


def test_a_second_culprit_is_found_where_the_first_does_not_explain_all(project):
    good = project.commit(bench(), "start")
    notes(project, "a")
    first = project.commit(bench(1.3), "Slow down")
    notes(project, "b")
    second = project.commit(bench(1.3 * 1.4), "Slow down again")
    found = bisect(project, good, "HEAD", *SHORT, code=1)
    others = [other for other in found["further"] if other["outcome"] == "CULPRIT"]
    assert {found["culprit"], *(other["culprit"] for other in others)} == {first, second}
    assert "So did " in found["sentence"]
    assert all(line.endswith("agrees") for line in project.run("replay").stdout.splitlines())
    assert "further, " in project.run("show", found["id"]).stdout


def test_a_faster_commit_is_found_where_it_is_looked_for(project):
    good = project.commit(bench(1.4), "start")
    notes(project, "a")
    fast = project.commit(bench(), "Speed up")
    notes(project, "b")
    found = bisect(project, good, "HEAD", *SHORT, "--look-for", "any", code=1)
    assert found["culprit"] == fast
    assert found["confirmation"]["outcome"] == "IMPROVEMENT"
    assert "made it faster" in found["sentence"]


def test_a_shallow_clone_says_how_to_deepen(project):
    project.commit(bench(), "start")
    notes(project, *"abcd")
    shallow = project.folder / "shallow"
    subprocess.run(["git", "clone", "--quiet", "--depth", "2", f"file://{project.repo}", shallow], check=True)
    walk = ("bisect", "HEAD~1", "HEAD", "--repo", str(shallow), "--find-good", "1e-9", *SECONDS)
    walked = project.run(*walk, code=3).stderr
    assert "the clone is shallow, and older ones are not here.\nnext: git fetch --unshallow" in walked
    for revision, commit in (("old", project.git("rev-parse", "HEAD~3")), ("new", project.git("rev-parse", "HEAD"))):
        subprocess.run(["git", "-C", shallow, "fetch", "--quiet", "--depth", "1", "origin", commit], check=True)
        subprocess.run(["git", "-C", shallow, "tag", revision, commit], check=True)
    said = project.run("bisect", "old", "new", "--repo", str(shallow), *SECONDS, code=2).stderr
    assert "the clone is shallow" in said
    assert "fetch --deepen 1000" in said
    assert "fetch --unshallow" in said


def test_check_speaks_to_git_bisect_run(project):
    good = project.commit(bench(), "start")
    notes(project, "a")
    slow = project.commit(bench(1.4), "Slow down")
    notes(project, "b")
    short = ("--margin", "20%", "--alpha", "0.05", "--max-blocks", "2", "--quiet")
    asked = ("check", "--against", good, *short)
    project.git("bisect", "start", "HEAD", good)
    done = project.git("bisect", "run", str(project.program), *asked, *SECONDS)
    assert f"{slow} is the first bad commit" in done
    project.git("bisect", "reset")
    # What cannot be told is no verdict: a benchmark that fails, wrong usage, an option that is not there.
    failing = ("--metric", "seconds", "--", "sh", "-c", "exit 1")
    project.run(*asked, *failing, code=125)
    project.run("check", "--against", "nobody", *SECONDS, code=125)
    project.run("check", "--no-such-option", code=125)


def test_a_killed_bisect_goes_on_where_it_was_and_the_repository_is_never_touched(project):
    good = project.commit(bench(), "start")
    notes(project, *"abc")
    slow = project.commit(bench(1.4), "Slow down")
    notes(project, *"de")
    project.write({"a.txt": "stashed\n"})
    project.git("stash", "push", "--quiet")
    project.write({"a.txt": "staged\n"})
    project.git("add", "a.txt")
    project.write({"a.txt": "unstaged\n", "new.txt": "untracked\n"})
    before = photograph(project)
    said = project.folder / "said"

    def begin(*arguments):
        return project.start("bisect", *arguments, said=said)

    def num(what):
        found = rows(project.db, what)
        return found[0][0] if found else 0

    measured = "SELECT count(*) FROM trials WHERE stage = 1"
    process = begin(good, "HEAD", *SHORT, *SECONDS)
    wait_for(lambda: num(measured) >= 5 or process.poll() is not None, "some readings")
    process.send_signal(signal.SIGKILL)
    process.wait()
    kept = rows(project.db, "SELECT id, metrics, started_at FROM trials WHERE stage = 1 ORDER BY rowid")
    drawn = rows(project.db, "SELECT * FROM bisect_pairs ORDER BY number")
    assert len(kept) >= 5, said.read_text()
    assert photograph(project) == before

    (bisect_id,) = rows(project.db, "SELECT id FROM campaigns WHERE kind = 'bisect'")[0]
    process = begin("--resume", bisect_id, "--quiet")
    confirming = "SELECT count(*) FROM trials t JOIN bisect_links l ON l.other = t.campaign WHERE t.stage > 0"
    wait_for(lambda: num(confirming) >= 2 or process.poll() is not None, "the confirmation")
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 130, said.read_text()
    assert f"perfguard bisect --resume {bisect_id}" in said.read_text()

    done = project.run("bisect", "--resume", bisect_id, "--json", "-", "--quiet", code=1)
    found = json.loads(done.stdout)
    assert found["culprit"] == slow
    after = rows(project.db, "SELECT id, metrics, started_at FROM trials WHERE stage = 1 ORDER BY rowid")
    assert after[: len(kept)] == kept
    assert rows(project.db, "SELECT * FROM bisect_pairs ORDER BY number")[: len(drawn)] == drawn
    assert len(rows(project.db, "SELECT 1 FROM bisect_links")) == 1
    assert photograph(project) == before
    assert list((project.cache / "work").iterdir()) == []
    assert f"{bisect_id}  CULPRIT  agrees" in project.run("replay", bisect_id).stdout
    refused = project.run("bisect", "--resume", bisect_id, "--margin", "1%", code=2)
    assert "margin cannot be given again" in refused.stderr


def test_a_bisect_whose_progress_nobody_reads_any_more_is_left_as_interrupted(project):
    good = project.commit(bench(), "start")
    notes(project, "a")
    project.commit(bench(1.4), "Slow down")
    loud = [word for word in SHORT if word != "--quiet"]
    command = [project.program, "bisect", good, "HEAD", *loud, *SECONDS]
    process = subprocess.Popen(
        command, cwd=project.repo, env=project.env(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    try:
        # What follows is told between two campaigns: the search is over, its confirmation has not begun.
        assert any(line.startswith("confirming ") for line in process.stdout)
        process.stdout.close()
        assert process.wait(timeout=60) == 130
    finally:
        process.kill()
        process.wait()
    assert dict(rows(project.db, "SELECT kind, status FROM campaigns"))["bisect"] == "interrupted"
    (bisect_id,) = rows(project.db, "SELECT id FROM campaigns WHERE kind = 'bisect'")[0]
    assert json.loads(project.run("bisect", "--resume", bisect_id, "--json", "-", "--quiet", code=1).stdout)["culprit"]


def test_a_bisect_that_an_error_ends_is_left_as_interrupted_too(monkeypatch):
    """As when its commits are gone; a database that cannot be written hides nothing of the error."""
    marked = []

    def gone(job):
        raise RevisionError("no commit", "git fetch")

    def full(*status):
        marked.append(status)
        raise StoreError("full", "make room")

    monkeypatch.setattr(story, "_searched", gone)
    for set_status in (lambda *status: marked.append(status), full):
        job = SimpleNamespace(id="b", store=SimpleNamespace(set_status=set_status))
        with pytest.raises(RevisionError, match="no commit"):
            story._to_verdict(job)
    assert marked == [("b", "interrupted")] * 2


def test_a_budget_ends_undecided_and_resuming_with_more_finds_it(project):
    good = project.commit(bench(), "start")
    notes(project, "a")
    slow = project.commit(bench(1.4), "Slow down")
    found = bisect(project, good, "HEAD", *SHORT, "--budget", "0.1s", code=3)
    assert (found["outcome"], found["stopped"]) == ("INCONCLUSIVE", "budget")
    assert found["next"] == f"perfguard bisect --resume {found['id']}"
    assert f"{found['id']}  INCONCLUSIVE  agrees" in project.run("replay").stdout
    done = project.run("bisect", "--resume", found["id"], "--budget", "10m", "--quiet", "--json", "-", code=1)
    assert json.loads(done.stdout)["culprit"] == slow
