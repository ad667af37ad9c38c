"""The search: what it measures next, when it stops, what it says. Readings are made up or drawn from printed seeds."""

from dataclasses import replace

import numpy as np
import pytest

from perfguard.errors import UsageError
from perfguard.records import Outcome
from perfguard.stats.culprit import before, decide, is_anchor_first
from perfguard.stats.culprit_records import Confirmation, Reading, SearchSetup, SearchState

CONFIRMED = Confirmation(outcome=Outcome.REGRESSION, trials=20, log_slowdown=0.05, se=0.004)


def follow(setup, slowdown_at, *, seed=None, unmeasurable=frozenset(), confirm=lambda after: CONFIRMED):
    """The search to its end; launches vary by 1 % where a seed is given. Returns the decision and the state."""
    print(f"seed {seed}")
    rng = np.random.default_rng(seed)
    state, memo = SearchState(unmeasurable=unmeasurable), {}
    while (decision := decide(setup, state, memo)).state != "done":
        if decision.state == "confirm":
            state = replace(state, confirmations={**state.confirmations, decision.after: confirm(decision.after)})
            continue
        assert decision.position not in unmeasurable
        noise = 0.0 if seed is None else float(rng.normal(0, 0.01 * 2**0.5))
        reading = Reading(position=decision.position, log_slowdown=slowdown_at(decision.position, rng) + noise)
        state = replace(state, readings=(*state.readings, reading))
    return decision, state


def step(culprit, size=0.05):
    return lambda position, rng: size * (position >= culprit)


def test_it_starts_at_the_bad_end():
    assert decide(SearchSetup(num_candidates=64), SearchState()).position == 64


def test_a_clear_change_at_bad_sends_it_to_the_middle():
    state = SearchState(readings=(Reading(position=64, log_slowdown=0.1), Reading(position=64, log_slowdown=0.1)))
    assert 28 <= decide(SearchSetup(num_candidates=64), state).position <= 40


@pytest.mark.parametrize("seed", range(3))
def test_no_change_ends_as_a_phantom_without_blaming_anybody(seed):
    decision, state = follow(SearchSetup(num_candidates=64), lambda position, rng: 0.0, seed=seed)
    assert (decision.outcome, decision.culprit, decision.range) == ("PHANTOM", None, ())
    assert decision.posterior.p_none >= 0.99
    assert decision.num_trials == 2 * len(state.readings)


@pytest.mark.parametrize("culprit", [1, 2, 33, 64])
def test_a_step_is_found_and_confirmed_against_its_parent(culprit):
    decision, _ = follow(SearchSetup(num_candidates=64), step(culprit), seed=culprit)
    assert (decision.outcome, decision.culprit) == ("CULPRIT", culprit)
    assert (decision.before, decision.after) == (culprit - 1, culprit)


def test_an_improvement_is_found_in_the_same_way():
    faster = Confirmation(outcome=Outcome.IMPROVEMENT)
    setup = SearchSetup(num_candidates=64, look_for="faster")
    decision, _ = follow(setup, step(40, -0.05), seed=1, confirm=lambda after: faster)
    assert (decision.outcome, decision.culprit) == ("CULPRIT", 40)
    assert decision.posterior.log_slowdown < 0


def test_looking_for_any_change_finds_an_improvement_and_wants_it_confirmed_as_one():
    setup = SearchSetup(num_candidates=16, look_for="any")
    decision, _ = follow(setup, step(5, -0.06), seed=1, confirm=lambda after: CONFIRMED)
    assert (decision.outcome, decision.culprit) == ("INCONCLUSIVE", None)
    assert "REGRESSION" in decision.reason


def test_an_improvement_is_no_culprit_where_slower_is_looked_for():
    decision, _ = follow(SearchSetup(num_candidates=16), step(5, -0.05), seed=1)
    assert decision.outcome == "PHANTOM"


