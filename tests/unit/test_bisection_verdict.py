"""The JSON of a bisect and its words, from stored readings alone."""

import json
from dataclasses import replace

import bisect_cases as cases
import pytest
from advice_cases import understood
from store_cases import trial

from perfguard.bisection.state import lost_confirmation, standing
from perfguard.bisection.verdict import bisect_json
from perfguard.report.bisect import cost_line

SHA = f"{5:040x}"


@pytest.fixture(scope="module")
def named():
    """A search of eight commits that came to the fifth, which is 20 % slower, and is not confirmed yet."""
    built = cases.with_build(cases.stored(), 0)
    return cases.until_done(built, slow_from=5)


def test_a_named_commit_waits_for_its_confirmation(named):
    at = standing(named)
    assert at.state == "confirm"
    assert at.decision is not None
    assert (at.decision.before, at.decision.after) == (4, 5)


def test_a_confirmed_commit_is_the_culprit_with_the_slowdown_of_the_confirmation(named):
    found = bisect_json(replace(named, confirmations={5: cases.comparison("REGRESSION", 1.19)}))
    assert (found["outcome"], found["exit_code"], found["culprit"], found["range"]) == ("CULPRIT", 1, SHA, [SHA])
    assert found["slowdown"] == 1.19
    assert found["probability"] >= 0.99
    assert found["trials"] == 2 * len(named.pairs) + 20
    assert found["builds"] == 14  # the search of this test built nothing
    assert (found["commits"], found["candidates"]) == (10, 8)
    assert found["sentence"].startswith("000000000000 (step 5) made it slower (+19.0 %)")
    assert found["next"] == "git show 000000000000"
    json.dumps(found, allow_nan=False)


def test_a_confirmation_that_finds_no_change_sends_the_search_on(named):
    at = standing(replace(named, confirmations={5: cases.comparison("EQUIVALENT", 1.0)}))
    assert at.state == "measure"


def test_a_confirmation_that_stays_undecided_ends_it_undecided(named):
    found = bisect_json(replace(named, confirmations={5: cases.comparison("SUSPECT")}))
    assert (found["outcome"], found["exit_code"], found["culprit"]) == ("INCONCLUSIVE", 3, None)
    assert SHA in found["range"]
    assert found["confirmation"]["outcome"] == "SUSPECT"
    # More of the confirmation decides it; the bisect then takes its answer.
    assert found["next"] == "perfguard extend c-0002 --budget 1h, then perfguard bisect --resume c-0001"


def test_an_invalid_confirmation_makes_it_invalid(named):
    found = bisect_json(replace(named, confirmations={5: cases.comparison("INVALID")}))
    assert found["outcome"] == "INVALID"
    assert found["reasons"] == [{"code": "same_code", "text": "confirmation: one code twice"}]


def test_commits_that_cannot_be_measured_before_the_slow_one_are_named_with_it():
    stored = cases.stored()
    for position in (3, 4):
        stored = cases.with_build(stored, position, "unbuildable", f"exit code {position}")
    stored = cases.until_done(stored, slow_from=5)
    at = standing(stored)
    assert at.decision is not None
    assert (at.decision.before, at.decision.after) == (2, 5)
    found = bisect_json(replace(stored, confirmations={5: cases.comparison("REGRESSION")}))
    assert (found["outcome"], found["culprit"]) == ("INCONCLUSIVE", None)
    assert found["range"] == [f"{k:040x}" for k in (3, 4, 5)]
    assert found["unbuildable"] == [f"{k:040x}" for k in (3, 4)]
    assert found["unbuildable_because"][f"{4:040x}"] == "exit code 4"


def test_no_change_is_a_phantom_and_withheld_where_nobody_saw_the_code():
    stored = cases.until_done(cases.stored(), slow_from=99)
    found = bisect_json(stored)
    assert (found["outcome"], found["exit_code"], found["range"]) == ("PHANTOM", 0, [])
    assert found["p_nothing_changed"] >= 0.99
    assert found["slowdown"] == pytest.approx(1.0, abs=0.002)
    assert found["sentence"].startswith("Nothing changed between GOOD (HEAD~1) and BAD (WORKTREE) beyond 2 %")
    unseen = bisect_json(cases.with_build(stored, 8, is_proven=False, note="no process listed it"))
    assert (unseen["outcome"], unseen["reasons"][0]["code"]) == ("INCONCLUSIVE", "CODE_UNKNOWN")


