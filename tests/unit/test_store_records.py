"""Everything that is stored comes back exactly."""

import math
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import store_cases as cases
from hypothesis import given, settings
from hypothesis import strategies as st

from perfguard.errors import StoreError, UsageError
from perfguard.records import Reason, Revision
from perfguard.store import codec, open_store

HOSTILE = "[red]x[/red] <script> NUL \x00 latin \udce9 emoji \U0001f600 'quote\" \\x00"


def same_bits(left: Any, right: Any) -> bool:
    """Equal in value and type, floats bit for bit: -0.0 is not 0.0, and any NaN is NaN."""
    if isinstance(left, float) and isinstance(right, float):
        return struct.pack("d", left) == struct.pack("d", right) or (math.isnan(left) and math.isnan(right))
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same_bits(left[k], right[k]) for k in left)
    if isinstance(left, (list, tuple)):
        return type(left) is type(right) and len(left) == len(right) and all(map(same_bits, left, right))
    return type(left) is type(right) and left == right


def test_a_campaign_comes_back_equal_in_every_field(tmp_path: Path) -> None:
    stored = cases.campaign()
    with open_store(tmp_path / "r.db") as store:
        store.add_campaign(stored)
        assert store.campaign(stored.id) == stored
    with open_store(tmp_path / "r.db", read_only=True) as store:
        read = store.campaign(stored.id)
    assert read == stored
    assert isinstance(read.arms, tuple)
    assert isinstance(read.workload.metrics, tuple)
    assert read.arms[1].revision.patch == b"--- a\n+++ b\n\x00\xff\xfe"


def test_text_of_unknown_encoding_markup_and_nul_survives_everywhere_it_can_occur(tmp_path: Path) -> None:
    revision = Revision(name=HOSTILE, commit="a" * 40, tree="b" * 40, subject=HOSTILE, patch=bytes(range(256)) * 9)
    plain = cases.campaign()
    workload = replace(plain.workload, name=HOSTILE, command=(HOSTILE, ""))
    arms = tuple(replace(arm, revision=revision) for arm in plain.arms)
    stored = cases.campaign(repository=HOSTILE, workload=workload, arms=arms, machine={HOSTILE: HOSTILE})
    trial = cases.trial(
        values={HOSTILE: 1.0},
        digests={HOSTILE: HOSTILE},
        reasons=(Reason(code=HOSTILE, text=HOSTILE),),
        record={HOSTILE: [HOSTILE], "environment": {HOSTILE: HOSTILE}, f"s{HOSTILE}": [0.5] * 40},
    )
    with open_store(tmp_path / "r.db") as store:
        store.add_campaign(stored)
        store.add_trial(stored.id, trial)
        store.add_verdict(stored.id, {"outcome": "INVALID", "text": HOSTILE})
    with open_store(tmp_path / "r.db", read_only=True) as store:
        assert store.campaign(stored.id) == stored
        assert store.trials(stored.id) == [trial]
        assert store.latest_verdict(stored.id) == {"outcome": "INVALID", "text": HOSTILE}
        assert store.campaigns(workload=HOSTILE)[0].id == stored.id
        assert [cost.campaign for cost in store.trial_costs(HOSTILE, {HOSTILE: HOSTILE})] == [stored.id]


def test_blocks_come_back_in_the_order_planned_with_pauses_bit_for_bit(tmp_path: Path) -> None:
    plans = [cases.block(0), cases.block(1), cases.block(0, stage=2), cases.block(2)]
    with open_store(tmp_path / "r.db") as store:
        store.add_campaign(cases.campaign())
        store.add_blocks("c-0001", plans[:2])
        store.add_blocks("c-0001", plans[2:])
        assert store.blocks("c-0001") == plans
        assert store.blocks("c-0001")[0].pauses[2].hex() == (1 / 3).hex()


