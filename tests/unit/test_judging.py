"""Stored plans and trials -> a verdict. Expected values follow from values written down in campaign_cases."""

from dataclasses import replace

import pytest
from campaign_cases import (
    CHECKOUTS,
    SHORT,
    campaign,
    failed,
    first_run,
    measured,
    plans_of,
    same,
    slower_head,
    trial,
    whole_block,
)
from hypothesis import given
from hypothesis import strategies as st

from perfguard.experiment import planned_blocks
from perfguard.judging import judge, last_attempts, may_retry, survey_blocks, verdict_json, with_stop
from perfguard.records import Outcome, Reason
from perfguard.stats.plan import builds_of

FIRST_RUNS = [first_run("base"), first_run("head")]


def codes(reasons):
    return [reason.code for reason in reasons]


# --- blocks: complete, void, pending


def test_a_block_is_complete_with_four_good_trials_void_with_one_bad_and_else_pending():
    asked = campaign()
    plans = planned_blocks(asked)
    ones = plans_of(asked)
    trials = whole_block(ones[0], same) + whole_block(ones[1], same)[:2] + [failed(ones[1], 2)]
    survey = survey_blocks(asked, plans, trials + whole_block(ones[2], same)[:3])
    assert [(b.stage, b.index, b.order) for b in survey.blocks] == [(1, 0, ones[0].order)]
    assert survey.blocks[0].values == {"seconds": (1.0, 1.0, 1.0, 1.0)}
    assert [plan.index for plan in survey.void] == [1]
    # Two blocks and one spare in each stage; block 2 of stage one lacks its fourth trial.
    assert [(plan.stage, plan.index) for plan in survey.pending] == [(1, 2), (2, 0), (2, 1), (2, 2)]


def test_of_several_attempts_in_a_slot_the_last_one_counts():
    asked = campaign()
    plan = plans_of(asked)[0]
    before_ready = {"before_ready": True}
    crash = failed(plan, 0, "crashed", record=before_ready)
    good = whole_block(plan, same)
    again = replace(good[0], attempt=1, id="again")
    survey = survey_blocks(asked, [plan], [crash, again, *good[1:]])
    assert len(survey.blocks) == 1
    assert last_attempts([crash, again])[1, 0, 0] is again


@pytest.mark.parametrize(
    ("stage", "codes", "attempt", "expected"),
    [
        (0, ["client_starved"], 0, True),
        (0, ["client_starved", "server_disagrees"], 1, True),
        (0, ["client_starved"], 2, False),
        # Another engine than was asked for stays another one.
        (0, ["client_starved", "wrong_engine"], 0, False),
        (0, [], 0, False),
        # A measured launch is never made again for what came of it.
        (1, ["client_starved"], 0, False),
    ],
)
def test_a_first_run_is_made_again_where_only_its_client_was_starved(stage, codes, attempt, expected):
    reasons = tuple(Reason(code=code, text="") for code in codes)
    one = failed(plans_of(campaign())[0], 0, "invalid", attempt=attempt, record={})
    assert may_retry(replace(one, stage=stage, reasons=reasons), SHORT) is expected


@pytest.mark.parametrize(
    ("status", "before_ready", "attempt", "expected"),
    [
        ("crashed", True, 0, True),
        ("crashed", True, 1, True),
        # At most twice again.
        ("crashed", True, 2, False),
        ("crashed", False, 0, False),
        ("timed_out", True, 0, False),
        ("invalid", True, 0, False),
        ("ok", True, 0, False),
    ],
)
def test_only_a_launch_that_died_before_it_measured_is_tried_again(status, before_ready, attempt, expected):
    asked = campaign()
    plan = plans_of(asked)[0]
    one = failed(plan, 0, status, attempt=attempt, record={"before_ready": before_ready})
    assert may_retry(one, SHORT) is expected
    if status != "ok":
        survey = survey_blocks(asked, [plan], [one])
        assert (len(survey.pending), len(survey.void)) == ((1, 0) if expected else (0, 1))


