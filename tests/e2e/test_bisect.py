"""`perfguard bisect` on real repositories with a slow commit planted, or none."""

import json

from bisect_support import SECONDS, SHORT, bench, bisect, notes
from cli_support import rows


def planted(project):
    """Twelve commits, the seventh after GOOD is 30 % slower."""
    good = project.commit(bench(), "start")
    notes(project, *"abcdef")
    slow = project.commit(bench(1.3), "Slow down")
    notes(project, *"ghijk")
    return good, slow


def test_the_slow_commit_is_named_and_confirmed_and_comes_out_again_from_what_is_stored(project):
    good, slow = planted(project)
    found = bisect(project, good, "HEAD", *SHORT, code=1)
    assert (found["outcome"], found["culprit"], found["range"]) == ("CULPRIT", slow, [slow])
    assert found["commits"] == 12
    assert 1.2 < found["slowdown"] < 1.4
    assert found["probability"] >= 0.99
    assert found["p_nothing_changed"] <= 0.001
    confirmation = found["confirmation"]
    assert confirmation["outcome"] == "REGRESSION"
    assert confirmation["head"]["commit"] == slow
    assert confirmation["base"]["commit"] == project.git("rev-parse", f"{slow}~1")
    # Every launch lies in the database, the unmeasured first runs apart.
    (counted,) = rows(project.db, "SELECT count(*) FROM trials WHERE stage > 0")
    assert counted == (found["trials"],)
    replayed = project.run("replay").stdout
    assert f"{found['id']}  CULPRIT  agrees" in replayed
    assert f"{confirmation['id']}  REGRESSION  agrees" in replayed
    assert "CULPRIT" in project.run("runs").stdout
    shown = project.run("show", "latest").stdout  # the bisect, not its confirmation
    assert f"# culprit: [{slow}]" in shown
    assert "nothing changed" in shown
    report = project.run("report", found["id"], "-f", "md").stdout
    assert "Where the change lies" in project.run("report", found["id"], "-f", "html").stdout
    assert report.startswith("**✗ CULPRIT: ")
    copy = project.folder / "copy.db"
    project.run("export", str(copy), found["id"])
    assert f"{found['id']}  CULPRIT  agrees" in project.run("replay", "--db", str(copy)).stdout
    assert rows(copy, "SELECT count(*) FROM campaigns") == [(2,)]


def test_where_nothing_changed_the_answer_is_phantom(project):
    good = project.commit(bench(), "start")
    notes(project, *"abcdef")
    found = bisect(project, good, "HEAD", *SHORT, code=0)
    assert (found["outcome"], found["culprit"], found["confirmation"]) == ("PHANTOM", None, None)
    assert found["p_nothing_changed"] >= 0.99
    assert found["range"] == []
    # GOOD and BAD alone were built.
    assert found["builds"] == 2


def test_a_claimed_number_that_good_does_not_reach_is_said_and_good_is_found_by_walking_back(project):
    fast = project.commit(bench(), "start")
    slow = project.commit(bench(1.5), "Slow down")
    notes(project, *"abcdef")
    found = bisect(project, "HEAD~2", "HEAD", *SHORT, "--was", "1.0", code=0)
    assert (found["outcome"], found["claimed"]["reached"]) == ("PHANTOM", False)
    assert "GOOD does not reach 1 s now" in found["sentence"]
    assert "--find-good 1" in found["next"]
    reached = bisect(project, "HEAD~2", "HEAD", *SHORT, "--was", "1.5", code=0)
    assert reached["claimed"]["reached"] is True
    # HEAD~2, then 1, 2 and 4 commits before it; 4 before is the commit that is slow, so the root comes next.
    walked = bisect(project, "HEAD~2", "HEAD", *SHORT, "--find-good", "1.0", code=1)
    assert (walked["good"]["commit"], walked["culprit"]) == (fast, slow)
    launches = (
        "SELECT count(*) FROM trials t JOIN campaigns c ON c.id = t.campaign WHERE c.kind = 'run' AND t.stage > 0"
    )
    assert rows(project.db, launches) == [(5,)]
    never = project.run("bisect", "HEAD~2", "HEAD", *SHORT, "--find-good", "0.5", *SECONDS, code=3)
    assert "reaches 0.5 now" in never.stderr


