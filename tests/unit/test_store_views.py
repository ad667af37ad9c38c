"""The views answer what people ask, with numbers worked out by hand; every table and column is explained."""

import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest
import store_cases as cases

from perfguard.records import Reason
from perfguard.store import exchange, open_store, retention
from perfguard.store.descriptions import TABLES
from perfguard.store.questions import QUERIES, metadata, schema_page
from perfguard.store.view_descriptions import VIEWS

ROOT = Path(__file__).resolve().parents[2]


def asked(path, sql, *arguments):
    connection = sqlite3.connect(path)
    connection.row_factory = sqlite3.Row
    try:
        return [dict(row) for row in connection.execute(sql, arguments)]
    finally:
        connection.close()


@pytest.fixture
def empty(tmp_path):
    with open_store(tmp_path / "r.db"):
        pass
    return tmp_path / "r.db"


def columns(path):
    names = asked(path, "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite_%'")
    return {row["name"]: [one["name"] for one in asked(path, f"PRAGMA table_info({row['name']})")] for row in names}


def test_every_column_of_every_table_and_view_is_explained_in_its_order(empty):
    described = {**TABLES, **VIEWS}
    assert {name: list(one.columns) for name, one in described.items()} == columns(empty)
    assert all(words for one in described.values() for words in (one.row, *one.columns.values()))


def test_the_page_of_the_schema_is_what_the_program_says_of_itself():
    """Renew it with `python -m perfguard.store.questions > docs/schema.md`."""
    assert (ROOT / "docs/schema.md").read_text(encoding="utf-8") == schema_page()


def test_every_ready_question_can_be_asked(empty):
    for _, sql in QUERIES.values():
        parameters = dict.fromkeys(("campaign", "commit", "workload", "metric"), "x")
        connection = sqlite3.connect(empty)
        assert connection.execute(sql, parameters).fetchall() == []
        connection.close()


def test_every_table_travels_or_is_known_to_stay(empty):
    """Add a new table to exchange.py, or here with the reason why it stays."""
    tables = {row["name"] for row in asked(empty, "SELECT name FROM sqlite_master WHERE type = 'table'")}
    by_content = {"provenance", "campaign_provenance", "verdicts"}  # copied by functions of their own
    of_the_file = {"meta", "migrations"}
    of_the_job = {"nights", "pins", "suspicions"}  # what one scheduled job decided; series need none of them
    assert tables == set(exchange._KEYS) | by_content | of_the_file | of_the_job


def test_every_table_of_a_campaign_is_either_its_own_or_a_reason_to_keep_it(empty):
    """A table that only says more of the campaign it belongs to is listed; any other one protects what it names."""
    tables = {row["name"] for row in asked(empty, "SELECT name FROM sqlite_master WHERE type = 'table'")}
    assert tables >= retention._OWN_TABLES


def test_the_last_verdict_of_each_workload_is_the_newest_one_that_was_given(tmp_path):
    path = tmp_path / "r.db"
    with open_store(path) as store:
        for id, workload in (("c-1", "a"), ("c-2", "a"), ("c-3", "b")):
            of_it = cases.campaign(id)
            store.add_campaign(replace(of_it, workload=replace(of_it.workload, name=workload)))
        store.add_verdict("c-2", {"outcome": "SUSPECT", "sentence": "old"})
        store.add_verdict("c-1", {"outcome": "REGRESSION", "sentence": "newest of a"})
        store.add_verdict("c-3", {"outcome": "EQUIVALENT", "sentence": "of b"})
    found = asked(path, "SELECT workload, outcome, campaign, head, sentence FROM last_verdicts ORDER BY workload")
    assert [tuple(row.values()) for row in found] == [
        ("a", "REGRESSION", "c-1", "WORKTREE", "newest of a"),
        ("b", "EQUIVALENT", "c-3", "WORKTREE", "of b"),
    ]


