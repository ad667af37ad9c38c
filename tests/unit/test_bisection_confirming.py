"""A confirmation that the machine spoiled, that the budget cut, or that another process went on with."""

from contextlib import contextmanager

import pytest
import store_cases as cases

from perfguard import experiment
from perfguard.bisection.loading import is_open, load
from perfguard.records import Bisect
from perfguard.store import BisectLink, open_store

SEARCH = Bisect(candidates=(), num_commits=2, metric="seconds")


@pytest.fixture
def store(tmp_path):
    """A bisect with two confirmations of one pair, of which nothing is judged."""
    with open_store(tmp_path / "r.db") as opened:
        opened.add_campaign(cases.campaign(kind="bisect"))
        opened.add_bisect("c-0001", SEARCH)
        for other in ("c-0002", "c-0003"):
            opened.add_campaign(cases.campaign(other))
            opened.add_bisect_link("c-0001", BisectLink(role="confirmation", other=other, before=1, after=2))
        yield opened


def verdict(outcome, num_ok, **more):
    return {"outcome": outcome, "trials": {"ok": num_ok}, "stopped": "", "extensions": [], **more}


def test_a_confirmation_that_ran_out_of_budget_has_not_answered(store):
    cut = verdict("INCONCLUSIVE", 8, stopped="budget")
    assert is_open(cut)
    store.add_verdict("c-0002", cut)
    assert load("c-0001", store).confirmations == {}
    # An extension has a budget of its own, and what it ended with is an answer.
    extended = {**cut, "extensions": [{"number": 1}]}
    assert not is_open(extended)
    store.add_verdict("c-0002", extended)
    assert load("c-0001", store).confirmations[2]["outcome"] == "INCONCLUSIVE"


def test_one_that_was_done_again_counts_and_both_were_paid_for(store):
    store.add_verdict("c-0002", verdict("INVALID", 8))
    store.add_trial("c-0002", cases.trial(0))
    assert load("c-0001", store).confirmations[2]["outcome"] == "INVALID"
    store.add_verdict("c-0003", verdict("REGRESSION", 20))
    store.add_trial("c-0003", cases.trial(1))
    found = load("c-0001", store).confirmations[2]
    assert (found["outcome"], found["trials"]["ok"], found["lost_trials"]) == ("REGRESSION", 20, 8)
    assert found["launches_s"] == 2 * cases.trial().wall_s


def test_what_another_process_measured_while_this_one_waited_is_not_measured_again(store, monkeypatch):
    seen = []

    @contextmanager
    def after_another(campaign, observer, *, sm_mhz):
        store.add_trial(campaign.id, cases.trial(0))
        yield None

    def measured(session):
        seen.append(session)
        return ""

    monkeypatch.setattr(experiment, "waiting_for_machine", after_another)
    monkeypatch.setattr(experiment, "clear_leftovers", lambda observer: None)
    monkeypatch.setattr(experiment, "calibrated_clock_mhz", lambda campaign, store: 0)
    monkeypatch.setattr(experiment, "planned_blocks", lambda campaign: [])
    monkeypatch.setattr(experiment, "_measure_until_decided", measured)
    monkeypatch.setattr(experiment, "conclude", lambda session, stopped: {})
    experiment.measure_to_verdict(store.campaign("c-0002"), None, store, None, budget_s=90.0)
    (session,) = seen
    assert [trial.id for trial in session.trials] == [cases.trial(0).id]
    assert session.budget_s == 90.0
