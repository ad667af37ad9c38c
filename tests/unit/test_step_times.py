"""Parts of a step on either side, and the one that most of a change is in."""

import math

import pytest
from report_cases import comparison

from perfguard.report.outcomes import speculation
from perfguard.step_times import step_times
from tests.unit import campaign_cases

MS = 1e-3
# A cycle of two ranks as a card stamped it, in seconds.
CYCLE = {
    "draft_extend_s": 0.12 * MS, "draft_steps_s": 0.10 * MS, "verify_s": 1.14 * MS, "accept_s": 0.006 * MS,
    "host_gap_s": 0.05 * MS, "all_reduce_s": 0.38 * MS, "wall_s": 1.42 * MS, "distinct_experts": 22.4,
}  # fmt: skip


def trial(side, changes=None, mode="eagle3", slot=0, block=0, number=1):
    marks = {**CYCLE, **(changes or {})}
    record = {"counts": {mode: {"marks": {name: value for name, value in marks.items() if value is not None}}}}
    return campaign_cases.trial(number, block, slot, side, 1.0, record=record)


def found(changes, modes=("eagle3",)):
    return step_times(modes, [trial("base"), trial("head", changes, slot=1)])


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"verify_s": 2.4 * MS}, "verify"),
        # 0.26 of the 0.28 ms that a forced protocol costs are in its all-reduces.
        ({"verify_s": 1.42 * MS, "all_reduce_s": 0.64 * MS}, "all-reduce"),
        ({"verify_s": 2.4 * MS, "all_reduce_s": 0.40 * MS}, "verify"),
        ({"host_gap_s": 0.5 * MS, "verify_s": 1.16 * MS}, "host"),
        ({"draft_extend_s": 0.02 * MS}, "draft extension"),  # faster, as for one that is left out
        ({"draft_extend_s": 0.22 * MS, "draft_steps_s": 0.2 * MS, "verify_s": 1.23 * MS}, ""),  # a third each
        ({}, ""),
    ],
)
def test_the_part_with_half_of_the_change_is_named(changes, part):
    (eagle3,) = found(changes)
    assert eagle3.lies_in == part


def test_a_part_that_got_faster_while_the_whole_got_slower_is_not_where_it_lies():
    (eagle3,) = found({"draft_steps_s": 0.01 * MS, "verify_s": 1.40 * MS})
    assert eagle3.lies_in == "verify"


def test_parts_are_means_over_the_launches_of_a_side_and_the_whole_step_is_no_part():
    launches = [trial("base", {"verify_s": 1.0 * MS}), trial("base", {"verify_s": 2.0 * MS}, slot=1)]
    (eagle3,) = step_times(["eagle3"], [*launches, trial("head", slot=2)])
    times = {part.name: part.base_s for part in eagle3.parts}
    assert times["verify"] == pytest.approx(1.5 * MS)
    assert "wall" not in str(times)
    assert [part.name for part in eagle3.parts if part.is_inside] == ["all-reduce"]


def test_a_part_that_one_launch_lacks_is_left_out_and_a_mode_without_stamps_is_not_told():
    (eagle3,) = found({"draft_steps_s": None})
    assert "draft steps" not in [part.name for part in eagle3.parts]
    assert found(dict.fromkeys(CYCLE)) == ()
    assert found({}, modes=("plain",)) == ()


def told(changes, outcome, name="eagle3_throughput"):
    (eagle3,) = found(changes)
    parts = [vars(part) for part in eagle3.parts]
    whole = comparison(steps=[{"mode": "eagle3", "parts": parts, "lies_in": eagle3.lies_in}])
    whole["metrics"] = [{**whole["metrics"][0], "name": name, "outcome": outcome}]
    return speculation(whole)


def test_the_report_names_the_part_where_a_change_was_found():
    (line,) = told({"verify_s": 1.42 * MS, "all_reduce_s": 0.64 * MS}, "REGRESSION")
    assert line.startswith("eagle3 step by time stamps: verify 1.140 ms → 1.420 ms, all-reduce inside 380.0 µs → ")
    assert line.endswith("; most of it in all-reduce")


@pytest.mark.parametrize("outcome", ["EQUIVALENT", "INCONCLUSIVE", "INVALID"])
def test_where_no_change_was_found_no_part_is_blamed(outcome):
    assert told({"verify_s": 1.2 * MS}, outcome) == []


def test_another_mode_s_change_blames_no_part_of_this_one():
    assert told({"verify_s": 1.2 * MS}, "REGRESSION", name="plain_throughput") == []


def test_times_that_are_no_numbers_name_no_part():
    (eagle3,) = found({"verify_s": math.nan})
    assert eagle3.lies_in == ""
