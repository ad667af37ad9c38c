"""One block at full size after a slice: what it is asked by, what it may end in, what both together end with."""

from dataclasses import replace

import pytest
from campaign_cases import campaign, failed, first_run, whole_block

from perfguard.full_size import AFTER_SLICE, FULL_SIZE, block_policy, document, exit_code, linked
from perfguard.judging import judge, verdict_json
from perfguard.policy import Policy, stored_policy
from perfguard.report import outcomes
from perfguard.stats.plan import plan_block

ASKED = Policy(margin=0.05, max_blocks=10, slow_rate=0.1)
FIRST_RUNS = [first_run("base"), first_run("head")]


def block_campaign(**changes):
    slice_ = campaign(id="s-1", scope="slice")
    block = campaign(block_policy(replace(ASKED, **changes)), id="b-1")
    return linked(slice_, block)[1]


def plans(count=2):
    return [plan_block(7, 1, index, 8) for index in range(count)]


def of_block(base_s, head_s):
    seconds = {"base": iter(base_s), "head": iter(head_s)}
    return [*FIRST_RUNS, *whole_block(plans()[0], lambda side: next(seconds[side]))]


def verdict(base_s, head_s):
    return verdict_json(block_campaign(), plans(), of_block(base_s, head_s))


@pytest.mark.parametrize("word", ["slowest", "fastest"])
def test_a_difference_in_one_block_is_suspected_with_odds_and_never_more(word):
    head = (1.2, 1.21) if word == "slowest" else (0.8, 0.81)
    found = verdict((1.0, 1.01), head)
    assert (found["outcome"], found["exit_code"]) == ("SUSPECT", 3)
    # Six arrangements of two and two; one has both head trials at this end.
    odds = next(reason["text"] for reason in found["reasons"] if reason["code"] == "ODDS")
    assert odds == f"all head trials were the {word} in 1 block: luck in 1 of 6, whatever the noise"
    assert judge(block_campaign(), plans(), of_block((1.0, 1.01), head)).next_plan is None
    assert "after slice s-1" in found["sentence"]


@pytest.mark.parametrize(
    ("base", "head"),
    [((1.0, 1.0), (1.0, 1.0)), ((1.0, 1.001), (1.0, 1.001)), ((1.0, 1.3), (1.2, 1.1)), ((1.0, 1.01), (1.02, 1.03))],
    ids=["equal", "alike", "mixed", "apart within the margin"],
)
def test_one_block_that_shows_no_difference_says_so_and_acquits_nobody(base, head):
    found = verdict(base, head)
    assert found["outcome"] == "INCONCLUSIVE"
    assert {metric["outcome"] for metric in found["metrics"]} == {"INCONCLUSIVE"}
    assert found["sentence"].startswith("No difference seen in one block")
    assert [reason["code"] for reason in found["reasons"]] == ["ONE_BLOCK"]
    assert "acquits nobody" in found["conclusions"]["can"]
    assert found["next"].endswith("without --thin")


def test_a_void_block_is_measured_once_more_and_two_of_them_end_it():
    void = [*FIRST_RUNS, failed(plans()[0], 0)]
    again = judge(block_campaign(), plans(), void)
    assert again.next_plan == plans()[1]
    ended = judge(block_campaign(), plans(), [*void, failed(plans()[1], 0)])
    assert (ended.next_plan, str(ended.decision.outcome)) == (None, "INVALID")


def test_nothing_is_kept_back_to_extend_one_block_and_no_rate_of_slow_launches_is_asked_of_it():
    policy = stored_policy(block_campaign().policy)
    assert (policy.max_blocks, policy.is_confirmed, policy.slow_rate, policy.extension_share) == (1, False, 0.0, 0.0)
    assert policy.margin == ASKED.margin


def test_slice_and_block_name_each_other_wherever_they_are_shown():
    slice_, block = linked(campaign(id="s-1", scope="slice"), campaign(id="b-1"))
    assert (slice_.method[FULL_SIZE], block.method[AFTER_SLICE]) == ("b-1", "s-1")
    assert outcomes.scope({"scope": "slice", "method": slice_.method}) == "slice; one block at full size: b-1"
    assert outcomes.scope({"scope": "full", "method": block.method}) == "full; one block after slice s-1"
    assert outcomes.scope({"scope": "full"}) == "full"


@pytest.mark.parametrize(
    ("of_slice", "of_block", "code"),
    [
        ("EQUIVALENT", "INCONCLUSIVE", 0),
        ("EQUIVALENT", "SUSPECT", 3),
        ("EQUIVALENT", "INVALID", 4),
        ("EQUIVALENT", None, 0),
        ("REGRESSION", "INCONCLUSIVE", 1),
        ("REGRESSION", "INVALID", 1),
        ("SUSPECT", "INCONCLUSIVE", 3),
        ("INVALID", None, 4),
    ],
)
def test_the_exit_code_of_both_never_hides_what_either_found(of_slice, of_block, code):
    codes = {"EQUIVALENT": 0, "REGRESSION": 1, "SUSPECT": 3, "INCONCLUSIVE": 3, "INVALID": 4}
    slice_ = {"outcome": of_slice, "exit_code": codes[of_slice]}
    block = of_block and {"outcome": of_block, "exit_code": codes[of_block]}
    assert exit_code(slice_, block) == code
    assert document(slice_, block) == {"outcome": of_slice, "full_size": block, "exit_code": code}
    assert slice_["exit_code"] == codes[of_slice]  # what is stored is the slice's own