@given(values=st.lists(st.floats(min_value=1e-9, max_value=1e9), min_size=12, max_size=12), bad=st.integers(0, 11))
def test_whether_a_block_counts_never_depends_on_a_value(values, bad):
    asked = campaign()
    trials = [t for plan in plans_of(asked) for t in whole_block(plan, same)]
    trials = [replace(t, values={"seconds": value}) for t, value in zip(trials, values, strict=True)]
    trials[bad] = replace(trials[bad], status="invalid")
    survey = survey_blocks(asked, plans_of(asked), trials)
    assert [plan.index for plan in survey.void] == [bad // 4]
    assert [block.index for block in survey.blocks] == [index for index in range(3) if index != bad // 4]


# --- what to measure next


def test_the_next_block_is_one_of_the_stage_that_the_decision_asks_for():
    asked = campaign()
    plans = planned_blocks(asked)
    begun = judge(asked, plans, FIRST_RUNS)
    assert (begun.decision.state, begun.next_plan, begun.blocks_left) == ("measure", plans_of(asked)[0], (1, 4))
    suspect = judge(asked, plans, measured(asked, slower_head))
    assert (suspect.decision.state, suspect.next_plan) == ("confirm", plans_of(asked, 2)[0])
    assert suspect.blocks_left == (1, 2)
    done = judge(asked, plans, measured(asked, slower_head, num_twos=2))
    assert (done.decision.state, done.decision.outcome) == ("done", Outcome.REGRESSION)
    assert (done.next_plan, done.blocks_left) == (None, (0, 0))
    assert judge(asked, plans, measured(asked, same)).decision.outcome is Outcome.EQUIVALENT


def test_a_void_block_is_replaced_by_the_next_one_with_its_own_order():
    asked = campaign()
    plans, ones = planned_blocks(asked), plans_of(asked)
    void = [*FIRST_RUNS, *whole_block(ones[0], same), failed(ones[1], 0)]
    judgement = judge(asked, plans, void)
    assert judgement.next_plan == ones[2]
    ended = judge(asked, plans, void + whole_block(ones[2], same))
    assert ended.decision.outcome is Outcome.EQUIVALENT
    assert len(ended.survey.blocks) == 2


# --- what makes everything invalid


def test_a_first_run_that_fails_ends_the_comparison_with_its_reason():
    asked = campaign()
    plan = plans_of(asked)[0]
    broken = replace(first_run("head"), status="crashed", reasons=failed(plan, 0, code="command_failed").reasons)
    judgement = judge(asked, planned_blocks(asked), [first_run("base"), broken])
    assert (judgement.decision.outcome, judgement.next_plan) == (Outcome.INVALID, None)
    assert [(r.code, r.text) for r in judgement.decision.reasons] == [
        ("command_failed", "first run of head: seen in 0.0")
    ]


def test_a_first_run_that_works_at_its_second_attempt_is_no_reason():
    asked = campaign()
    broken = replace(first_run("head"), status="crashed", record={"before_ready": True}, id="broken")
    again = replace(first_run("head"), attempt=1)
    judgement = judge(asked, planned_blocks(asked), [first_run("base"), broken, again])
    assert judgement.decision.state == "measure"


def test_sides_that_loaded_the_same_content_of_a_changed_file_are_not_compared():
    asked = campaign()
    twins = [first_run("base", loaded="e" * 64), first_run("head", loaded="e" * 64)]
    judgement = judge(asked, planned_blocks(asked), twins)
    assert judgement.decision.outcome is Outcome.INVALID
    assert codes(judgement.decision.reasons) == ["same_code"]


def test_fresh_builds_are_checked_as_the_first_ones_are():
    asked = campaign()
    fresh = max(builds_of(plans_of(asked, 2)[0].builds))
    trials = [t for t in measured(asked, slower_head, num_twos=2) if t.id != f"first-head-{fresh}"]
    stray = first_run("head", build=fresh)
    place = {"engine": {"path": "/srv/repo/engine.py", "sha256": "head"}}
    trials.append(replace(stray, record={"checkout": CHECKOUTS["head"], "origin": place}))
    judgement = judge(asked, planned_blocks(asked), trials)
    assert judgement.decision.outcome is Outcome.INVALID
    assert "head loaded engine from /srv/repo/engine.py" in judgement.decision.reasons[0].text


def test_failed_trials_are_counted_by_side_and_kind_only_where_nothing_can_be_concluded():
    asked = campaign()
    plans, ones = planned_blocks(asked), plans_of(asked)
    failures = [failed(plan, plan.order.index("B"), "crashed", "command_failed") for plan in ones]
    judgement = judge(asked, plans, [*FIRST_RUNS, *failures])
    assert judgement.decision.outcome is Outcome.INVALID
    last = judgement.decision.reasons[-1]
    slot = ones[0].order.index("B")
    assert (last.code, last.text) == ("command_failed", f"3 launches of head: seen in 0.{slot}")
    one_void = [*FIRST_RUNS, *whole_block(ones[0], same), failures[1], *whole_block(ones[2], same)]
    fine = judge(asked, plans, one_void).decision
    assert (fine.outcome, "command_failed" in codes(fine.reasons)) == (Outcome.EQUIVALENT, False)


# --- the JSON of it


def test_a_verdict_counts_what_was_used_and_says_which_code_ran():
    asked = campaign()
    comparison = verdict_json(asked, planned_blocks(asked), measured(asked, slower_head, num_twos=2))
    assert (comparison["outcome"], comparison["exit_code"]) == ("REGRESSION", 1)
    assert comparison["blocks"] == {"used": 4, "void": 0, "needed": None}
    assert comparison["trials"] == {"ok": 16, "invalid": 0, "crashed": 0, "timed_out": 0}
    assert comparison["metrics"][0]["slowdown"] == pytest.approx(1.3)
    assert "1 of 1 changed files were loaded, each from its own checkout" in comparison["conclusions"]["can"]
    assert comparison["next"].startswith("git log --oneline aaaaaaaaaaaa..bbbbbbbbbbbb, ")


@pytest.mark.parametrize(
    ("seconds", "num_ones", "outcome"),
    [(same, 0, "INCONCLUSIVE"), (same, 1, "INCONCLUSIVE"), (slower_head, 2, "SUSPECT")],
)
def test_a_comparison_that_ran_out_of_budget_says_what_it_is_now(seconds, num_ones, outcome):
    asked = campaign()
    trials = measured(asked, seconds, num_ones=num_ones)
    comparison = verdict_json(asked, planned_blocks(asked), trials, stopped="budget")
    assert (comparison["outcome"], comparison["stopped"]) == (outcome, "budget")
    assert comparison["reasons"][0] == {"code": "STOPPED", "text": "stopped when the budget was used up"}


def test_stopping_changes_nothing_where_a_verdict_stands():
    asked = campaign()
    decision = judge(asked, planned_blocks(asked), measured(asked, same)).decision
    assert with_stop(decision, "budget") is decision


def test_a_verdict_on_a_longer_series_of_trials_starts_with_the_same_decisions():
    """What was decided after a block is what anybody finds who looks at the trials up to it."""
    asked = campaign()
    trials = measured(asked, slower_head, num_twos=2)
    states = [judge(asked, planned_blocks(asked), trials[:n]).decision.state for n in range(2, len(trials) + 1)]
    order = ["measure", "confirm", "done"]
    assert [order.index(state) for state in states] == sorted(order.index(state) for state in states)
    assert states[0] == "measure"
    assert states[-1] == "done"


def test_a_trial_of_an_unplanned_block_is_not_counted():
    asked = campaign()
    stray = trial(1, 99, 0, "base", 1.0)
    assert survey_blocks(asked, plans_of(asked), [stray]).blocks == ()
