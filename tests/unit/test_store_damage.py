"""Rows that something else wrote: named with file, table and id, and the rest can still be used."""

import json
from dataclasses import replace

import pytest
import store_cases
from campaign_cases import campaign, measured, same
from test_store_bisects import PAIRS, SEARCH

from perfguard.errors import StoreError
from perfguard.experiment import planned_blocks
from perfguard.judging import verdict_json
from perfguard.records import CandidateBuild, MachineReading
from perfguard.replay import check_incoming, replayable, replayed
from perfguard.store import StoredNight, open_store

JUDGED = ("c-1", "c-2")


def filled(path, ids=JUDGED):
    with open_store(path) as store:
        for one in ids:
            asked = campaign(id=one)
            plans, trials = planned_blocks(asked), measured(asked, same)
            store.add_campaign(asked)
            store.add_blocks(one, plans)
            for trial in trials:
                store.add_trial(one, replace(trial, id=f"{one}-{trial.id}"))
            store.add_verdict(one, verdict_json(asked, plans, trials))
    return path


DAMAGES = [
    ("campaigns", "UPDATE campaigns SET document = 'null' WHERE id = 'c-1'"),
    ("campaigns", "UPDATE campaigns SET document = 'not json' WHERE id = 'c-1'"),
    ("arms", "UPDATE arms SET document = '[]' WHERE campaign = 'c-1'"),
    ("trials", "UPDATE trials SET record = '[]' WHERE campaign = 'c-1'"),
    ("trials", """UPDATE trials SET metrics = '{"seconds": "fast"}' WHERE campaign = 'c-1'"""),
    ("trials", "UPDATE trials SET metrics = 'fast' WHERE campaign = 'c-1'"),
    ("verdicts", "UPDATE verdicts SET document = '7' WHERE campaign = 'c-1'"),
]


@pytest.mark.parametrize(("table", "damage"), DAMAGES)
def test_a_damaged_row_is_named_and_replay_goes_on_with_the_rest(table, damage, tmp_path):
    path = filled(tmp_path / "results.db")
    with open_store(path) as store:
        store.db.execute(damage)
    with open_store(path, read_only=True) as store:
        with pytest.raises(StoreError, match=rf"results\.db holds a row that cannot be read: table {table}, c-1"):
            (store.campaign("c-1"), store.trials("c-1"), store.verdicts("c-1"))
        found = {one: replayed(store, one) for one in replayable(store)}
    assert {one: found[one]["agrees"] for one in found} == {"c-1": False, "c-2": True}
    assert f"table {table}, c-1" in found["c-1"]["differences"][0]


def test_a_verdict_without_its_metrics_is_reported_by_replay(tmp_path):
    with open_store(filled(tmp_path / "results.db")) as store:
        store.add_verdict("c-1", {"schema": "perfguard/comparison@1", "id": "c-1", "outcome": "EQUIVALENT"})
        assert not replayed(store, "c-1")["agrees"]


def flip(path):
    with open_store(path) as store:
        verdict = dict(store.latest_verdict("c-1"))
        assert verdict["outcome"] == "EQUIVALENT"
        store.db.execute(
            "UPDATE verdicts SET outcome = 'IMPROVEMENT', document = ? WHERE campaign = 'c-1'",
            (json.dumps({**verdict, "outcome": "IMPROVEMENT"}),),
        )


def test_a_verdict_that_contradicts_its_trials_is_not_taken_in(tmp_path):
    other = filled(tmp_path / "b.db", ("c-1",))
    with open_store(tmp_path / "a.db") as mine, open_store(other, read_only=True) as incoming:
        check_incoming(mine, incoming)
    flip(other)
    with (
        open_store(tmp_path / "a.db") as mine,
        open_store(other, read_only=True) as incoming,
        pytest.raises(StoreError, match="c-1: its verdict does not follow from its trials, it differs in outcome"),
    ):
        check_incoming(mine, incoming)


def test_a_copy_from_a_run_whose_later_trials_no_verdict_knows_is_taken_in(tmp_path):
    other = filled(tmp_path / "b.db", ("c-1",))
    flip(other)
    with open_store(other) as store:
        late = replace(store.trials("c-1")[-1], id="late", started_at="2999-01-01T00:00:00+00:00", attempt=1)
        store.add_trial("c-1", late)
        with open_store(tmp_path / "a.db") as mine:
            check_incoming(mine, store)


OTHER_DAMAGES = [
    ("bisects", "UPDATE bisects SET document = '[]'", lambda s: s.bisect("b-1")),
    ("bisects", "UPDATE bisects SET document = '{}'", lambda s: s.bisect("b-1")),
    ("bisect_pairs", "UPDATE bisect_pairs SET pauses = 'long'", lambda s: s.pairs("b-1")),
    ("bisect_builds", "UPDATE bisect_builds SET document = '7'", lambda s: s.candidate_builds("b-1")),
    ("nights", "UPDATE nights SET document = 'null'", lambda s: s.nights.newest(1)),
    ("machine_readings", "UPDATE machine_readings SET facts = '['", lambda s: s.machine_readings("m", "copy")),
]


@pytest.mark.parametrize(("table", "damage", "read"), OTHER_DAMAGES)
def test_damaged_rows_of_bisects_nights_and_machines_are_named(table, damage, read, tmp_path):
    path = tmp_path / "results.db"
    with open_store(path) as store:
        store.add_campaign(store_cases.campaign("b-1", kind="bisect"))
        store.add_bisect("b-1", SEARCH)
        store.add_pair("b-1", PAIRS[0])
        store.add_candidate_build("b-1", CandidateBuild(position=2, status="ok"))
        store.nights.put(StoredNight(id="n", started_at="2026-03-01T02:00:00+00:00", status="finished", commit_sha="h"))
        reading = MachineReading(name="copy", unit="GB/s", value=1.0, measured_at="2026-03-01", source="bench")
        store.add_machine_readings("m", [reading])
        read(store)
        assert store.db.execute(damage).rowcount == 1
    with (
        open_store(path, read_only=True) as store,
        pytest.raises(StoreError, match=rf"results\.db holds a row that cannot be read: table {table}, "),
    ):
        read(store)