def test_trials_come_back_equal_in_the_order_stored_whatever_became_of_them(tmp_path: Path) -> None:
    trials = [cases.trial(3), cases.trial(0), cases.trial(1, **cases.FAILED), cases.trial(2, status="timed_out")]
    with open_store(tmp_path / "r.db") as store:
        store.add_campaign(cases.campaign())
        for trial in trials:
            store.add_trial("c-0001", trial)
        assert store.trials("c-0001") == trials


def test_trials_without_record_differ_in_nothing_else(tmp_path: Path) -> None:
    with open_store(tmp_path / "r.db") as store:
        store.add_campaign(cases.campaign())
        store.add_trial("c-0001", cases.trial())
        assert store.trials("c-0001", with_record=False) == [cases.trial(record={})]


@pytest.mark.parametrize("number", [0.1, -0.0, 5e-324, 1.7976931348623157e308, 2**53 + 1, 1e22, 3])
def test_a_value_keeps_its_bits_and_its_type(number: float, tmp_path: Path) -> None:
    with open_store(tmp_path / "r.db") as store:
        store.add_campaign(cases.campaign())
        store.add_trial("c-0001", cases.trial(values={"m": number}))
        assert same_bits(store.trials("c-0001")[0].values, {"m": number})


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_a_value_that_is_no_number_is_refused_and_nothing_of_the_trial_is_stored(number: float, tmp_path: Path) -> None:
    with open_store(tmp_path / "r.db") as store:
        store.add_campaign(cases.campaign())
        with pytest.raises(ValueError, match="finite"):
            store.add_trial("c-0001", cases.trial(values={"m": number}))
        assert store.trials("c-0001") == []


def test_nan_in_a_record_is_kept_in_long_and_in_short_lists(tmp_path: Path) -> None:
    record = {"samples": {"long": [math.nan, -0.0, math.inf] * 20, "short": [math.nan, 1]}, "clock": math.nan}
    with open_store(tmp_path / "r.db") as store:
        store.add_campaign(cases.campaign())
        store.add_trial("c-0001", cases.trial(record=record))
        assert same_bits(store.trials("c-0001")[0].record, record)


def test_a_record_that_would_not_come_back_the_same_is_refused(tmp_path: Path) -> None:
    with open_store(tmp_path / "r.db") as store:
        store.add_campaign(cases.campaign())
        with pytest.raises(TypeError):
            store.add_trial("c-0001", cases.trial(record={"samples": np.zeros(3)}))
        assert store.trials("c-0001") == []


JSON_KEYS = st.text(max_size=4) | st.sampled_from(["$json", "$tuple", "$series", "environment", "machine", "samples"])
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.binary(max_size=8)
# Surrogates are in: text of unknown encoding is read with surrogateescape.
ANY_TEXT = st.text(st.characters(categories=["L", "Cs", "Cc"]), max_size=6)
VALUES = st.recursive(
    SCALARS | ANY_TEXT | st.lists(st.floats(), min_size=30, max_size=34),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(JSON_KEYS, inner, max_size=4)
        | st.dictionaries(st.integers(), inner, max_size=2)
    ),
    max_leaves=12,
)


@settings(max_examples=150, deadline=None, print_blob=True)
@given(value=st.dictionaries(JSON_KEYS, VALUES, max_size=4), with_series=st.booleans())
def test_whatever_is_packed_unpacks_to_the_same(value: dict[str, Any], with_series: bool) -> None:
    packed = codec.pack(value, with_series=with_series)

    def content(sha256: str) -> Any:
        kind, data = packed.contents[sha256]
        return data if kind == "bytes" else codec.unpack(data.decode("ascii"))

    read = codec.unpack(packed.text, content, lambda position: packed.series[position].values)
    assert same_bits(read, value)
    assert same_bits(codec.unpack(codec.inline(value)), value)


def test_the_digest_of_a_mapping_does_not_depend_on_the_order_of_its_keys() -> None:
    assert codec.digest({"a": 1, "b": {"c": 2, "d": 3}}) == codec.digest({"b": {"d": 3, "c": 2}, "a": 1})
    assert codec.digest({"a": 1}) != codec.digest({"a": 2})