def test_a_phantom_says_that_good_does_not_reach_what_was_believed():
    stored = cases.until_done(cases.stored(), slow_from=99)
    claimed = replace(stored, campaign=replace(stored.campaign, method={"claimed": 0.8}))
    found = bisect_json(claimed)
    assert found["claimed"] == {"value": 0.8, "reached": False, "launches": len(stored.pairs)}
    assert "GOOD does not reach 0.8 s now" in found["sentence"]
    (command,) = understood(found["next"])
    assert command.startswith("perfguard bisect aaaaaaaaaaaa WORKTREE --find-good 0.8 --metric ")


def test_a_search_that_was_stopped_says_how_it_goes_on():
    stored = cases.with_reading(cases.stored(), 8, 1.0, 1.2)
    found = bisect_json(stored, stopped="budget")
    assert (found["outcome"], found["stopped"]) == ("INCONCLUSIVE", "budget")
    assert found["reasons"] == [{"code": "STOPPED", "text": "stopped when the budget was used up"}]
    assert found["next"] == "perfguard bisect --resume c-0001"


def test_what_is_found_inside_a_merge_takes_the_place_of_the_merge(named):
    outer = replace(named, confirmations={5: cases.comparison("REGRESSION")})
    inner = bisect_json(replace(outer, search=replace(outer.search, merge=SHA)))
    found = bisect_json(outer, inside={**inner, "culprit": "d" * 40, "range": ["d" * 40], "slowdown": 1.11})
    assert (found["culprit"], found["merged_by"], found["slowdown"]) == ("d" * 40, SHA, 1.11)
    assert found["merge_confirmation"] == cases.comparison("REGRESSION")["id"]
    assert found["trials"] == 2 * inner["trials"]
    assert found["trials_by"]["search"] + found["trials_by"]["confirmation"] == found["trials"]
    open_ = {**inner, "outcome": "INCONCLUSIVE", "culprit": None, "confirmation": cases.comparison("SUSPECT", id="c-7")}
    undecided = bisect_json(outer, inside=open_)
    assert undecided["culprit"] == SHA
    assert "which commit of its branch it was stays undecided" in undecided["sentence"]
    assert undecided["next"] == "perfguard extend c-7 --budget 1h, then perfguard bisect --resume c-0001"
    alone = bisect_json(outer, inside={**inner, "outcome": "PHANTOM", "culprit": None})
    assert alone["culprit"] == SHA
    assert "the merge itself" in alone["sentence"]


def first_run(side, build, at):
    return trial(
        id=f"first-{side}-{build}",
        stage=0,
        block=build,
        side=side,
        build=build,
        record={"built": {"from_cache": True, "at": at, "key": "k"}},
    )


def test_builds_from_the_cache_are_said_with_the_end_that_they_stand_for():
    stored = cases.until_done(cases.stored(), slow_from=99)
    when = {("head", 8): "2026-01-03", ("base", 1): "2026-01-02", ("head", 5): "2026-01-04"}
    firsts = [first_run(*place, at) for place, at in when.items()]
    found = bisect_json(replace(stored, trials=(*firsts, *stored.trials)))
    assert found["outcome"] == "PHANTOM"
    assert [(one["end"], one["commit"][-4:], one["built_at"]) for one in found["cached_builds"]] == [
        ("GOOD", "aaaa", "2026-01-02"),
        (None, "0005", "2026-01-04"),
        ("BAD", "0008", "2026-01-03"),
    ]
    said = "Builds: 3 (3 from the cache of builds, GOOD and BAD among them, the oldest of 2026-01-02)."
    assert said in cost_line(found)
    assert bisect_json(stored)["cached_builds"] == []
    assert "cache" not in cost_line(bisect_json(stored))


def test_an_invalid_confirmation_may_be_done_again_once(named):
    lost = replace(named, confirmations={5: cases.comparison("INVALID")})
    at = lost_confirmation(lost, {5: 1})
    assert at is not None
    assert at.decision is not None
    assert (at.state, at.decision.before, at.decision.after) == ("confirm", 4, 5)
    assert lost_confirmation(lost, {5: 2}) is None
    assert lost_confirmation(named, {}) is None
    assert lost_confirmation(replace(named, confirmations={5: cases.comparison("REGRESSION")}), {}) is None
    # An end that cannot be measured is no matter of the confirmation.
    assert lost_confirmation(cases.with_build(lost, 8, "unbuildable", "exit code 1"), {5: 1}) is None
