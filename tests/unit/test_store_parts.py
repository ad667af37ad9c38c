"""Large mappings lie in parts that records share; everything else of them is as if they lay whole."""

import hashlib
import json
import sqlite3
import zlib
from pathlib import Path
from typing import Any

import pytest
import store_cases as cases
from hypothesis import given, settings
from hypothesis import strategies as st

from perfguard.errors import StoreError
from perfguard.store import codec, open_store, parts, schema, upkeep

TREE = "/builds/1/checkout"
OLD = tuple(one for one in schema.MIGRATIONS if one.number < 7)
TABLES = ("campaigns", "arms", "trials", "samples", "campaign_provenance")


def loaded(checkout: str = TREE, num_files: int = 400) -> dict[str, Any]:
    """What a program loaded: files of packages, and its own under the checkout. 195 bytes of JSON each, or so."""
    packages = {
        f"torch/nn/modules/file_{number:04}.py": {"path": f"/venv/{'lib/' * 15}{number}", "sha256": "0" * 64}
        for number in range(num_files)
    }
    return {**packages, "bench": {"path": f"{checkout}/bench.py", "sha256": "1" * 64}}


def trial(number: int, checkout: str = TREE) -> Any:
    record = {**cases.record(number), "clock": float("inf"), "log": '{"$json":"' + "0" * 64 + '"}'}
    record["ranks"][0]["origin"] = loaded(checkout)
    return cases.trial(number, record=record)


def stored(value: Any) -> tuple[dict[str, Any], codec.Packed]:
    packed = codec.pack({"origin": value})
    return json.loads(packed.contents[json.loads(packed.text)["origin"]["$json"]][1]), packed


def unpacked(packed: codec.Packed) -> Any:
    def content(sha256: str) -> Any:
        return codec.unpack(packed.contents[sha256][1].decode("ascii"), content)

    return codec.unpack(packed.text, content)


# -- in parts --------------------------------------------------------------------------------------------------------


def test_a_key_has_its_part_by_a_checksum_that_is_the_same_everywhere() -> None:
    # 0xCBF43926 is the check value that CRC-32 is published with: 3421780262 = 40 * 85544506 + 22.
    assert parts.place("123456789") == 22
    assert parts.place("") == 0
    assert 0 <= parts.place("\udce9") < parts.NUM_PARTS == 40


def test_two_large_mappings_that_differ_in_one_entry_share_all_parts_but_its_own() -> None:
    (one, first), (other, second) = stored(loaded("/builds/1")), stored(loaded("/builds/2"))
    assert len(one["$parts"]) == len(other["$parts"]) == 40
    assert len(set(one["$parts"]) - set(other["$parts"])) == 1
    assert len(second.contents.keys() - first.contents.keys()) == 2, "the part and the list"
    assert "bench" in json.loads(second.contents[(set(other["$parts"]) - set(one["$parts"])).pop()][1])


def test_what_is_stored_does_not_depend_on_the_order_of_keys_and_comes_back_sorted() -> None:
    backwards = dict(reversed(loaded().items()))
    assert stored(backwards)[1].contents == stored(loaded())[1].contents
    read = unpacked(stored(backwards)[1])["origin"]
    assert read == loaded()
    assert list(read) == sorted(loaded())


def padded(num_keys: int, num_bytes: int) -> dict[str, str]:
    """As JSON `num_bytes` long: {"10":"","11":"",...} takes 8 bytes a key and one more."""
    whole = {str(10 + number): "" for number in range(num_keys)}
    return {**whole, "10": "x" * (num_bytes - 8 * num_keys - 1)}


