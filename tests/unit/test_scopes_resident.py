"""Scope resident: one launch a side, so it promises less, says so, and ends where a server was lost."""

from dataclasses import replace

import pytest
from campaign_cases import campaign, first_run, trial, whole_block

from perfguard.conclusions import next_step
from perfguard.errors import UsageError
from perfguard.experiment import planned_blocks
from perfguard.judging import verdict_json
from perfguard.policy import Policy
from perfguard.records import Decision, Outcome, Reason
from perfguard.scopes import resident_reasons, scope_note, scoped_policy, scoped_sentence

SHORT = Policy(margin=0.05, alpha=0.05, max_blocks=2)


def resident(policy=SHORT):
    return campaign(scoped_policy(policy, "resident"), scope="resident")


def verdict(seconds, extra=()):
    plans = planned_blocks(resident())
    blocks = [t for plan in plans[:2] for t in whole_block(plan, seconds)]
    return verdict_json(resident(), plans, [first_run("base"), first_run("head"), *blocks, *extra])


def test_nothing_is_confirmed_and_the_sleepers_on_the_cards_are_no_strangers():
    policy = scoped_policy(Policy(), "resident")
    assert policy.is_confirmed is False
    assert (policy.gates.foreign, policy.gates.utilisation) == ("record", "record")
    assert replace(policy, is_confirmed=True, gates=Policy().gates) == Policy()
    with pytest.raises(UsageError, match="--slow-rate counts launches"):
        scoped_policy(Policy(slow_rate=0.1), "resident")


def test_twice_as_slow_in_every_window_is_suspected_and_never_reported():
    found = verdict(lambda side: 2.0 if side == "head" else 1.0)
    assert (found["outcome"], found["exit_code"], found["scope"]) == ("SUSPECT", 3, "resident")
    assert found["reasons"][0]["code"] == "RESIDENT"
    assert found["sentence"].endswith("(scope resident: one launch of each side, awake in turn).")


def test_equal_windows_are_equivalent_for_one_launch_of_each_side_and_exclude_no_slow_launches():
    values = {"base": 1.0, "head": 1.001}
    found = verdict(lambda side: values[side])
    assert found["outcome"] == "EQUIVALENT"
    (said,) = (r["text"] for m in found["metrics"] for r in m["reasons"] if r["code"] == "NO_LAUNCHES")
    assert said == "each side is one launch: no rate of slow ones is excluded"
    assert "only launches of their own" in found["conclusions"]["can"]


@pytest.mark.parametrize("code", ["engine_died", "not_asleep", "not_awake"])
def test_a_resident_that_was_lost_ends_the_comparison_with_its_side_named(code):
    lost = trial(1, 1, 3, "head", 1.0, status="invalid", reasons=(Reason(code=code, text="why"),), id="lost")
    assert resident_reasons("resident", [lost]) == (Reason(code=code, text="resident server of head: why"),)
    assert resident_reasons("full", [lost]) == ()
    found = verdict(lambda side: 1.0, [lost])
    assert found["outcome"] == "INVALID"
    assert code in [reason["code"] for reason in found["reasons"]]


def test_words_of_the_scope():
    decision = Decision(state="done", outcome=Outcome.SUSPECT, metrics=())
    assert scoped_sentence("Text.", decision, "resident") == (
        "Text (scope resident: one launch of each side, awake in turn)."
    )
    assert "launched once, and slept" in scope_note(decision, "resident")
    assert scope_note(replace(decision, outcome=Outcome.INVALID), "resident") == ""
    assert next_step(resident(), decision).endswith("the same without --scope resident")
