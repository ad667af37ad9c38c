"""What scope in-process refuses, and how its verdict is worded."""

import pytest

from perfguard.errors import UsageError
from perfguard.policy import Policy
from perfguard.protocol import Result
from perfguard.records import (
    Arm,
    BlockPlan,
    Campaign,
    Decision,
    Metric,
    MetricResult,
    Outcome,
    Reason,
    Revision,
    Workload,
)
from perfguard.scopes import check_scope, is_one_launch, scope_note, scope_of, scoped_decision, scoped_sentence
from perfguard.trial.quads import of_slot

METRIC = Metric(name="speed", unit="token/s", better="higher")
BUILT_IN = Workload(name="w", runner="fake", metrics=(METRIC,))


def arms(**head):
    revision = Revision(name="HEAD", commit="c" * 40, tree="t" * 40)
    return (Arm(side="base", revision=revision), Arm(side="head", revision=revision, **head))


def decision(outcome, *reasons):
    result = MetricResult(metric=METRIC, outcome=outcome, reasons=reasons)
    return Decision(state="done", outcome=outcome, metrics=(result,), reasons=reasons)


def test_the_scopes_that_can_be_asked_for_and_nothing_else():
    assert [scope_of(word) for word in ("", "full", "in-process", "resident")] == [
        "full", "full", "in-process", "resident",
    ]  # fmt: skip
    with pytest.raises(UsageError, match="'slice' is neither"):
        scope_of("slice")


@pytest.mark.parametrize(("workload", "head", "policy", "said"), [
    (Workload(name="w", runner="command", metrics=(METRIC,)), {}, Policy(), "command"),
    (BUILT_IN, {"env": {"NCCL_ALGO": "Tree"}}, Policy(), "differ in env"),
    (BUILT_IN, {"params": {"tp": 2}}, Policy(), "differ in params"),
    (BUILT_IN, {"python": "/usr/bin/python3"}, Policy(), "differ in python"),
    (BUILT_IN, {}, Policy(slow_rate=0.1), "--slow-rate"),
])  # fmt: skip
def test_what_one_process_cannot_give_is_refused_before_anything_runs(workload, head, policy, said):
    check_scope("full", workload, arms(**head), policy)
    with pytest.raises(UsageError, match=said):
        check_scope("in-process", workload, arms(**head), policy)


def campaign(scope):
    return Campaign(
        id="c", kind="compare", created_at="", workload=BUILT_IN, arms=arms(), policy={}, seed=1, repository="/r",
        scope=scope,
    )  # fmt: skip


@pytest.mark.parametrize(("stage", "is_shared"), [(1, True), (2, False), (3, True), (4, False)])
def test_only_blocks_that_suspect_share_a_launch_also_those_of_an_extension(stage, is_shared):
    plan = BlockPlan(stage=stage, index=0, order="ABBA", builds="1111", pauses=(0.0, 0.0, 0.0, 0.0))
    assert is_one_launch(campaign("in-process"), plan) is is_shared
    assert is_one_launch(campaign("full"), plan) is False


def test_no_rate_of_slow_launches_is_promised_where_launches_are_shared():
    given = decision(Outcome.EQUIVALENT, Reason(code="SLOW_RATE", text="rates up to 53 % are not excluded"))
    assert scoped_decision(given, "full") is given
    said = scoped_decision(given, "in-process")
    assert [r.code for r in said.reasons] == [r.code for r in said.metrics[0].reasons] == ["SHARED_PROCESS"]
    assert "53" not in said.reasons[0].text


def test_what_was_counted_are_instances():
    given = decision(Outcome.EQUIVALENT, Reason(code="EXACT_EQUAL", text="the same in all 8 launches"))
    assert scoped_decision(given, "in-process").reasons[0].text == "the same in all 8 instances"


def test_the_sentence_and_the_conclusion_name_the_scope():
    same, slower = decision(Outcome.EQUIVALENT), decision(Outcome.REGRESSION)
    assert scoped_sentence("No change.", same, "full") == "No change."
    assert scoped_sentence("No change.", same, "in-process") == "No change (scope in-process)."
    said = scoped_sentence("Head is slower.", slower, "in-process")
    assert said == "Head is slower (scope in-process, confirmed by fresh launches)."
    assert "confirmed by fresh launches" in scope_note(slower, "in-process")
    assert "confirmed" not in scope_note(same, "in-process")
    assert scope_note(same, "full") == scope_note(decision(Outcome.INVALID), "in-process") == ""


def test_a_slot_is_read_as_if_it_were_a_launch_of_its_own():
    slots = tuple({"values": {"speed": 80.0 + place}, "measured_s": place, "colour": 1} for place in range(4))
    answer = Result(trial="q", rank=0, world_size=1, load_s=8.0, slots=slots)
    third = of_slot(answer, "q", "t2", 2, 4)
    assert (third.trial, third.values, third.measured_s, third.load_s) == ("t2", {"speed": 82.0}, 2, 2.0)


def test_an_answer_without_slots_or_of_another_launch_is_none():
    answer = Result(trial="q", rank=0, world_size=1, values={"speed": 80.0})
    assert of_slot(answer, "q", "t2", 2, 4) == "its result holds 0 slots instead of 4"
    assert of_slot("no result was written", "q", "t2", 2, 4) == "no result was written"
    other = Result(trial="other", rank=0, world_size=1, slots=({}, {}, {}, {}))
    assert of_slot(other, "q", "t2", 2, 4).trial == "other"