def test_one_commit_between_good_and_bad_is_enough_to_search():
    decision, _ = follow(SearchSetup(num_candidates=1), step(1), seed=2)
    assert (decision.outcome, decision.culprit) == ("CULPRIT", 1)


def test_unmeasurable_commits_are_never_chosen_and_share_the_blame_as_a_range():
    gap = frozenset(range(20, 30))
    decision, _ = follow(SearchSetup(num_candidates=64), step(24), seed=3, unmeasurable=gap)
    assert (decision.before, decision.after) == (19, 30)
    assert decision.range == tuple(range(20, 31))
    assert decision.is_confirmed
    assert (decision.outcome, decision.culprit) == ("INCONCLUSIVE", None)


def test_a_gap_elsewhere_costs_the_culprit_nothing():
    gap = frozenset({3, 4, 31, 33, 34, 50})
    decision, _ = follow(SearchSetup(num_candidates=64), step(41), seed=4, unmeasurable=gap)
    assert (decision.outcome, decision.culprit) == ("CULPRIT", 41)


def test_the_parent_is_the_next_measurable_position_below():
    state = SearchState(unmeasurable=frozenset({1, 2, 5}))
    assert [before(state, after) for after in (3, 4, 6)] == [0, 3, 4]


def test_a_culprit_equal_to_its_parent_is_dropped_and_the_search_goes_on():
    equal = Confirmation(outcome=Outcome.EQUIVALENT, trials=12)
    outcomes = iter([equal])
    setup, asked = SearchSetup(num_candidates=16), []

    def confirm(after):
        asked.append(after)
        return next(outcomes, CONFIRMED)

    decision, _ = follow(setup, step(9), seed=5, confirm=confirm)
    assert asked[0] == 9
    # Everything else said 9, and it comes back to it only to say that its comparison did not agree.
    assert (decision.outcome, decision.culprit) == ("INCONCLUSIVE", None)
    assert "EQUIVALENT" in decision.reason


@pytest.mark.parametrize("outcome", [Outcome.INCONCLUSIVE, Outcome.SUSPECT, Outcome.INVALID])
def test_an_undecided_confirmation_leaves_the_candidate_as_a_range(outcome):
    open_end = Confirmation(outcome=outcome, trials=40)
    decision, _ = follow(SearchSetup(num_candidates=16), step(9), seed=6, confirm=lambda after: open_end)
    assert (decision.outcome, decision.culprit, decision.range) == ("INCONCLUSIVE", None, (9,))
    assert not decision.is_confirmed


def test_the_cap_counts_confirmations_and_ends_with_the_likeliest_range():
    state = SearchState(
        readings=(Reading(position=64, log_slowdown=0.1), Reading(position=40, log_slowdown=0.1)),
        confirmations={7: Confirmation(outcome=Outcome.EQUIVALENT, trials=26)},
    )
    decision = decide(SearchSetup(num_candidates=64, max_trials=30), state)
    assert (decision.state, decision.outcome, decision.num_trials) == ("done", "INCONCLUSIVE", 30)
    held = sum(decision.posterior.p_change[c - 1] for c in decision.range)
    assert 0.95 <= held / sum(decision.posterior.p_change) < 0.99


def test_no_culprit_is_named_while_nothing_changed_keeps_more_than_a_thousandth():
    readings = tuple(Reading(position=1, log_slowdown=x) for x in (0.05, 0.045, 0.06, 0.05, 0.04))
    for count in range(len(readings) + 1):
        decision = decide(SearchSetup(num_candidates=1), SearchState(readings=readings[:count]))
        assert (decision.state == "confirm") == (decision.posterior.p_none <= 0.001)


@pytest.mark.parametrize("seed", range(3))
def test_many_small_steps_are_called_gradual_and_nobody_is_blamed(seed):
    decision, _ = follow(SearchSetup(num_candidates=64), lambda position, rng: 0.001 * position, seed=seed)
    assert (decision.outcome, decision.is_gradual, decision.culprit) == ("INCONCLUSIVE", True, None)


