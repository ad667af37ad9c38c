"""Scope attached: it follows from a url, promises less, and says so."""

from dataclasses import replace

import pytest

from perfguard.errors import UsageError
from perfguard.policy import Policy
from perfguard.records import Arm, Campaign, Decision, Metric, MetricResult, Outcome, Reason, Revision
from perfguard.scopes import (
    check_scope,
    effective_scope,
    promise_reasons,
    scope_note,
    scoped_decision,
    scoped_policy,
    scoped_sentence,
)
from perfguard.workloads import BUILT_IN, find, with_params

VLLM = find("vllm", {workload.name: workload for workload in BUILT_IN})
METRIC = Metric(name="output_throughput", unit="token/s", better="higher")


def arms(base="", head=""):
    revision = Revision(name="HEAD", commit="c" * 40, tree="t" * 40)
    params = [{"url": url} if url else {} for url in (base, head)]
    return tuple(Arm(side=side, revision=revision, params=p) for side, p in zip(("base", "head"), params, strict=True))


def campaign(base, head, workload=VLLM):
    return Campaign(
        id="c", kind="compare", created_at="", workload=workload, arms=arms(base, head), policy={}, seed=1,
        repository="/r", scope=effective_scope("full", workload, arms(base, head)),
    )  # fmt: skip


def test_a_url_makes_the_scope_and_nothing_else_does():
    assert effective_scope("full", VLLM, arms()) == "full"
    assert effective_scope("full", VLLM, arms("http://a", "http://b")) == "attached"
    assert effective_scope("full", with_params(VLLM, {"url": "http://a"}), arms()) == "attached"
    assert effective_scope("full", replace(VLLM, runner="fake"), arms("http://a", "http://b")) == "full"


@pytest.mark.parametrize("where", ["workload", "arms"])
def test_few_layers_make_a_slice_however_they_were_asked_for(where):
    cut = {"thin_layers": 8}
    workload = with_params(VLLM, cut) if where == "workload" else VLLM
    sides = arms() if where == "workload" else tuple(replace(arm, params=cut) for arm in arms())
    assert effective_scope("full", workload, sides) == "slice"
    with pytest.raises(UsageError, match="few layers has a scope of its own"):
        effective_scope("in-process", workload, sides)


def test_few_layers_against_a_whole_model_are_refused():
    base, head = arms()
    with pytest.raises(UsageError, match="only head has few layers"):
        effective_scope("full", VLLM, (base, replace(head, params={"thin_layers": 8})))


@pytest.mark.parametrize(("base", "head", "side"), [("http://a", "", "base"), ("", "http://b", "head")])
def test_a_running_server_against_one_that_is_started_is_refused(base, head, side):
    with pytest.raises(UsageError, match=f"only {side} is a running server"):
        effective_scope("full", VLLM, arms(base, head))


def test_what_a_running_server_cannot_give_is_refused():
    with pytest.raises(UsageError, match="neither started nor shared"):
        effective_scope("in-process", VLLM, arms("http://a", "http://b"))
    with pytest.raises(UsageError, match="not launched again"):
        scoped_policy(Policy(slow_rate=0.1), "attached")
    with pytest.raises(UsageError, match="an engine is a process of its own"):
        check_scope("in-process", VLLM, arms(), Policy())


def test_a_change_between_running_servers_ends_as_a_suspicion():
    assert scoped_policy(Policy(), "attached") == Policy(is_confirmed=False)
    assert scoped_policy(Policy(), "full") == Policy()


def test_the_weaker_promise_is_said_and_one_server_for_both_sides_is_named():
    (reason,) = promise_reasons(campaign("http://a", "http://b"))
    assert reason.code == "ATTACHED"
    assert "nothing was started afresh" in reason.text
    assert "one and the same" not in reason.text
    (reason,) = promise_reasons(campaign("http://a", "http://a"))
    assert "both sides asked one and the same server, http://a" in reason.text
    assert promise_reasons(campaign("", "")) == ()


def test_the_words_of_a_verdict_on_running_servers_speak_of_loads_and_not_of_launches():
    equal = Reason(code="EXACT_EQUAL", text="the same in all 8 launches")
    slow = Reason(code="SLOW_RATE", text="8 launches exclude 31 %")
    result = MetricResult(metric=METRIC, outcome=Outcome.EQUIVALENT, reasons=(equal,))
    decision = Decision(state="done", outcome=Outcome.EQUIVALENT, metrics=(result,), reasons=(slow,))
    scoped = scoped_decision(decision, "attached")
    assert scoped.metrics[0].reasons[0].text == "the same in all 8 loads"
    assert scoped.reasons[0].code == "NO_LAUNCHES"
    said = "Equal (scope attached: servers that were running already)."
    assert scoped_sentence("Equal.", decision, "attached") == said
    assert "launch that somebody else made" in scope_note(decision, "attached")
    assert scope_note(replace(decision, outcome=Outcome.INVALID), "attached") == ""
