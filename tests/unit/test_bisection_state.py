"""What is stored of a bisect says where the search stands: readings, what cannot be measured, what makes it invalid."""

from dataclasses import replace
from math import log

import bisect_cases as cases
import pytest

from perfguard.bisection.state import (
    failing,
    invalid_reasons,
    launch_sd,
    open_pair,
    reached,
    readings,
    search_state,
    standing,
    unmeasurable,
)
from perfguard.bisection.verdict import bisect_json
from perfguard.records import Metric, Outcome


def test_a_reading_is_the_log_of_candidate_against_good_whatever_their_order():
    stored = cases.with_reading(cases.with_reading(cases.stored(), 8, 1.0, 1.05), 8, 2.0, 2.1, order="BA")
    assert [reading.log_slowdown for reading in readings(stored)] == [pytest.approx(log(1.05))] * 2
    assert [reading.position for reading in readings(stored)] == [8, 8]


def test_a_rate_that_falls_is_a_slowdown():
    stored = cases.with_reading(cases.stored(), 8, 100.0, 80.0)
    rate = Metric(name="seconds", unit="1/s", better="higher")
    workload = replace(stored.campaign.workload, metrics=(rate,))
    stored = replace(stored, campaign=replace(stored.campaign, workload=workload))
    assert readings(stored)[0].log_slowdown == pytest.approx(log(100 / 80))


def test_a_pair_with_a_failed_launch_is_no_reading():
    stored = cases.with_reading(cases.with_reading(cases.stored(), 8, 1.0, None), 8, None, 1.0)
    assert readings(stored) == ()
    assert open_pair(stored) is None


def test_a_pair_that_an_interruption_left_half_measured_is_gone_on_with():
    stored = cases.with_reading(cases.stored(), 4, 1.0, 1.0)
    assert open_pair(stored) is None
    cut = replace(stored, trials=stored.trials[:1])
    assert open_pair(cut) == stored.pairs[0]
    assert open_pair(replace(stored, trials=())) == stored.pairs[0]


def test_what_was_not_built_lies_beside_or_fails_twice_is_never_chosen():
    stored = cases.with_build(cases.stored(), 3, "unbuildable", "no such file")
    beside = cases.candidate(5, is_whole=False)
    candidates = (*stored.search.candidates[:4], beside, *stored.search.candidates[5:])
    stored = replace(stored, search=replace(stored.search, candidates=candidates))
    once = cases.with_reading(stored, 6, 1.0, None)
    assert unmeasurable(once) == {3, 5}
    twice = cases.with_reading(once, 6, 1.0, None)
    assert unmeasurable(twice) == {3, 5, 6}
    # One value, and the commit can be measured after all.
    assert unmeasurable(cases.with_reading(twice, 6, 1.0, 1.0)) == {3, 5}
    assert failing(cases.with_reading(cases.with_reading(stored, 6, None, 1.0), 6, None, 1.0)) == {}


def test_an_end_that_cannot_be_measured_and_code_that_is_not_the_commits_make_it_invalid():
    for position, name in ((0, "GOOD"), (8, "BAD")):
        stored = cases.with_build(cases.stored(), position, "unbuildable", "exit code 1")
        assert [reason.text for reason in invalid_reasons(stored)] == [f"{name}: exit code 1"]
        assert standing(stored).state == "done"
        document = bisect_json(stored)
        assert (document["outcome"], document["exit_code"]) == ("INVALID", 4)
        assert name in document["sentence"]
    stored = cases.with_build(cases.stored(), 4, "invalid", "both arms loaded the same content")
    assert bisect_json(stored)["reasons"][0]["code"] == "same_code"
    assert invalid_reasons(cases.with_build(cases.stored(), 4, "unbuildable", "exit code 1")) == ()


def test_good_that_fails_in_more_than_a_third_of_all_readings_ends_it():
    stored = cases.stored()
    for _ in range(2):
        stored = cases.with_reading(stored, 8, None, 1.0)
    assert invalid_reasons(stored) == ()
    stored = cases.with_reading(stored, 8, None, 1.0)
    codes = [reason.code for reason in invalid_reasons(stored)]
    assert codes == ["void", "command_failed"]


def test_nothing_to_search_and_a_comparison_that_was_equivalent_are_phantoms_at_no_cost():
    stored = cases.stored()
    empty = bisect_json(replace(stored, search=replace(stored.search, candidates=())))
    assert (empty["outcome"], empty["trials"], empty["p_nothing_changed"]) == ("PHANTOM", 0, 1.0)
    seeded = replace(
        stored.search,
        seeded_by="c-0009",
        seed_outcome=str(Outcome.EQUIVALENT),
        seeds=((8, 0.001, 0.7), (8, -0.001, 0.7)),
    )
    known = bisect_json(replace(stored, search=seeded))
    assert (known["outcome"], known["trials"], known["reasons"][0]["code"]) == ("PHANTOM", 0, "KNOWN")
    assert "c-0009" in known["reasons"][0]["text"]


LOGS = (0.2, 0.21, 0.2, 0.2)


def test_readings_of_the_comparison_count_at_bad_and_cost_nothing():
    stored = cases.stored()
    seeded = replace(
        stored, search=replace(stored.search, seed_outcome="REGRESSION", seeds=tuple((8, r, 0.7) for r in LOGS))
    )
    found = search_state(seeded).readings
    assert [(reading.position, reading.trials, reading.relative_sd) for reading in found] == [(8, 0, 0.7)] * 4
    at = standing(seeded)
    assert at.decision is not None
    assert at.decision.position != 8


def test_noise_far_beyond_what_was_expected_is_believed_and_a_drift_is_none():
    noisy, drifting = cases.stored(), cases.stored()
    for number in range(6):
        noisy = cases.with_reading(noisy, 8, 1.1 ** (number % 2), 1.0)
        drifting = cases.with_reading(drifting, 8, 1.01**number, 1.0)
    # Neighbours differ by ln 1.1 each time: a standard deviation of that over 0.6745 times the root of 2.
    assert launch_sd(noisy) == pytest.approx(log(1.1) / (0.6745 * 2**0.5))
    assert launch_sd(drifting) == 0.01
    assert launch_sd(replace(noisy, pairs=noisy.pairs[:5], trials=noisy.trials[:10])) == 0.01


@pytest.mark.parametrize(
    ("better", "claimed", "values", "answer"),
    [
        ("higher", 89.0, [82.0, 82.5], False),
        ("higher", 89.0, [82.0, 88.0], True),  # within 3 sd of 1 %
        ("higher", 89.0, [95.0], True),  # beyond it
        ("lower", 1.0, [1.2], False),
        ("lower", 1.0, [0.5], True),
        ("lower", 1.0, [], None),
    ],
)
def test_good_reaches_a_claimed_number_if_one_launch_comes_up_to_it(better, claimed, values, answer):
    stored = cases.stored()
    metric = Metric(name="seconds", unit="s", better=better)
    campaign = replace(
        stored.campaign,
        method={"claimed": claimed},
        workload=replace(stored.campaign.workload, metrics=(metric,)),
    )
    assert reached(replace(stored, campaign=campaign), values) is answer