@pytest.mark.parametrize(
    ("mapping", "is_divided"),
    [
        (padded(64, 16_384), True),
        (padded(63, 16_384), False),
        (padded(64, 16_383), False),
        (dict.fromkeys(range(100), "x" * 300), False),
        ({**{f"{number}": "x" * 300 for number in range(100)}, "$json": "a"}, False),
        ({"gpus": "x" * 100_000}, False),
    ],
    ids=["large", "few keys", "short", "numbers as keys", "a key like a reference", "one long entry"],
)
def test_only_a_mapping_with_many_keys_and_much_in_it_is_divided(mapping: Any, is_divided: bool) -> None:
    content, packed = stored(mapping)
    assert ("$parts" in content) is is_divided
    if not is_divided:
        whole = codec.inline(mapping, sort_keys=True).encode("ascii")
        assert packed.contents == {hashlib.sha256(whole).hexdigest(): ("json", whole)}
    assert unpacked(packed) == {"origin": mapping}


ANY_TEXT = st.text(st.characters(categories=["L", "Cs", "Cc", "Ps"]), max_size=6)
VALUES = st.recursive(st.none() | st.integers() | ANY_TEXT | st.binary(max_size=4), st.lists, max_leaves=3)


@settings(max_examples=50, deadline=None, print_blob=True)
@given(some=st.dictionaries(ANY_TEXT, VALUES, max_size=8))
def test_whatever_a_large_mapping_holds_comes_back(some: dict[str, Any]) -> None:
    whole = {**loaded(num_files=120), **some}
    assert "$parts" in stored(whole)[0]
    assert unpacked(stored(whole)[1]) == {"origin": whole}


# -- in a database ---------------------------------------------------------------------------------------------------


def fill(path: Path, campaigns: tuple[str, ...] = ("c-1", "c-2")) -> Path:
    """Launches 0 and 1 of each campaign loaded the same files from two checkouts."""
    with open_store(path) as store:
        for campaign in campaigns:
            store.add_campaign(cases.campaign(campaign))
            for number in range(2):
                store.add_trial(campaign, trial(number, f"/builds/{number}"))
    return path


def old(path: Path, monkeypatch: pytest.MonkeyPatch, campaigns: tuple[str, ...] = ("c-1", "c-2")) -> Path:
    """As version 6 wrote it: everything whole."""
    with monkeypatch.context() as patch:
        patch.setattr(parts, "MIN_BYTES", 10**9)
        patch.setattr(schema.migrate, "__defaults__", (OLD,))
        patch.setattr(schema.newest, "__defaults__", (OLD,))
        fill(path, campaigns)
    assert cases.rows(path, "SELECT max(number) FROM migrations") == [(6,)]
    return path


def contents(path: Path) -> set[tuple[Any, ...]]:
    return set(cases.rows(path, "SELECT * FROM provenance"))


def test_a_launch_with_another_checkout_adds_one_part_and_a_list_and_is_read_back_equal(tmp_path: Path) -> None:
    path = tmp_path / "r.db"
    with open_store(path) as store:
        store.add_campaign(cases.campaign())
        store.add_trial("c-0001", trial(0, "/builds/0"))
        before = contents(path)
        store.add_trial("c-0001", trial(1, "/builds/1"))
        assert store.trials("c-0001") == [trial(0, "/builds/0"), trial(1, "/builds/1")]
    assert len(contents(path) - before) == 2


def test_removing_a_campaign_takes_the_parts_that_only_it_used(tmp_path: Path) -> None:
    path = fill(tmp_path / "r.db")
    with open_store(path) as store:
        store.add_trial("c-2", trial(2, "/builds/2"))
        upkeep.remove(store, ["c-2"])
        kept = store.trials("c-1")
    assert kept == [trial(0, "/builds/0"), trial(1, "/builds/1")]
    assert contents(path) == contents(fill(tmp_path / "never.db", ("c-1",)))
    with open_store(path) as store:
        upkeep.remove(store, ["c-1"])
    assert contents(path) == set()


