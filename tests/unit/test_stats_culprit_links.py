"""What leads into a search and out of it."""

import math
from dataclasses import replace

import pytest

from perfguard.policy import Policy
from perfguard.records import BlockValues, Metric, Outcome
from perfguard.stats.culprit import decide
from perfguard.stats.culprit_links import confirm_policy, next_searches, readings_of_blocks, unexplained
from perfguard.stats.culprit_records import Confirmation, Reading, SearchSetup, SearchState
from perfguard.stats.design import false_report_bound, rules_of

SETUP = SearchSetup(num_candidates=64)
RATE = Metric(name="rate", unit="token/s", better="higher")


def block(index, values):
    return BlockValues(stage=1, index=index, order="ABBA", builds="1111", values={"rate": values})


def found(log_slowdown, se=0.004):
    return Confirmation(outcome=Outcome.REGRESSION, trials=20, log_slowdown=log_slowdown, se=se)


def at(position, *log_slowdowns):
    return [Reading(position=position, log_slowdown=x) for x in log_slowdowns]


def test_blocks_of_a_stored_comparison_become_free_readings_of_bad():
    blocks = [block(0, (100.0, 95.0, 90.0, 100.0)), block(1, (100.0, 100.0, 100.0, 100.0))]
    readings = readings_of_blocks(SETUP, RATE, blocks)
    # Throughput: mean log of base less mean log of head.
    assert readings[0].log_slowdown == pytest.approx(math.log(100) - (math.log(95) + math.log(90)) / 2)
    assert readings[1].log_slowdown == 0
    assert {(r.position, r.trials, r.relative_sd) for r in readings} == {(64, 0, math.sqrt(0.5))}
    assert readings_of_blocks(SETUP, RATE, []) == ()


def test_a_stored_regression_saves_the_first_readings():
    blocks = [block(q, (100.0, 95.0, 95.0, 100.0)) for q in range(5)]
    decision = decide(SETUP, SearchState(readings=readings_of_blocks(SETUP, RATE, blocks)))
    assert decision.num_trials == 0
    assert decision.posterior.p_none < 0.001
    assert 28 <= decision.position <= 40


def test_a_confirmation_takes_more_patience_and_keeps_the_promise():
    policy = confirm_policy(Policy(max_blocks=6, is_confirmed=False))
    assert (policy.max_blocks, policy.max_confirm_blocks, policy.is_confirmed) == (14, 14, True)
    assert confirm_policy(Policy(max_blocks=20)).max_blocks == 20
    assert false_report_bound(rules_of(policy, 1).design, 1) <= policy.alpha


def test_a_culprit_as_large_as_the_whole_explains_everything():
    readings = at(64, 0.049, 0.055, 0.047)
    assert unexplained(SETUP, readings, found(0.05)) is None
    assert next_searches(SETUP, readings, 30, found(0.05)) == ()


def test_what_a_culprit_leaves_over_is_searched_before_it_and_behind_it():
    readings = [*at(64, 0.08, 0.075, 0.09), *at(20, 0.001), *at(30, 0.03)]
    assert unexplained(SETUP, readings, found(0.03)) == pytest.approx(0.05)
    before, behind = next_searches(SETUP, readings, 30, found(0.03))
    assert (before.start, before.setup.num_candidates) == (0, 29)
    assert before.readings == (Reading(position=20, log_slowdown=0.001, trials=0),)
    assert (behind.start, behind.setup.num_candidates, behind.readings) == (30, 34, ())
    assert before.setup.look_for == behind.setup.look_for == "any"
    assert len({SETUP.seed, before.setup.seed, behind.setup.seed}) == 3


def test_a_hidden_improvement_is_left_over_too():
    assert unexplained(SETUP, at(64, 0.01, 0.012), found(0.05)) == pytest.approx(-0.039)


def test_nothing_is_searched_where_no_commit_is_left():
    readings = at(64, 0.09, 0.09)
    (only,) = next_searches(SETUP, readings, 64, found(0.03))
    assert (only.start, only.setup.num_candidates) == (0, 63)
    (only,) = next_searches(SETUP, readings, 1, found(0.03))
    assert (only.start, only.setup.num_candidates) == (1, 63)


def test_weights_follow_their_commits():
    setup = replace(SETUP, num_candidates=4, weights=(1.0, 2.0, 3.0, 4.0))
    before, behind = next_searches(setup, at(4, 0.09), 2, found(0.03))
    assert (before.setup.weights, behind.setup.weights) == ((1.0,), (3.0, 4.0))


def test_without_a_reading_of_bad_nothing_is_known_to_be_left():
    assert unexplained(SETUP, at(20, 0.0), found(0.03)) is None
