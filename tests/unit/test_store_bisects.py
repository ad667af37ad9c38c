"""A bisect comes back from results.db as it went in, and travels with all that it started."""

from dataclasses import replace
from pathlib import Path

import bisect_cases
import store_cases as cases

from perfguard.records import Bisect, CandidateBuild, PairPlan, Reason, Revision
from perfguard.store import BisectLink, Store, open_store

SEARCH = Bisect(
    candidates=(bisect_cases.candidate(1), bisect_cases.candidate(2, is_whole=False, parents=("a", "b"))),
    num_commits=7,
    metric="seconds",
    look_for="any",
    launch_sd=0.0123,
    paths=("model", "src/x"),
    carried=b"--- a\n+++ b\n\x00\xff",
    bench=(Revision(name="HEAD", commit="e" * 40, tree="f" * 40, patch=b"\x00more"),),
    bench_path="bench",
    all_parents=True,
    merge="d" * 40,
    seeded_by="c-0009",
    seed_outcome="REGRESSION",
    seeds=((2, 0.1, 1.0), (1, -1 / 3, 0.5)),
)
PAIRS = [
    PairPlan(number=0, position=2, order="BA", pauses=(0.25, 1 / 3)),
    PairPlan(number=1, position=1, order="AB", pauses=(0, 0)),
]
FAILED = CandidateBuild(position=2, status="unbuildable", reasons=(Reason(code="unbuildable", text="exit code 1\n…"),))
LINKS = [
    BisectLink(role="confirmation", other="c-0002", before=1, after=2),
    BisectLink(role="inside", other="c-0003", before=1, after=2),
]


def stored_at(path: Path) -> Store:
    store = open_store(path)
    store.add_campaign(cases.campaign(kind="bisect"))
    store.add_bisect("c-0001", SEARCH)
    for pair in PAIRS:
        store.add_pair("c-0001", pair)
    store.add_candidate_build("c-0001", CandidateBuild(position=2, status="ok", note="seen", cost_trials=1.5))
    for link in LINKS:
        store.add_bisect_link("c-0001", link)
    for other in ("c-0002", "c-0003"):
        store.add_campaign(cases.campaign(other, created_at="2026-02-02T03:04:05+00:00"))
    return store


def test_everything_comes_back_equal(tmp_path):
    with stored_at(tmp_path / "r.db"):
        pass
    with open_store(tmp_path / "r.db", read_only=True) as store:
        assert store.bisect("c-0001") == SEARCH
        assert store.bisect("c-0002") is None
        assert store.pairs("c-0001") == PAIRS
        assert store.bisect_links("c-0001") == LINKS
        assert store.pairs("c-0002") == []


def test_the_latest_build_of_a_position_counts(tmp_path):
    with stored_at(tmp_path / "r.db") as store:
        assert [build.status for build in store.candidate_builds("c-0001")] == ["ok"]
        store.add_candidate_build("c-0001", FAILED)
        store.add_candidate_build("c-0001", replace(FAILED, position=1, status="ok"))
        assert store.candidate_builds("c-0001") == [replace(FAILED, position=1, status="ok"), FAILED]


def test_what_a_bisect_started_is_not_the_latest_result(tmp_path):
    """It is younger, and the person asked for the bisect."""
    with stored_at(tmp_path / "r.db") as store:
        assert store.campaign("latest").id == "c-0001"
        store.add_campaign(cases.campaign("c-0004", created_at="2026-03-02T03:04:05+00:00"))
        assert store.campaign("latest").id == "c-0004"


def test_an_export_takes_along_what_a_bisect_started(tmp_path):
    with stored_at(tmp_path / "r.db") as store:
        store.add_campaign(cases.campaign("c-0004"))
        store.export(["c-0001"], tmp_path / "copy.db")
    with open_store(tmp_path / "copy.db", read_only=True) as copy:
        assert {row.id for row in copy.campaigns()} == {"c-0001", "c-0002", "c-0003"}
        assert copy.bisect("c-0001") == SEARCH
        assert copy.pairs("c-0001") == PAIRS


def test_a_copy_that_was_taken_while_it_ran_is_completed_by_a_later_one(tmp_path):
    with stored_at(tmp_path / "r.db") as store:
        store.export(["c-0001"], tmp_path / "early.db")
        store.add_candidate_build("c-0001", FAILED)
        store.add_pair("c-0001", PairPlan(number=2, position=1, order="AB", pauses=(0, 0)))
    with open_store(tmp_path / "early.db") as early:
        early.merge(tmp_path / "r.db")
        assert early.candidate_builds("c-0001") == [FAILED]
        assert len(early.pairs("c-0001")) == 3
    with open_store(tmp_path / "r.db") as store:
        store.merge(tmp_path / "early.db")  # the older never wins
        assert store.candidate_builds("c-0001") == [FAILED]


def test_a_file_of_the_version_before_is_read_as_one_without_bisects(tmp_path, monkeypatch):
    from perfguard.store import schema

    path = tmp_path / "old.db"
    monkeypatch.setattr(schema.migrate, "__defaults__", (schema.MIGRATIONS[:2],))
    with open_store(path) as store:
        assert cases.rows(path, "SELECT max(number) FROM migrations") == [(2,)]
        store.add_campaign(cases.campaign())
    monkeypatch.undo()
    with open_store(path, read_only=True) as store:
        assert store.bisect("c-0001") is None
        assert store.campaign("latest").id == "c-0001"