def test_an_exported_campaign_brings_all_parts_along(tmp_path: Path) -> None:
    with open_store(fill(tmp_path / "r.db")) as store:
        store.add_trial("c-2", trial(2, "/builds/2"))
        store.export(["c-1"], tmp_path / "new.db")
    with open_store(tmp_path / "new.db", read_only=True) as store:
        assert store.trials("c-1") == [trial(0, "/builds/0"), trial(1, "/builds/1")]
    assert contents(tmp_path / "new.db") == contents(fill(tmp_path / "never.db", ("c-1",)))


def test_a_part_that_is_missing_is_named(tmp_path: Path) -> None:
    path = fill(tmp_path / "r.db", ("c-1",))
    lost = next(sha256 for sha256, _, _, data in contents(path) if b"bench" in zlib.decompress(data))
    with sqlite3.connect(path) as other:
        other.execute("DELETE FROM provenance WHERE sha256 = ?", (lost,))
    other.close()
    with open_store(path, read_only=True) as store, pytest.raises(StoreError, match=f"{lost} is referred to but not"):
        store.trials("c-1")


# -- of an older version ---------------------------------------------------------------------------------------------


def test_a_file_of_version_6_becomes_what_this_version_would_have_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, new = old(tmp_path / "old.db", monkeypatch), fill(tmp_path / "new.db")
    assert contents(path) != contents(new)
    with open_store(path) as store:
        assert store.trials("c-2") == [trial(0, "/builds/0"), trial(1, "/builds/1")]
    assert contents(path) == contents(new)
    for table in TABLES:
        assert cases.rows(path, f"SELECT * FROM {table}") == cases.rows(new, f"SELECT * FROM {table}")
    assert cases.rows(path, "PRAGMA foreign_key_check") == []


def test_a_file_of_version_6_that_is_only_read_stays_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = old(tmp_path / "old.db", monkeypatch)
    before = path.read_bytes()
    with open_store(path, read_only=True) as store:
        assert store.trials("c-1") == [trial(0, "/builds/0"), trial(1, "/builds/1")]
    assert path.read_bytes() == before


def test_a_rewriting_that_is_cut_short_leaves_the_file_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = old(tmp_path / "old.db", monkeypatch)
    every = (*TABLES, "provenance", "migrations")
    before = [cases.rows(path, f"SELECT * FROM {table}") for table in every]
    with monkeypatch.context() as patch:
        patch.setattr("perfguard.store.dividing._DOCUMENTS", _Interrupting())
        with pytest.raises(KeyboardInterrupt):
            open_store(path)
    assert before == [cases.rows(path, f"SELECT * FROM {table}") for table in every]
    with open_store(path):
        pass
    assert contents(path) == contents(fill(tmp_path / "new.db"))


class _Interrupting:
    """The documents of one table, then Ctrl-C."""

    def __iter__(self) -> Any:
        yield "trials", "campaign", "record"
        raise KeyboardInterrupt


def test_content_that_is_damaged_is_left_and_the_rest_is_in_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = old(tmp_path / "old.db", monkeypatch)
    large = "SELECT sha256 FROM provenance WHERE num_bytes > 16384 ORDER BY rowid"
    (damaged,), _ = cases.rows(path, large)
    with sqlite3.connect(path) as other:
        other.execute("UPDATE provenance SET data = x'00' WHERE sha256 = ?", (damaged,))
    other.close()
    with open_store(path) as store:
        with pytest.raises(StoreError, match="table trials, c-1 t00000"):
            store.trials("c-1")
        assert store.campaign("c-1") == cases.campaign("c-1")
    assert cases.rows(path, large) == [(damaged,)]


def test_an_older_file_merges_into_a_newer_one_that_has_some_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = fill(tmp_path / "new.db", ("c-2",))
    with open_store(path) as store:
        assert store.merge(old(tmp_path / "old.db", monkeypatch))["campaigns"] == 1
        assert set(store.merge(tmp_path / "old.db").values()) == {0}
        assert store.trials("c-1") == store.trials("c-2") == [trial(0, "/builds/0"), trial(1, "/builds/1")]
    assert contents(path) == contents(fill(tmp_path / "whole.db"))
