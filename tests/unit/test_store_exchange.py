"""Export and merge: campaigns travel between files unchanged, once, or not at all."""

import json
import re
import sqlite3
import zlib
from pathlib import Path

import pytest
import store_cases as cases

from perfguard.errors import StoreError, UsageError
from perfguard.records import MachineReading
from perfguard.store import exchange, open_store


def filled(path: Path, campaigns: tuple[str, ...] = ("c-0001", "c-0002"), num_trials: int = 3) -> Path:
    with open_store(path) as store:
        for name in campaigns:
            store.add_campaign(cases.campaign(name))
            store.add_blocks(name, [cases.block()])
            for number in range(num_trials):
                store.add_trial(name, cases.trial(number))
            store.add_verdict(name, verdict(name, "EQUIVALENT"))
    return path


def verdict(campaign: str, outcome: str) -> dict[str, str]:
    return {"schema": "perfguard/comparison@1", "id": campaign, "outcome": outcome}


def dump(path: Path) -> list[tuple[object, ...]]:
    tables = ("campaigns", "arms", "blocks", "trials", "samples", "verdicts", "provenance", "campaign_provenance")
    return [row for table in tables for row in sorted(cases.rows(path, f"SELECT * FROM {table}"), key=str)]


def test_an_export_holds_just_the_campaigns_asked_for_with_all_that_belongs_to_them(tmp_path: Path) -> None:
    source = filled(tmp_path / "a.db")
    with open_store(source, read_only=True) as store:
        counts = store.export(["c-0002"], tmp_path / "new" / "b.db")
        expected = store.trials("c-0002")
    assert counts == {"campaigns": 1, "blocks": 1, "trials": 3, "verdicts": 1}
    assert [p.name for p in (tmp_path / "new").iterdir()] == ["b.db"]
    with open_store(tmp_path / "new" / "b.db", read_only=True) as other:
        assert [row.id for row in other.campaigns()] == ["c-0002"]
        assert other.campaign("c-0002") == cases.campaign("c-0002")
        assert other.trials("c-0002") == expected
        assert other.blocks("c-0002") == [cases.block()]
        assert other.latest_verdict("c-0002") == verdict("c-0002", "EQUIVALENT")


def test_an_export_does_not_carry_the_patches_of_other_campaigns(tmp_path: Path) -> None:
    with open_store(tmp_path / "a.db") as store:
        store.add_campaign(cases.campaign("secret", repository="/other", machine={"host": "secret"}))
        store.add_campaign(cases.campaign("open", arms=()))
        store.export(["open"], tmp_path / "b.db")
    contents = [zlib.decompress(data) for (data,) in cases.rows(tmp_path / "b.db", "SELECT data FROM provenance")]
    assert len(contents) == 2, "machine and method"
    assert not any(b"secret" in content or b"+++ b" in content for content in contents)


def test_an_export_never_writes_into_a_file_that_is_there(tmp_path: Path) -> None:
    source = filled(tmp_path / "a.db")
    (tmp_path / "b.db").write_text("mine")
    with open_store(source, read_only=True) as store:
        with pytest.raises(StoreError, match=r"b\.db exists"):
            store.export(["c-0001"], tmp_path / "b.db")
        with pytest.raises(UsageError, match="no stored result"):
            store.export(["nothing"], tmp_path / "c.db")
    assert (tmp_path / "b.db").read_text() == "mine"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.db", "b.db"]


