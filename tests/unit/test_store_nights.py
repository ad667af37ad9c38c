"""Nights, pins, acks and suspicions in the database: kept exactly, migrated, copied with their campaigns."""

import contextlib
import sqlite3
from dataclasses import replace

import pytest

from perfguard.errors import StoreError
from perfguard.store import Ack, NightRun, NightValue, Pin, StoredNight, Suspicion, open_store, schema
from tests.unit.store_cases import MACHINE, campaign

RUN = NightRun(
    campaign="c-0001", night="n1", started_at="2026-03-01T02:00:00+00:00", workload="moe", commit_sha="h1", pin="p1",
    is_link=False, code="k1", machine="m1",
)  # fmt: skip
VALUE = NightValue(metric="tpot", unit="s", better="lower", value=1.03, reference=1.0)
ACK = Ack(campaign="c-0001", acked_at="2026-03-02T00:00:00+00:00", until="2026-04-01", reason="agreed – “so”")
SUSPICION = Suspicion(
    id="s1", filed_at="2026-03-01T02:00:00+00:00", workload="moe", metric="tpot", cause="SUSPECT", good="p1", bad="h1",
    since="2026-03-01T02:00:00+00:00", campaign="c-0001",
)  # fmt: skip


@pytest.fixture
def store(tmp_path):
    with open_store(tmp_path / "results.db") as opened:
        yield opened


def test_what_is_stored_of_nights_comes_back_exactly(store):
    book = store.nights
    night = StoredNight(id="n1", started_at="2026-03-01T02:00:00+00:00", status="running", commit_sha="h1")
    book.put(night)
    finished = replace(night, status="finished", document={"notices": [{"text": "é\ud800"}], "exit_code": 0})
    book.put(finished)
    assert book.newest(5) == [finished]
    pins = [
        Pin(workload="", commit_sha="p1", revision="v1.0", pinned_at="2026-03-01T00:00:00+00:00"),
        Pin(workload="moe", commit_sha="p2", revision="HEAD", pinned_at="2026-03-01T00:00:00+00:00"),
    ]
    for pin in pins:
        book.add_pin(pin)
    assert book.pins() == pins
    book.add_ack(ACK)
    assert book.acks() == [ACK]
    book.add_suspicion(SUSPICION)
    answered = replace(SUSPICION, status="answered", bisect="b1", answer="PHANTOM")
    book.update_suspicion(answered)
    assert book.suspicions() == [answered]


def test_a_comparison_of_a_night_has_no_outcome_and_no_value_until_it_ends(store):
    store.nights.add_run(RUN)
    assert store.nights.runs_of_night("n1") == [RUN]
    assert store.nights.values_of_workload("moe") == []
    for outcome, value in (("INCONCLUSIVE", VALUE), ("REGRESSION", replace(VALUE, value=1.04))):
        store.nights.add_values("c-0001", outcome, [value])
    ended = replace(RUN, outcome="REGRESSION")
    assert store.nights.runs_of_workload("moe") == [ended]
    assert store.nights.values_of_workload("moe") == [(ended, replace(VALUE, value=1.04))]
    assert store.nights.workloads() == ["moe"]


def test_comparisons_of_nights_come_in_the_order_of_the_nights(store):
    for number, day in enumerate((3, 1, 2)):
        store.nights.add_run(replace(RUN, campaign=f"c{number}", started_at=f"2026-03-0{day}T02:00:00+00:00"))
        store.nights.add_values(f"c{number}", "EQUIVALENT", [VALUE])
    assert [run.campaign for run in store.nights.runs_of_workload("moe")] == ["c1", "c2", "c0"]
    assert [run.campaign for run, _ in store.nights.values_of_workload("moe")] == ["c1", "c2", "c0"]


def test_a_history_outlives_the_campaigns_that_it_came_from(store):
    store.add_campaign(campaign())
    store.nights.add_run(RUN)
    store.nights.add_values("c-0001", "EQUIVALENT", [VALUE])
    store.db.execute("DELETE FROM campaigns")
    assert [value for _, value in store.nights.values_of_workload("moe")] == [VALUE]


def test_a_merge_takes_the_nights_of_its_campaigns_once(store, tmp_path):
    with open_store(tmp_path / "other.db") as other:
        other.add_campaign(campaign())
        other.nights.add_run(RUN)
        other.nights.add_values("c-0001", "EQUIVALENT", [VALUE])
        other.nights.add_ack(ACK)
    for _ in range(2):
        store.merge(tmp_path / "other.db")
    assert store.nights.values_of_workload("moe") == [(replace(RUN, outcome="EQUIVALENT"), VALUE)]
    assert store.nights.acks() == [ACK]


def test_a_merge_that_contradicts_a_stored_night_is_refused_whole(store, tmp_path):
    with open_store(tmp_path / "other.db") as other:
        other.add_campaign(campaign())
        other.nights.add_run(replace(RUN, pin="another"))
    store.add_campaign(campaign())
    store.nights.add_run(RUN)
    with pytest.raises(StoreError, match="another content: night_runs"):
        store.merge(tmp_path / "other.db")
    assert store.nights.runs_of_night("n1") == [RUN]


def test_a_database_from_before_there_were_nights_is_migrated_or_read_as_it_is(tmp_path, monkeypatch):
    path = tmp_path / "old.db"
    before = tuple(one for one in schema.MIGRATIONS if one.number < 5)
    with monkeypatch.context() as patch:
        patch.setattr(schema.migrate, "__defaults__", (before,))
        with open_store(path) as old:
            old.add_campaign(campaign())
    with contextlib.closing(sqlite3.connect(path)) as db, pytest.raises(sqlite3.OperationalError):
        db.execute("SELECT * FROM nights")
    with open_store(path, read_only=True) as old:
        assert old.nights.workloads() == []
    with open_store(path) as migrated:
        migrated.nights.add_run(RUN)
        assert migrated.nights.runs_of_night("n1") == [RUN]
        assert migrated.machines()[0].num_campaigns == 1
        assert migrated.machines()[0].facts["gpu"] == MACHINE["gpu"]