def test_a_field_added_later_takes_its_default_when_an_older_text_is_read() -> None:
    assert codec.build(Revision, {"name": "x", "commit": "c", "tree": "t", "unknown": 1}).patch == b""


def test_every_judgement_is_kept_and_the_last_one_is_the_latest(tmp_path: Path) -> None:
    first, second = {"outcome": "SUSPECT", "looks": (1, 2)}, {"outcome": "REGRESSION", "metrics": [{"p": 1 / 3}]}
    with open_store(tmp_path / "r.db") as store:
        store.add_campaign(cases.campaign())
        assert store.latest_verdict("c-0001") is None
        store.add_verdict("c-0001", first)
        store.add_verdict("c-0001", second)
        store.add_verdict("c-0001", second)
        assert store.latest_verdict("latest") == second
        kept = store.verdicts("c-0001")
    assert [(one.number, one.outcome, one.document) for one in kept] == [
        (1, "SUSPECT", first),
        (2, "REGRESSION", second),
        (3, "REGRESSION", second),
    ]
    assert {one.perfguard for one in kept} == {"0.1.0"}


def test_an_id_may_be_shortened_while_it_is_unique(tmp_path: Path) -> None:
    with open_store(tmp_path / "r.db") as store:
        for name, hour in (("abc1", 3), ("abc1-2", 1), ("xyz%", 2)):
            store.add_campaign(cases.campaign(name, created_at=f"2026-01-02T{hour:02}:00:00+00:00"))
        assert store.campaign("xy").id == "xyz%"
        assert store.campaign("abc1").id == "abc1", "a whole id wins over a longer one that begins with it"
        assert store.campaign("latest").id == "abc1", "created last, though stored first"
        with pytest.raises(UsageError, match=r"2 stored results begin with 'abc': abc1-2, abc1") as ambiguous:
            store.campaign("abc")
        assert ambiguous.value.next_step == "perfguard runs"
        with pytest.raises(UsageError, match=r"no stored result has the id 'abd1'; near it: abc1"):
            store.trials("abd1")
        with pytest.raises(UsageError, match=r"no stored result has the id 'a%'"):
            store.blocks("a%")
        with pytest.raises(UsageError, match="no stored result has the id ''"):
            store.latest_verdict("")
        with pytest.raises(UsageError, match="no stored result"):
            store.campaign("\udcff")


def test_latest_in_an_empty_store_says_what_to_do(tmp_path: Path) -> None:
    with open_store(tmp_path / "r.db") as store, pytest.raises(UsageError, match="nothing is stored yet") as error:
        store.campaign("latest")
    assert error.value.next_step == "perfguard compare HEAD~1 HEAD -- python bench.py"


def test_a_trial_is_stored_once_and_only_under_a_known_campaign(tmp_path: Path) -> None:
    with open_store(tmp_path / "r.db") as store:
        store.add_campaign(cases.campaign())
        store.add_trial("c-0001", cases.trial())
        with pytest.raises(StoreError, match="UNIQUE"):
            store.add_trial("c-0001", cases.trial(status="invalid"))
        with pytest.raises(StoreError, match="FOREIGN KEY"):
            store.add_trial("unknown", cases.trial(1))
        assert store.trials("c-0001") == [cases.trial()]


def test_what_ten_thousand_trials_share_is_stored_once(tmp_path: Path) -> None:
    with open_store(tmp_path / "r.db") as store:
        store.add_campaign(cases.campaign())
        store.add_campaign(cases.campaign("c-0002"))
        before = cases.rows(tmp_path / "r.db", "SELECT count(*) FROM provenance")
        for number in range(40):
            store.add_trial("c-0001" if number % 2 else "c-0002", cases.trial(number))
    added = cases.rows(tmp_path / "r.db", "SELECT count(*) FROM provenance")[0][0] - before[0][0]
    assert added == 3, "environment, versions and origin, for 80 ranks"