@pytest.mark.parametrize("seed", range(3))
def test_launches_that_become_slow_now_and_then_are_called_a_lottery(seed):
    def slow_now_and_then(position, rng):
        return 0.12 * (position >= 20 and rng.random() < 0.5)

    decision, _ = follow(SearchSetup(num_candidates=32), slow_now_and_then, seed=seed)
    assert decision.is_lottery
    assert 20 in decision.range
    assert 0.25 < decision.posterior.slow_rate < 0.75


def test_a_slow_rate_asks_for_enough_clean_launches_of_bad():
    decision, state = follow(SearchSetup(num_candidates=8, slow_rate=0.1), lambda position, rng: 0.0, seed=7)
    # 0.9^28 = 0.052, 0.9^29 = 0.047: 29 launches exclude one slow launch in ten at 95 %.
    assert decision.outcome == "PHANTOM"
    assert sum(reading.position == 8 for reading in state.readings) >= 29


def test_every_prefix_of_a_search_leads_to_the_reading_that_followed():
    setup = SearchSetup(num_candidates=64, seed=3)
    _, state = follow(setup, step(33), seed=8)
    for count, reading in enumerate(state.readings):
        assert decide(setup, SearchState(readings=state.readings[:count])).position == reading.position


def test_weights_draw_the_search_to_the_commits_that_touched_the_files():
    weights = tuple(100.0 if c == 7 else 1.0 for c in range(1, 65))
    plain, _ = follow(SearchSetup(num_candidates=64), step(7), seed=9)
    weighted, _ = follow(SearchSetup(num_candidates=64, weights=weights), step(7), seed=9)
    assert weighted.culprit == plain.culprit == 7
    assert weighted.num_trials < plain.num_trials


def test_where_builds_cost_time_fewer_commits_are_built():
    def num_builds(build_cost):
        setup = SearchSetup(num_candidates=64, build_cost=build_cost)
        searches = [follow(setup, step(7 * seed + 1), seed=seed)[1] for seed in range(8)]
        return sum(len({reading.position for reading in state.readings}) for state in searches)

    assert num_builds(10) < num_builds(0)


def test_the_forecast_of_trials_shrinks_towards_the_end_of_a_phantom():
    setup = SearchSetup(num_candidates=64)
    _, state = follow(setup, lambda position, rng: 0.0, seed=10)
    left = [decide(setup, SearchState(readings=state.readings[:k])).expected_trials_left for k in (0, -1)]
    assert left[0] > left[1] > 0


def test_the_coin_of_each_reading_comes_from_the_seed():
    heads = sum(is_anchor_first(SearchSetup(num_candidates=2, seed=11), index) for index in range(1000))
    assert 440 <= heads <= 560
    again = SearchSetup(num_candidates=9, seed=11)
    assert [is_anchor_first(again, i) for i in range(20)] == [
        is_anchor_first(SearchSetup(num_candidates=2, seed=11), i) for i in range(20)
    ]


@pytest.mark.parametrize(
    ("setup", "state", "words"),
    [
        (SearchSetup(num_candidates=0), SearchState(), "no commit between"),
        (SearchSetup(num_candidates=3, weights=(1.0, 2.0)), SearchState(), "2 weights for 3"),
        (SearchSetup(num_candidates=3, weights=(0.0, 0.0, 0.0)), SearchState(), "none above 0"),
        (SearchSetup(num_candidates=3), SearchState(unmeasurable=frozenset({3})), "cannot be measured"),
        (SearchSetup(num_candidates=3), SearchState(readings=(Reading(position=4, log_slowdown=0.0),)), "outside"),
    ],
)
def test_what_cannot_be_searched_is_said(setup, state, words):
    with pytest.raises(UsageError, match=words):
        decide(setup, state)