def filled(path, trials):
    with open_store(path) as store:
        store.add_campaign(cases.campaign())
        for one in trials:
            store.add_trial("c-0001", one)
    return path


def test_the_noise_is_the_mean_difference_of_pairs_of_one_side(tmp_path):
    """Base 100, 104 and head 100, 102: differences 4/102 and 2/101, mean 2.951 %, times 0.8862 = 2.6151 %."""
    values = {0: 100.0, 1: 100.0, 2: 102.0, 3: 104.0}
    trials = [cases.trial(slot, values={"decode_throughput": value}) for slot, value in values.items()]
    alone = cases.trial(4, values={"decode_throughput": 500.0})
    warm = [cases.trial(8 + k, stage=0, values={"decode_throughput": 1.0 + k}) for k in (0, 3)]
    path = filled(tmp_path / "r.db", [*trials, alone, *warm])
    (row,) = asked(path, "SELECT * FROM noise_by_machine")
    assert (row["workload"], row["metric"], row["num_pairs"]) == ("moe", "decode_throughput", 2)
    assert row["noise_percent"] == pytest.approx(2.6151, abs=1e-4)


def test_failures_are_counted_by_reason_with_the_latest_of_them(tmp_path):
    def failed(number, code, hour, **more):
        reason = (Reason(code=code, text=f"{code} at {hour}"),)
        at = f"2026-01-02T{hour:02}:00:00+00:00"
        return cases.trial(number, **{**cases.FAILED, "reasons": reason, "started_at": at, **more})

    trials = [failed(0, "oom", 1), failed(1, "oom", 5), failed(2, "oom", 3), failed(3, "late", 4, status="timed_out")]
    path = filled(tmp_path / "r.db", [*trials, cases.trial(5)])
    found = asked(path, "SELECT * FROM failures_by_reason ORDER BY reason")
    assert [(row["status"], row["reason"], row["num_trials"], row["last_text"]) for row in found] == [
        ("timed_out", "late", 1, "late at 4"),
        ("crashed", "oom", 3, "oom at 5"),
    ]


def test_a_week_begins_on_monday_and_counts_hours_of_all_launches(tmp_path):
    """2026-01-04 is a Sunday."""
    times = ("2026-01-04T23:59:59+00:00", "2026-01-05T00:00:00+00:00", "2026-01-11T12:00:00+00:00")
    trials = [cases.trial(k, started_at=time, wall_s=1800.0) for k, time in enumerate(times)]
    trials.append(cases.trial(3, **{**cases.FAILED, "started_at": times[0], "wall_s": 5400.0}))
    path = filled(tmp_path / "r.db", trials)
    found = asked(path, "SELECT week, num_launches, num_failed, hours FROM launches_by_week")
    assert [tuple(row.values()) for row in found] == [("2025-12-29", 2, 1, 2.0), ("2026-01-05", 2, 0, 1.0)]


def test_the_slowest_launch_comes_first(tmp_path):
    trials = [cases.trial(k, wall_s=seconds) for k, seconds in enumerate((5.0, 9.0, 7.0))]
    found = asked(filled(tmp_path / "r.db", trials), "SELECT wall_s, trial FROM slowest_trials")
    assert [row["trial"] for row in found] == ["t00001", "t00002", "t00000"]


def test_datasette_is_told_of_every_table_by_the_name_of_the_file():
    (name,) = metadata("tonight")["databases"]
    tables = metadata("tonight")["databases"][name]["tables"]
    assert name == "tonight"
    assert set(tables) == set(TABLES) | set(VIEWS)
    assert tables["trials"]["columns"]["wall_s"] == "seconds from start to end of its processes"


def test_an_index_finds_the_users_of_a_content(empty):
    """Without it taking away a campaign reads all links once for each content."""
    plan = asked(empty, "EXPLAIN QUERY PLAN SELECT 1 FROM campaign_provenance WHERE sha256 = 'x'")
    assert "campaign_provenance_by_content" in plan[0]["detail"]
