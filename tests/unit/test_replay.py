"""Stored verdicts derived again from a database, and what counts as a difference."""

import math

import pytest
from campaign_cases import campaign, measured, same, slower_head

from perfguard.errors import UsageError
from perfguard.experiment import planned_blocks
from perfguard.judging import verdict_json
from perfguard.replay import differing, replay_one
from perfguard.replay import same as is_same
from perfguard.store import open_store


@pytest.fixture
def store(tmp_path):
    with open_store(tmp_path / "results.db") as store:
        yield store


def store_comparison(store, seconds, *, num_twos=0, stopped="", num_ones=2):
    asked = campaign()
    plans, trials = planned_blocks(asked), measured(asked, seconds, num_ones=num_ones, num_twos=num_twos)
    store.add_campaign(asked)
    store.add_blocks(asked.id, plans)
    for trial in trials:
        store.add_trial(asked.id, trial)
    store.add_verdict(asked.id, verdict_json(asked, plans, trials, stopped=stopped))
    return asked


@pytest.mark.parametrize(
    ("seconds", "num_twos", "outcome"),
    [(same, 0, "EQUIVALENT"), (slower_head, 2, "REGRESSION")],
)
def test_a_verdict_comes_out_the_same_from_stored_data_alone(store, seconds, num_twos, outcome):
    asked = store_comparison(store, seconds, num_twos=num_twos)
    expected = {"id": asked.id, "outcome": outcome, "agrees": True, "differences": []}
    assert replay_one(store, "latest") == expected


def test_a_comparison_that_was_stopped_by_its_budget_agrees_too(store):
    store_comparison(store, same, num_ones=1, stopped="budget")
    replayed = replay_one(store, "latest")
    assert (replayed["outcome"], replayed["agrees"]) == ("INCONCLUSIVE", True)


def test_a_verdict_that_does_not_follow_from_the_data_is_found_and_named(store):
    asked = store_comparison(store, same)
    verdict = dict(store.latest_verdict(asked.id))
    metric = {**verdict["metrics"][0], "slowdown": 1.2}
    forged = {**verdict, "outcome": "REGRESSION", "exit_code": 1, "metrics": [metric]}
    store.add_verdict(asked.id, {**forged, "reasons": [{"code": "ODDS", "text": "none"}]})
    replayed = replay_one(store, asked.id)
    assert (replayed["outcome"], replayed["agrees"]) == ("EQUIVALENT", False)
    assert set(replayed["differences"]) >= {"outcome", "exit_code", "reasons ODDS", "seconds.slowdown"}


def test_other_words_are_no_difference(store):
    asked = store_comparison(store, same)
    verdict = store.latest_verdict(asked.id)
    assert differing(verdict, {**verdict, "sentence": "put better", "next": "do this"}) == []


def test_what_holds_no_verdict_cannot_be_replayed(store):
    store.add_campaign(campaign())
    with pytest.raises(UsageError, match="c-1 holds no verdict on a comparison"):
        replay_one(store, "latest")
    store.add_campaign(campaign(id="run-1", kind="run"))
    store.add_verdict("run-1", {"outcome": "MEASURED"})
    with pytest.raises(UsageError, match="run-1 holds no verdict on a comparison"):
        replay_one(store, "run-1")


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (1.0, 1.0 + 1e-13, True),
        (1.0, 1.0 + 1e-11, False),
        (1e6, 1e6 * (1 + 1e-13), True),
        (0.0, 1e-13, True),
        (math.inf, math.inf, True),
        (1.0, None, False),
        (None, None, True),
        (4, 4, True),
        (4, 5, False),
        ("REGRESSION", "REGRESSION", True),
        ("abc", "abd", False),
        ({"a": 1.0}, {"a": 1.0 + 1e-14}, True),
        ({"a": 1.0}, {"b": 1.0}, False),
        ([1.0, 2.0], [1.0], False),
        ([1.0, [2.0]], [1.0, [2.0 + 1e-14]], True),
    ],
)
def test_numbers_are_the_same_to_a_part_in_a_million_million_and_all_else_exactly(one, other, expected):
    assert is_same(one, other) is expected
