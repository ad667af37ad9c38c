"""The JSON of a comparison and the words beside it."""

import json
from dataclasses import replace

import pytest
from advice_cases import understood
from campaign_cases import BASE, HEAD, campaign, first_run, trial

from perfguard.comparison import comparison_json, trials_json
from perfguard.conclusions import CAN, CANNOT, conclusions, next_step
from perfguard.errors import EXIT_CODES
from perfguard.records import Decision, Metric, MetricResult, Outcome, Reason

EXACT = Metric(name="tokens", unit="1", better="higher", primary=False, exact=True)
RESULT = MetricResult(
    metric=Metric(name="rate", unit="token/s", better="higher"),
    outcome=Outcome.REGRESSION,
    slowdown=1.031,
    ci_low=1.027,
    ci_high=1.035,
    base_median=82.1,
    head_median=79.6,
    p_order=0.00077,
    mde=1.012,
    decided_at=4,
    reasons=(Reason(code="ODDS", text="luck in 1 of 1,296"),),
)
DECISION = Decision(
    state="done",
    outcome=Outcome.REGRESSION,
    metrics=(RESULT, MetricResult(metric=EXACT, outcome=Outcome.EQUIVALENT)),
    reasons=(Reason(code="ODDS", text="luck in 1 of 1,296"),),
)


def as_json(of=None, decision=DECISION, trials=(), **changes):
    words = {"sentence": "Head is slower.", "conclusions": {"can": "a", "cannot": "b"}, "next_step": "c"}
    return comparison_json(
        of or campaign(), decision, trials, **{"used_blocks": 4, "void_blocks": 1, **words, **changes}
    )


def test_the_comparison_says_what_was_asked_for_and_what_was_found():
    comparison = as_json()
    assert comparison["schema"] == "perfguard/comparison@1"
    assert (comparison["id"], comparison["kind"], comparison["scope"]) == ("c-1", "compare", "full")
    assert (comparison["base"]["commit"], comparison["head"]["commit"]) == (BASE, HEAD)
    assert comparison["blocks"] == {"used": 4, "void": 1, "needed": None}
    metric = {name: value for name, value in comparison["metrics"][0].items() if name != "reasons"}
    assert metric == {
        "name": "rate", "unit": "token/s", "better": "higher", "primary": True, "exact": False,
        "outcome": "REGRESSION", "slowdown": 1.031, "ci_low": 1.027, "ci_high": 1.035, "base_median": 82.1,
        "head_median": 79.6, "p_order": 0.00077, "mde": 1.012, "decided_at": 4,
    }  # fmt: skip
    assert comparison["metrics"][1]["slowdown"] is None
    assert comparison["reasons"] == [{"code": "ODDS", "text": "luck in 1 of 1,296"}]


def test_the_comparison_is_plain_json_without_nan():
    comparison = as_json()
    assert json.loads(json.dumps(comparison, allow_nan=False)) == comparison


def test_every_outcome_has_its_exit_code():
    found = {str(o): as_json(decision=replace(DECISION, outcome=o))["exit_code"] for o in Outcome}
    assert found == {
        "REGRESSION": 1, "IMPROVEMENT": 0, "EQUIVALENT": 0, "INCONCLUSIVE": 3, "SUSPECT": 3, "INVALID": 4,
    }  # fmt: skip
    # A recheck retires a number and never fails a job.
    assert (EXIT_CODES["REPRODUCED"], EXIT_CODES["NOT_REPRODUCED"]) == (0, 0)


def test_first_runs_are_not_counted_among_the_trials():
    trials = [first_run("base"), first_run("head"), trial(1, 0, 0, "base", 1.0), trial(2, 0, 0, "head", 1.0)]
    trials += [trial(1, 0, 1, "head", 1.0, status=status) for status in ("invalid", "crashed", "crashed", "timed_out")]
    assert trials_json(trials) == {"ok": 2, "invalid": 1, "crashed": 2, "timed_out": 1}


def test_a_patch_is_shown_by_its_digest_and_a_clean_side_has_none():
    # printf patch | sha256sum
    digest = "a4895eb44afc336fecbba6e520cd67e178dace0276655d102fceffa8e5f70570"
    of = campaign()
    base, head = of.arms
    dirty = replace(head, revision=replace(head.revision, patch=b"patch"))
    comparison = as_json(replace(of, arms=(base, dirty)))
    assert (comparison["base"]["patch_sha256"], comparison["head"]["patch_sha256"]) == (None, digest)


def test_a_claimed_number_is_carried_along_and_the_list_of_modules_is_not():
    of = campaign()
    assert as_json(of)["claimed"] == {}
    claimed = as_json(replace(of, method={**of.method, "claimed": 89.0}))
    assert claimed["claimed"] == {"value": 89.0}
    assert claimed["method"] == {"changed_files": ["engine.py"], "claimed": 89.0}


@pytest.mark.parametrize("outcome", list(Outcome))
def test_every_outcome_says_what_can_be_concluded_what_cannot_and_what_to_do(outcome):
    decision = replace(DECISION, outcome=outcome)
    words = conclusions(campaign(), decision, origin_note="")
    assert words == {"can": CAN[outcome], "cannot": CANNOT[outcome]}
    assert understood(next_step(campaign(), decision)), "a command that can be run as it stands"


def test_what_code_ran_is_said_where_something_can_be_concluded():
    note = "both arms are the same code"
    equal = conclusions(campaign(), replace(DECISION, outcome=Outcome.EQUIVALENT), origin_note=note)
    assert equal["can"].endswith(" Of the code: both arms are the same code.")
    invalid = conclusions(campaign(), replace(DECISION, outcome=Outcome.INVALID), origin_note=note)
    assert "Of the code" not in invalid["can"]


def test_the_next_step_after_a_regression_lists_the_commits_between_the_two():
    listed = f"git log --oneline {BASE[:12]}..{HEAD[:12]}"
    several = "perfguard bisect c-1, if these are several commits"
    assert next_step(campaign(), DECISION) == f"{listed}, then {several}"
    undecided = next_step(campaign(), replace(DECISION, outcome=Outcome.INCONCLUSIVE))
    assert undecided.startswith("perfguard extend c-1 --budget 4h")


@pytest.mark.parametrize(
    ("needed", "step"),
    [
        (10, "perfguard extend c-1 --budget 4h, or a new comparison with a wider --margin"),
        # More than an extension takes by itself, and no more than it can be given.
        (17, "perfguard extend c-1 --max-blocks 17, or a new comparison with a wider --margin"),
        (40, "perfguard extend c-1 --max-blocks 40, or a new comparison with a wider --margin"),
        (31_092, "a new comparison with a wider --margin: at this one, 31,092 more blocks are needed"),
    ],
)
def test_an_undecided_comparison_is_told_what_can_decide_it(needed, step):
    assert next_step(campaign(), replace(DECISION, outcome=Outcome.INCONCLUSIVE, blocks_needed=needed)) == step
