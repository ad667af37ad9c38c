"""Extensions are stored with their blocks, once, and travel with their campaign."""

import sqlite3
from pathlib import Path

import pytest
import store_cases as cases

from perfguard.errors import StoreError
from perfguard.records import Extension
from perfguard.store import open_store, schema

FIRST = Extension(
    number=1, created_at="2026-01-03T00:00:00+00:00", seed=11, max_blocks=10, max_confirm_blocks=12, budget_s=14400.0
)
SECOND = Extension(number=2, created_at="2026-01-04T00:00:00+00:00", seed=12, max_blocks=4, max_confirm_blocks=4)


def extended(path: Path) -> Path:
    with open_store(path) as store:
        store.add_campaign(cases.campaign())
        store.add_blocks("c-0001", [cases.block()])
        store.set_status("c-0001", "finished")
        store.add_extension("c-0001", FIRST, [cases.block(0, 3), cases.block(0, 4)])
    return path


def test_extensions_come_back_equal_and_by_number(tmp_path: Path) -> None:
    with open_store(extended(tmp_path / "r.db")) as store:
        store.add_extension("c-0001", SECOND, [cases.block(0, 5)])
        assert store.extensions("c-0001") == [FIRST, SECOND]
        assert [plan.stage for plan in store.blocks("c-0001")] == [1, 3, 4, 5]


def test_a_campaign_without_an_extension_has_none(tmp_path: Path) -> None:
    with open_store(cases.filled(tmp_path / "r.db")) as store:
        assert store.extensions("c-0001") == []


def test_an_extended_campaign_is_running_again_and_otherwise_as_it_was(tmp_path: Path) -> None:
    with open_store(extended(tmp_path / "r.db")) as store:
        assert store.status("c-0001") == "running"
        assert store.campaign("c-0001") == cases.campaign()


def test_of_two_that_extend_at_once_one_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    with open_store(extended(tmp_path / "r.db")) as store:
        with pytest.raises(StoreError):
            store.add_extension("c-0001", FIRST, [cases.block(1, 3)])
        assert [(plan.stage, plan.index) for plan in store.blocks("c-0001")] == [(1, 0), (3, 0), (4, 0)]


def test_an_extension_travels_with_its_campaign_and_may_be_merged_into_an_earlier_copy(tmp_path: Path) -> None:
    source = extended(tmp_path / "a.db")
    with open_store(tmp_path / "b.db") as other:
        other.add_campaign(cases.campaign())
        other.add_blocks("c-0001", [cases.block()])
        other.merge(source)
        assert other.extensions("c-0001") == [FIRST]
        assert other.merge(source)["blocks"] == 0
    with open_store(source) as store:
        store.export(["c-0001"], tmp_path / "c.db")
    with open_store(tmp_path / "c.db", read_only=True) as exported:
        assert exported.extensions("c-0001") == [FIRST]


def test_a_file_from_before_extensions_is_read_and_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "old.db"
    before = schema.MIGRATIONS[:1]
    with monkeypatch.context() as patch:
        patch.setattr(schema.migrate, "__defaults__", (before,))
        cases.filled(path)
    with pytest.raises(sqlite3.OperationalError):
        cases.rows(path, "SELECT * FROM extensions")
    with open_store(path, read_only=True) as store:
        assert store.extensions("c-0001") == []
    with open_store(path) as store:
        store.add_extension("c-0001", FIRST, [])
        assert store.extensions("c-0001") == [FIRST]