@pytest.mark.parametrize("name", ["file/b.db", "x" * 250, "/proc/b.db"])
def test_an_export_to_where_nothing_can_be_made_says_so(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_text("no folder")
    with open_store(filled(tmp_path / "a.db"), read_only=True) as store, pytest.raises(StoreError) as refused:
        store.export(["c-0001"], tmp_path / name)
    assert refused.value.next_step
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.db", "file"]


def test_merging_takes_over_what_is_new_and_a_second_time_changes_nothing(tmp_path: Path) -> None:
    mine, other = filled(tmp_path / "a.db", ("c-0001",)), filled(tmp_path / "b.db", ("c-0002", "c-0003"))
    with open_store(mine) as store:
        assert store.merge(other) == {"campaigns": 2, "blocks": 2, "trials": 6, "verdicts": 2}
        assert store.campaign("c-0003") == cases.campaign("c-0003")
    after_first = dump(mine)
    with open_store(mine) as store:
        assert store.merge(other) == {"campaigns": 0, "blocks": 0, "trials": 0, "verdicts": 0}
        assert store.merge(mine)["trials"] == 0
    assert dump(mine) == after_first


def test_a_copy_taken_during_a_run_is_completed_by_a_later_one(tmp_path: Path) -> None:
    source = filled(tmp_path / "a.db", ("c-0001",), num_trials=1)
    with open_store(source, read_only=True) as store:
        store.export(["c-0001"], tmp_path / "early.db")
    with open_store(source) as store:
        store.add_trial("c-0001", cases.trial(7))
        store.set_status("c-0001", "finished")
    with open_store(tmp_path / "early.db") as early:
        assert early.merge(source)["trials"] == 1
        assert early.status("c-0001") == "finished"
        early_trials = early.trials("c-0001")
    with open_store(source) as store:
        assert store.trials("c-0001") == early_trials
        assert store.merge(tmp_path / "early.db")["trials"] == 0
        assert store.status("c-0001") == "finished"


def test_judgements_made_in_both_places_are_all_kept(tmp_path: Path) -> None:
    mine = filled(tmp_path / "a.db", ("c-0001",))
    with open_store(mine) as store:
        store.export(["c-0001"], tmp_path / "b.db")
        store.add_verdict("c-0001", verdict("c-0001", "SUSPECT"))
    with open_store(tmp_path / "b.db") as other:
        other.add_verdict("c-0001", verdict("c-0001", "REGRESSION"))
    with open_store(mine) as store:
        assert store.merge(tmp_path / "b.db")["verdicts"] == 1
        assert store.merge(tmp_path / "b.db")["verdicts"] == 0
        assert [one.outcome for one in store.verdicts("c-0001")] == ["EQUIVALENT", "SUSPECT", "REGRESSION"]


@pytest.mark.parametrize("what", ["campaign", "trial", "samples"])
def test_the_same_id_with_another_content_is_a_conflict_and_nothing_is_merged(what: str, tmp_path: Path) -> None:
    mine = filled(tmp_path / "a.db", ("c-0002",))
    with open_store(tmp_path / "b.db") as other:
        other.add_campaign(cases.campaign("c-0001"))
        other.add_campaign(cases.campaign("c-0002", seed=8 if what == "campaign" else 7))
        record = cases.record(5) if what == "samples" else cases.record(0)
        value = 79.0 if what == "trial" else 80.0
        other.add_trial("c-0002", cases.trial(values={"decode_throughput": value}, record=record))
    before = dump(mine)
    with open_store(mine) as store, pytest.raises(StoreError, match=r"campaign c-0002 .* nothing was merged"):
        store.merge(tmp_path / "b.db")
    assert dump(mine) == before


@pytest.mark.parametrize(
    ("document", "outcome", "said"),
    [
        ("not json", "EQUIVALENT", "no JSON"),
        ("{}", "EQUIVALENT", "no verdict"),
        ("[]", "EQUIVALENT", "no verdict"),
        (json.dumps(verdict("c-0009", "EQUIVALENT")), "EQUIVALENT", "is of 'c-0009'"),
        (json.dumps(verdict("c-0002", "REGRESSION")), "EQUIVALENT", "says 'REGRESSION', its row 'EQUIVALENT'"),
    ],
)
def test_what_is_no_verdict_on_its_campaign_is_not_merged(document: str, outcome: str, said: str, tmp_path: Path):
    mine, other = filled(tmp_path / "a.db", ("c-0001",)), filled(tmp_path / "b.db", ("c-0002",))
    before = dump(mine)
    with open_store(other) as store:
        store.db.execute("UPDATE verdicts SET document = ?, outcome = ?", (document, outcome))
    with open_store(mine) as store, pytest.raises(StoreError, match=f"c-0002: verdict 1 .*{said}; nothing was merged"):
        store.merge(other)
    assert dump(mine) == before


def test_a_verdict_of_the_same_moment_with_another_content_is_a_conflict(tmp_path: Path) -> None:
    mine = filled(tmp_path / "a.db", ("c-0001",))
    with open_store(mine) as store:
        store.export(["c-0001"], tmp_path / "b.db")
    flipped = json.dumps(verdict("c-0001", "REGRESSION"))
    with open_store(tmp_path / "b.db") as store:
        store.db.execute("UPDATE verdicts SET document = ?, outcome = 'REGRESSION'", (flipped,))
    with open_store(mine) as store, pytest.raises(StoreError, match="another one of that moment is stored"):
        store.merge(tmp_path / "b.db")


def test_samples_packed_by_another_compressor_are_the_same_samples(tmp_path: Path) -> None:
    mine, other = filled(tmp_path / "a.db", ("c-0001",)), tmp_path / "b.db"
    with open_store(mine) as store:
        store.export(["c-0001"], other)
    with open_store(other) as store:
        for rowid, data in store.db.execute("SELECT rowid, data FROM samples").fetchall():
            repacked = zlib.compress(zlib.decompress(data), level=1)
            store.db.execute("UPDATE samples SET data = ? WHERE rowid = ?", (repacked, rowid))
    assert dump(mine) != dump(other)
    with open_store(mine) as store:
        assert store.merge(other)["trials"] == 0


def with_readings(path: Path, value: float = 4.0) -> Path:
    """One reading that the campaign gave, one of the bench."""
    with open_store(filled(path, ("c-0001",), num_trials=1)) as store:
        for name, source in (("base", "c-0001"), ("copy", "bench")):
            one = MachineReading(name=name, unit="s", value=value, measured_at="2026-01-02", source=source, facts={})
            store.add_machine_readings("m1", [one])
    return path


def test_the_history_of_a_machine_travels_with_the_campaign_it_comes_from_and_all_of_it_with_all(
    tmp_path: Path,
) -> None:
    source = with_readings(tmp_path / "a.db")
    with open_store(source) as store:
        store.export(["c-0001"], tmp_path / "all.db")
        store.add_campaign(cases.campaign("c-0002"))
        store.export(["c-0001"], tmp_path / "one.db")
    with open_store(tmp_path / "mine.db") as mine:
        mine.merge(source)
        mine.merge(source)
    found = {
        name: [row[0] for row in cases.rows(tmp_path / name, "SELECT name FROM machine_readings ORDER BY name")]
        for name in ("all.db", "one.db", "mine.db")
    }
    assert found == {"all.db": ["base", "copy"], "one.db": ["base"], "mine.db": ["base", "copy"]}


def test_a_reading_with_another_value_is_a_conflict_too(tmp_path: Path) -> None:
    other = with_readings(tmp_path / "b.db", value=5.0)
    with open_store(with_readings(tmp_path / "a.db")) as store, pytest.raises(StoreError, match="machine_readings"):
        store.merge(other)


def test_a_failing_export_names_the_file_that_was_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_args: object, **_more: object) -> None:
        error = sqlite3.OperationalError("database or disk is full")
        error.sqlite_errorcode = sqlite3.SQLITE_FULL
        raise error

    monkeypatch.setattr(exchange, "copy", full)
    target = tmp_path / "part.db"
    said = f"^{re.escape(str(target))} cannot be written, disk or quota is full"
    with open_store(filled(tmp_path / "results.db")) as store, pytest.raises(StoreError, match=said):
        store.export(["c-0001"], target)
    assert [path.name for path in tmp_path.iterdir()] == ["results.db"]
