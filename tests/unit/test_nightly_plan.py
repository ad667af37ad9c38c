"""What a night measures, for how long, and how it ends: worked out by hand."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from perfguard.nightly import plan
from perfguard.store import NightRun, Pin, StoredNight

RUN = NightRun(
    campaign="c", night="n1", started_at="2026-03-01T02:00:00+00:00", workload="decode", commit_sha="h1", pin="p1",
    is_link=False, code="k1", machine="m1", outcome="EQUIVALENT",
)  # fmt: skip


def pin(commit, workload=""):
    return Pin(workload=workload, commit_sha=commit, revision=commit, pinned_at="2026-03-01T00:00:00+00:00")


def test_the_newest_pin_that_is_meant_for_a_workload_rules():
    pins = [pin("a"), pin("b", "decode"), pin("c", "other")]
    assert plan.current_pin(pins, "decode").commit_sha == "b"
    assert plan.current_pin(pins, "third").commit_sha == "a"
    assert plan.current_pin([*pins, pin("d")], "decode").commit_sha == "d"
    assert plan.current_pin([], "decode") is None


def test_two_references_overlap_until_three_nights_have_measured_both():
    pins = [pin("p1"), pin("p2")]
    before = [replace(RUN, night=f"n{k}") for k in range(5)]
    both = [replace(RUN, night=f"b{k}", pin=p, is_link=p == "p1") for k in range(3) for p in ("p2", "p1")]
    assert plan.linking_pin(pins, before, "decode").commit_sha == "p1"
    assert plan.linking_pin(pins, [*before, *both[:4]], "decode").commit_sha == "p1"
    assert plan.linking_pin(pins, [*before, *both], "decode") is None
    unfinished = [*before, *both[:5], replace(both[5], outcome="")]
    assert plan.linking_pin(pins, unfinished, "decode").commit_sha == "p1"


def test_a_reference_that_no_night_measured_needs_no_link():
    assert plan.linking_pin([pin("p0"), pin("p1")], [RUN], "decode") is None
    assert plan.linking_pin([pin("p1")], [RUN], "decode") is None


@pytest.mark.parametrize(("change", "unchanged"), [
    ({}, True),
    ({"outcome": "IMPROVEMENT"}, True),
    ({"outcome": "REGRESSION"}, False),
    ({"outcome": "INCONCLUSIVE"}, False),
    ({"outcome": ""}, False),
    ({"code": "k2"}, False),
    ({"machine": "m2"}, False),
    ({"pin": "p2"}, False),
])  # fmt: skip
def test_only_what_was_measured_just_so_and_found_good_is_left_out(change, unchanged):
    link = replace(RUN, is_link=True, outcome="REGRESSION")
    assert plan.is_unchanged([RUN, replace(RUN, **change), link], "p1", "k1", "m1") is unchanged


def test_nothing_measured_yet_is_no_reason_to_leave_out():
    assert plan.is_unchanged([], "p1", "k1", "m1") is False


def test_the_last_good_night_is_the_newest_good_one_against_the_same_reference():
    runs = [
        replace(RUN, commit_sha="h1"),
        replace(RUN, commit_sha="h2", outcome="IMPROVEMENT"),
        replace(RUN, commit_sha="h3", outcome="INCONCLUSIVE"),
        replace(RUN, commit_sha="h4", pin="p2"),
        replace(RUN, commit_sha="h5", is_link=True),
    ]
    assert plan.last_good(runs, "p1").commit_sha == "h2"
    assert plan.last_good(runs, "p3") is None


def test_the_budget_is_shared_by_need_and_what_is_left_is_shared_again():
    # 600 s for needs of 1, 2 and 3 minutes: 100 s; the first took 40, so the second gets 560 * 2 / 5.
    assert plan.share_s(600, [60, 120, 180]) == pytest.approx(100)
    assert plan.share_s(560, [120, 180]) == pytest.approx(224)
    assert plan.share_s(90, [0.0, 0.0, 0.0]) == pytest.approx(30)


def test_a_night_goes_on_if_it_was_interrupted_lately_at_the_same_commit():
    now = datetime(2026, 3, 2, 2, tzinfo=UTC)
    began = (now - timedelta(hours=3)).isoformat()
    night = StoredNight(id="n", started_at=began, status="interrupted", commit_sha="h1")
    assert plan.unfinished([night], "h1", now) == night
    killed = replace(night, status="running")
    assert plan.unfinished([killed], "h1", now) == killed
    assert plan.unfinished([night], "h2", now) is None
    assert plan.unfinished([replace(night, status="finished")], "h1", now) is None
    assert plan.unfinished([night], "h1", now + timedelta(hours=20)) is None
    assert plan.unfinished([], "h1", now) is None


@pytest.mark.parametrize(("codes", "worst"), [
    ([0, 0], 0),
    ([0, 3], 3),
    ([3, 4], 4),
    ([4, 5, 3], 5),
    ([5, 4, 3, 1, 0], 1),
    ([], 0),
])  # fmt: skip
def test_the_exit_code_is_the_worst_of_all_workloads(codes, worst):
    assert plan.worst(codes) == worst