def test_commits_that_cannot_be_measured_are_a_range_with_their_reasons(project):
    """Neighbours of the culprit: two do not start, one lacks the benchmark; the culprit is the last of these."""
    good = project.commit(bench(), "start")
    notes(project, "a")
    broken = [
        project.commit({"bench.sh": "echo module lost >&2; exit 1\n"}, "Break"),
        project.commit({"bench.sh": "echo still lost >&2; exit 1\n"}, "Still broken"),
    ]
    project.git("rm", "--quiet", "bench.sh")
    broken.append(project.commit({}, "Lose the benchmark"))
    slow = project.commit(bench(1.4), "Mend and slow down")
    notes(project, "b")
    found = bisect(project, good, "HEAD", *SHORT, code=3)
    assert (found["outcome"], found["culprit"]) == ("INCONCLUSIVE", None)
    assert found["confirmation"]["outcome"] == "REGRESSION"
    assert found["range"] == [*broken, slow]
    assert set(found["unbuildable"]) <= set(broken)
    assert found["unbuildable"]
    texts = found["unbuildable_because"]
    assert all("lost" in text or "bench.sh" in text for text in texts.values())
    # A commit that failed twice is never tried again.
    tried = rows(project.db, "SELECT build, count(*) FROM trials WHERE status = 'crashed' GROUP BY build")
    assert tried
    assert all(number == 2 for _, number in tried)
    assert f"{found['id']}  INCONCLUSIVE  agrees" in project.run("replay", found["id"]).stdout
    assert "cannot be measured: " in project.run("show", found["id"]).stdout


def test_a_benchmark_that_old_commits_lack_is_put_into_every_checkout(project):
    good = project.commit({"level": "1000\n"}, "start")
    notes(project, "a", "b")
    slow = project.commit({"level": "1400\n"}, "Slow down")
    notes(project, "c")
    project.commit({"bench/run.sh": bench("$(cat level)")["bench.sh"]}, "measure")
    command = ("--metric", "seconds", "--", "sh", "bench/run.sh")
    without = bisect(project, good, "HEAD", *SHORT, code=4, command=command)
    assert without["outcome"] == "INVALID"
    assert "GOOD" in without["sentence"]
    found = bisect(project, good, "HEAD", *SHORT, "--bench-from", "HEAD:bench", code=1, command=command)
    assert found["culprit"] == slow
    assert project.git("status", "--porcelain") == ""


def test_a_carried_patch_lies_on_every_commit_and_one_it_does_not_fit_is_passed_over(project):
    good = project.commit({**bench(), "level.txt": "1\n"}, "start")
    notes(project, "a")
    misfit = project.commit({"level.txt": "5\n"}, "Another level")
    project.commit({"level.txt": "1\n"}, "Back")
    slow = project.commit(bench(1.4), "Slow down")
    project.write({"level.txt": "2\n"})
    patch = project.folder / "level.patch"
    patch.write_text(project.git("diff") + "\n")
    project.git("checkout", "--quiet", "level.txt")
    seen = project.folder / "seen"
    watched = ("--metric", "seconds", "--", "sh", "-c", f"cat level.txt >> {seen}; sh bench.sh")
    found = bisect(project, good, "HEAD", *SHORT, "--carry", str(patch), code=1, command=watched)
    assert found["culprit"] == slow
    assert set(seen.read_text().split()) == {"2"}
    refused = project.run("bisect", good, misfit, *SHORT, "--carry", str(patch), *watched, code=2)
    assert f"--carry {patch}" in refused.stderr or "does not apply" in refused.stderr


def test_only_commits_that_change_the_named_paths_are_candidates(project):
    good = project.commit({**bench("$(cat engine/level)"), "engine/level": "1000\n"}, "start")
    notes(project, *"abcdef")
    slow = project.commit({"engine/level": "1400\n"}, "Slow down")
    notes(project, *"ghi")
    found = bisect(project, good, "HEAD", *SHORT, "--paths", "engine", code=1)
    assert (found["culprit"], found["commits"], found["candidates"]) == (slow, 10, 1)
    same = bisect(project, slow, "HEAD", *SHORT, "--paths", "engine", code=0)
    assert (same["outcome"], same["trials"], same["builds"]) == ("PHANTOM", 0, 0)
    assert same["reasons"][0]["code"] == "SAME_CODE"
    # From where one stands, and never a PHANTOM of what is not there.
    plan = ("bisect", good, "HEAD", "--plan-only", "--quiet")
    for where, path in (("engine", "level"), ("engine", "."), (".", str(project.repo / "engine"))):
        planned = project.run(*plan, "--paths", path, *SECONDS, cwd=project.repo / where).stdout
        assert "10 commits between GOOD and BAD, 1 of them with other code" in planned
    assert "10 of them with other code" in project.run(*plan, "--paths", ".", *SECONDS).stdout
    for path in ("../x", "/etc", "", "engine/nothing"):
        assert "--paths" in project.run(*plan, "--paths", "engine", "--paths", path, *SECONDS, code=2).stderr