def test_overviews_count_trials_by_status_and_show_the_latest_outcome_newest_first(tmp_path: Path) -> None:
    with open_store(tmp_path / "r.db") as store:
        store.add_campaign(cases.campaign("new", created_at="2026-02-01T00:00:00+00:00", kind="run"))
        store.add_campaign(cases.campaign("old"))
        store.add_blocks("old", [cases.block(0), cases.block(1)])
        for number, status in enumerate(["ok", "ok", "ok", "invalid", "crashed", "crashed", "timed_out"]):
            store.add_trial("old", cases.trial(number, status=status))
        store.add_trial("old", cases.trial(8, stage=0))
        store.add_verdict("old", {"outcome": "SUSPECT"})
        store.add_verdict("old", {"outcome": "REGRESSION"})
        store.set_status("old", "finished")
        new, old = store.campaigns()
        assert (new.id, new.status, new.outcome, new.num_ok, new.num_blocks) == ("new", "running", "", 0, 0)
        assert (old.status, old.outcome, old.base, old.head) == ("finished", "REGRESSION", "HEAD~1", "WORKTREE")
        assert (old.num_ok, old.num_invalid, old.num_crashed, old.num_timed_out) == (3, 1, 2, 1)
        assert (old.num_blocks, old.workload, old.base_commit) == (2, "moe", "a" * 40)
        assert [row.id for row in store.campaigns(1)] == ["new"]
        assert [row.id for row in store.campaigns(kind="compare", workload="moe")] == ["old"]
        assert store.campaigns(workload="other") == []


def test_costs_of_trials_come_from_valid_trials_of_this_workload_on_this_machine(tmp_path: Path) -> None:
    values = [100.0, 80.0, 70.0, 110.0]  # base 100 and 110, head 80 and 70
    walls = [5.0, 6.0, 8.0, 7.0]
    with open_store(tmp_path / "r.db") as store:
        store.add_campaign(cases.campaign("here"))
        store.add_campaign(cases.campaign("there", machine={**cases.MACHINE, "driver": "590"}))
        for number, (value, wall) in enumerate(zip(values, walls, strict=True)):
            changes: dict[str, Any] = {"values": {"m": value, "count": 0.0}, "wall_s": wall, "measured_s": 2.0}
            store.add_trial("here", cases.trial(number, **changes))
        store.add_trial("here", cases.trial(4, status="invalid", wall_s=900.0, measured_s=800.0))
        store.add_trial("here", cases.trial(5, stage=0, wall_s=900.0, measured_s=800.0))
        store.add_trial("there", cases.trial(0))
        (cost,) = store.trial_costs("moe", dict(reversed(cases.MACHINE.items())))
        assert [one.campaign for one in store.trial_costs("moe")] == ["there", "here"]
        assert store.trial_costs("other") == []
    assert (cost.campaign, cost.num_trials, cost.load_s, cost.measured_s) == ("here", 4, 4.5, 2.0)
    assert (cost.longest_load_s, cost.longest_measured_s) == (6.0, 2.0)
    # Variance of a pair is half its squared distance; the mean of ln(110/100)^2/2 and ln(80/70)^2/2.
    expected = math.sqrt((math.log(1.1) ** 2 / 2 + math.log(8 / 7) ** 2 / 2) / 2)
    assert cost.noise == {"m": pytest.approx(expected, rel=1e-12)}


def test_people_can_query_values_by_slot_and_see_that_a_failed_trial_has_none(tmp_path: Path) -> None:
    with open_store(tmp_path / "r.db") as store:
        store.add_campaign(cases.campaign())
        store.add_trial("c-0001", cases.trial(values={"tpot": 0.25, "throughput": 80}))
        store.add_trial("c-0001", cases.trial(1, **cases.FAILED))
    seen = cases.rows(tmp_path / "r.db", "SELECT workload, side, slot, status, metric, value FROM trials_wide")
    assert sorted(seen, key=str) == sorted(
        [
            ("moe", "base", 0, "ok", "tpot", 0.25),
            ("moe", "base", 0, "ok", "throughput", 80),
            ("moe", "head", 1, "crashed", None, None),
        ],
        key=str,
    )
