"""Which comparisons may be extended, and what is planned then. A real store; nothing is measured."""

from dataclasses import asdict

import pytest

from perfguard import comparable
from perfguard.bundle import runner_fingerprint
from perfguard.campaign import machine_now
from perfguard.errors import NotComparableError, UsageError
from perfguard.extension import plan_extension, planned_blocks
from perfguard.policy import Policy
from perfguard.records import Arm, Campaign, Extension, Metric, Revision, Workload
from perfguard.stats.plan import builds_of
from perfguard.store import open_store

SECONDS = Metric(name="seconds", unit="s", better="lower")
MEASURED = {"outcome": "INCONCLUSIVE", "extensions": []}


def campaign(**changes):
    revision = Revision(name="HEAD", commit="a" * 40, tree="b" * 40)
    whole = {
        "id": "c-1",
        "kind": "compare",
        "created_at": "2026-01-02T03:04:05+00:00",
        "workload": Workload(name="bench", runner="command", metrics=(SECONDS,)),
        "arms": (Arm(side="base", revision=revision), Arm(side="head", revision=revision)),
        "policy": asdict(Policy()),
        "seed": 7,
        "repository": "/srv/repo",
        "machine": machine_now(),
        "method": {**comparable.method_now(), "changed_files": [], "repo_modules": {}},
    }
    return Campaign(**whole | changes)


@pytest.fixture
def stored(tmp_path):
    with open_store(tmp_path / "r.db") as store:

        def put(verdict=MEASURED, status="finished", **changes):
            store.add_campaign(campaign(**changes))
            if verdict is not None:
                store.add_verdict("c-1", verdict)
            store.set_status("c-1", status)
            return store

        yield put


def planned(store, **changes):
    return plan_extension("c-1", store, **{"max_blocks": None, "budget_s": 0.0, **changes})


def test_an_undecided_comparison_gets_as_many_blocks_as_it_had_and_ten_at_least(stored):
    store = stored(policy=asdict(Policy(max_blocks=14)))
    assert planned(store).extension.max_blocks == 14
    assert planned(store, max_blocks=3).extension.max_blocks == 3


def test_orders_are_drawn_afresh_for_stages_of_their_own():
    one, other = (
        planned_blocks(Extension(number=2, created_at="", seed=seed, max_blocks=10, max_confirm_blocks=4), 8)
        for seed in (1, 2)
    )
    # Ten blocks and five spares, four and two.
    assert [plan.stage for plan in one] == [5] * 15 + [6] * 6
    assert [plan.order for plan in one] != [plan.order for plan in other]
    assert {plan.builds for plan in one[:15]} == {"1111"}
    assert all(1 not in builds_of(plan.builds) for plan in one[15:])


def test_nobody_is_told_the_seed_in_advance(stored):
    store = stored()
    assert planned(store).extension.seed != planned(store).extension.seed
    assert planned(store, seed=3).extension.seed == 3


def test_so_few_blocks_that_no_change_can_be_reported_are_known_before(stored):
    store = stored()
    assert not planned(store, max_blocks=3).can_report  # 3 + 4 are the first looks
    assert planned(store, max_blocks=4).can_report


@pytest.mark.parametrize("outcome", ["EQUIVALENT", "REGRESSION", "IMPROVEMENT", "INVALID"])
def test_what_was_decided_is_refused(outcome, stored):
    with pytest.raises(UsageError, match=f"ended {outcome}; only INCONCLUSIVE or SUSPECT can be extended"):
        planned(stored({"outcome": outcome}))


def test_a_run_is_no_comparison(stored):
    with pytest.raises(UsageError, match="c-1 is a run, not a comparison"):
        planned(stored(kind="run"))


@pytest.mark.parametrize("status", ["running", "interrupted"])
@pytest.mark.parametrize("verdict", [None, MEASURED])
def test_what_was_not_measured_to_its_end_is_to_be_resumed(verdict, status, stored):
    with pytest.raises(UsageError, match="not been measured to its end") as error:
        planned(stored(verdict, status))
    assert error.value.next_step == "perfguard compare --resume c-1"


def test_an_extension_that_has_not_ended_is_to_be_resumed_whatever_the_status_says(stored):
    store = stored()
    first = planned(store)
    store.add_extension("c-1", first.extension, first.plans)
    store.set_status("c-1", "finished")  # as a merge with an earlier copy would
    with pytest.raises(UsageError, match="not been measured to its end"):
        planned(store)


@pytest.mark.parametrize("policy", [asdict(Policy(extension_share=0.0)), {"alpha": 0.001}])
def test_a_comparison_that_kept_nothing_back_is_refused(policy, stored):
    with pytest.raises(UsageError, match="kept no share of alpha back"):
        planned(stored(policy=policy))


def test_another_machine_is_refused_naming_the_fields(stored, monkeypatch):
    store = stored()
    monkeypatch.setattr(comparable, "machine_now", lambda: {**machine_now(), "host": "elsewhere"})
    with pytest.raises(NotComparableError, match=r"another machine \(host: .* then, 'elsewhere' now\)"):
        planned(store)


def test_another_runner_is_refused_naming_the_fields(stored, monkeypatch):
    store = stored()
    monkeypatch.setattr(comparable, "runner_fingerprint", lambda: "another")
    with pytest.raises(NotComparableError, match=rf"runner_sha256: '{runner_fingerprint()}' then, 'another' now"):
        planned(store)
    monkeypatch.setattr(comparable, "runner_fingerprint", runner_fingerprint)
    monkeypatch.setattr(comparable, "__version__", "9.9")
    with pytest.raises(NotComparableError, match=r"perfguard: .* then, '9.9' now"):
        planned(store)