def test_what_a_person_asks_wrongly_is_said_with_the_command_that_was_meant(project):
    good = project.commit(bench(), "start")
    notes(project, "a")
    swapped = project.run("bisect", "HEAD", good, *SECONDS, code=2).stderr
    assert "GOOD and BAD are swapped" in swapped
    assert f"next: perfguard bisect {good} HEAD, with --look-for faster" in swapped
    assert "are the same commit" in project.run("bisect", good, good, *SECONDS, code=2).stderr
    project.git("checkout", "--quiet", "--orphan", "other")
    notes(project, "b")
    assert "they share no commit" in project.run("bisect", good, "other", *SECONDS, code=2).stderr
    for number in ("inf", "-5"):
        claimed = project.run("bisect", good, "main", f"--find-good={number}", *SECONDS, code=2).stderr
        assert f"--find-good {number} is not a positive number" in claimed
    alone = project.run("bisect", "c1", *SECONDS, code=2).stderr
    assert "BAD is missing" in alone
    assert "perfguard bisect c1 HEAD -- sh bench.sh" in alone
    assert "--find-good" in project.run("bisect", "c1", "--find-good", "3", code=2).stderr
    for path in ("../../x", ".", "a/../.."):
        outside = project.run("bisect", good, "main", "--bench-from", f"HEAD:{path}", *SECONDS, code=2).stderr
        assert f"--bench-from 'HEAD:{path}'" in outside
    one = project.run("bisect", good, "main", "--plan-only", *SECONDS).stdout
    assert "1 commit between GOOD and BAD, 1 of them" in one
    assert "--look-for 'up'" in project.run("bisect", good, "main", "--look-for", "up", *SECONDS, code=2).stderr
    assert rows(project.db, "SELECT count(*) FROM campaigns") in ([(0,)], [])


def test_the_price_list_is_printed_and_nothing_is_measured(project):
    good, _ = planted(project)
    done = project.run("bisect", good, "HEAD", "--plan-only", "--json", "plan.json", *SECONDS)
    assert "12 commits between GOOD and BAD" in done.stdout
    assert "nothing changed: about" in done.stdout
    assert json.loads((project.repo / "plan.json").read_text())["prices"] == done.stdout.splitlines()
    assert rows(project.db, "SELECT count(*) FROM campaigns") == [(0,)]


def test_uncommitted_work_can_be_bad(project):
    good = project.commit(bench(), "start")
    notes(project, "a", "b")
    project.write(bench(1.4))
    before = project.git("status", "--porcelain")
    found = bisect(project, good, "WORKTREE", *SHORT, code=1)
    assert found["culprit"] == project.git("rev-parse", "HEAD")
    assert found["bad"]["revision"] == "WORKTREE"
    assert len(found["confirmation"]["head"]["patch_sha256"]) == 64
    assert project.git("status", "--porcelain") == before


def test_a_built_in_workload_is_searched_by_the_metric_that_is_named_and_an_unbuildable_commit_is_passed_over(project):
    good = project.commit({"fake.json": {"noise": 0.005}}, "start")
    notes(project, "a")
    unbuildable = project.commit({"fake.json": "{"}, "Break")
    project.commit({"fake.json": {"noise": 0.005, "slowdown": 1.3}}, "Slow plain down")
    notes(project, "b")
    slow = project.commit({"fake.json": {"noise": 0.005, "slowdown": 1.3, "eagle3_slowdown": 1.4}}, "Slow eagle3 down")
    workload = ("-w", "fake", "--metric", "eagle3_throughput", "--look-for", "slower")
    found = bisect(project, "HEAD~2", "HEAD", *SHORT, *workload, code=1, command=())
    assert found["culprit"] == slow
    assert found["metric"]["name"] == "eagle3_throughput"
    # 1.3 and then 1.4 on top: against its parent the last one is 1.4.
    assert 1.3 < found["slowdown"] < 1.5
    broken = bisect(project, good, "HEAD~2", *SHORT, "-w", "fake", code=3, command=())
    assert broken["confirmation"]["outcome"] == "REGRESSION"
    assert broken["range"] == [unbuildable, project.git("rev-parse", "HEAD~2")]
    assert "cannot be measured" in broken["unbuildable_because"][unbuildable]
    unknown = project.run("bisect", good, "HEAD", "-w", "fake", "--metric", "seconds", code=2).stderr
    assert "fake has plain_throughput, eagle3_throughput" in unknown


def test_few_builds_lie_on_the_disk_at_once(project):
    project.commit({**bench(), "perfguard.toml": "[policy]\npause_share = 0\nconfirm_builds = 2\nkept_builds = 1\n"})
    good, _ = planted(project)
    seen = project.folder / "builds"
    # A checkout lies in a folder of its build, beside the other builds and one file.
    watched = ("--metric", "seconds", "--", "sh", "-c", f"ls -d ../../*/ | wc -l >> {seen}; sh bench.sh")
    found = bisect(project, good, "HEAD", *SHORT, "--max-trials", "18", code=(1, 3), command=watched)
    counts = [int(line) for line in seen.read_text().split()]
    searching = counts[: found["trials_by"]["search"]]
    assert max(searching) == 2  # GOOD and one more
    assert found["builds"] > 2
