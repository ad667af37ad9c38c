"""Plain decoding against EAGLE-3 as two sides of a comparison: verdicts, the gate, and what is advised."""

from dataclasses import replace

import pytest
from campaign_cases import SHORT
from speculate_cases import FAKE, counts, judged, moded, speculation_is

from perfguard.errors import UsageError
from perfguard.experiment import planned_blocks
from perfguard.modes import must_agree, of_mode, of_modes, shared
from perfguard.records import Trial
from perfguard.workloads import BUILT_IN, find, with_modes, with_params


def checks(found):
    return {check["name"]: check["state"] for check in found["speculate"]["gate"]["checks"]}


@pytest.mark.parametrize(
    ("factor", "num_twos", "outcome", "result", "code"),
    [(1.3, 2, "IMPROVEMENT", "win", 0), (1.0, 0, "EQUIVALENT", "tie", 0), (0.7, 2, "REGRESSION", "loss", 1)],
)
def test_win_tie_and_loss_keep_the_outcomes_and_codes_of_a_comparison(factor, num_twos, outcome, result, code):
    found = judged(speculation_is(factor), num_twos=num_twos)
    assert (found["schema"], found["outcome"], found["exit_code"]) == ("perfguard/comparison@1", outcome, code)
    assert found["speculate"]["result"] == result
    assert found["sentence"].startswith(f"A {result}: ")
    assert found["sentence"].endswith("(of this build, on this machine).")
    assert (found["base"]["mode"], found["head"]["mode"]) == ("plain", "eagle3")


def test_words_name_modes_and_no_fresh_builds():
    found = judged(speculation_is(0.7))
    said = " ".join([found["sentence"], *found["conclusions"].values(), *(r["text"] for r in found["reasons"])])
    assert "head" not in said
    assert "fresh builds" not in said
    assert "eagle3 trials were the slowest" in said
    assert "what a rebuild does to either mode is not known" in said


def test_a_suspicion_that_nobody_confirmed_is_neither_win_nor_loss():
    of = moded(replace(SHORT, is_confirmed=False))
    found = judged(speculation_is(0.7), of=of, num_twos=0)
    assert (found["outcome"], found["exit_code"], found["speculate"]["result"]) == ("SUSPECT", 3, None)
    assert found["sentence"].startswith("No win, tie or loss: ")


def test_every_block_of_both_stages_runs_the_one_build():
    assert {plan.builds for plan in planned_blocks(moded())} == {"1111"}


def test_break_even_and_advice_follow_from_the_times_by_hand():
    """25 ms a cycle against 10 ms a step: break-even at 2.5; 2.05 tokens a cycle are 18 % too few."""
    told = judged(speculation_is(0.82))["speculate"]
    assert told["break_even"]["accept_length"] == pytest.approx(2.5)
    assert told["break_even"]["ci_low"] == pytest.approx(2.5)
    assert told["break_even"]["num_blocks"] == 4
    assert told["accept_length"] == pytest.approx(2.05)
    assert [rate["rate"] for rate in told["accept_rates"]] == pytest.approx([0.6, 0.5, 0.5])
    advice = told["advice"]
    assert advice["gain"] == pytest.approx(2.05 / 2.5 - 1)
    # Accept length 3 with the verify time as it is: 3 tokens in 25 ms against 2.5.
    row = next(row for row in advice["gain_table"]["rows"] if row["accept_length"] == 3.0)
    assert row["gains"][advice["gain_table"]["verify_factors"].index(1.0)] == pytest.approx(0.2)
    # One drafted token: 1.6 tokens in 5/3 + (10 + 8/3) + 2 ms.
    one = advice["predicted"][0]
    assert one["cycle_s"] == pytest.approx(0.005 / 3 + 0.010 + 0.008 / 3 + 0.002)
    assert one["gain"] == pytest.approx(1.6 * 0.010 / one["cycle_s"] - 1)
    assert [p["is_extended"] for p in advice["predicted"]] == [False, False, False, True]


def test_what_was_predicted_for_the_measured_number_is_what_was_measured():
    advice = judged(speculation_is(0.82))["speculate"]["advice"]
    assert advice["predicted"][2]["gain"] == pytest.approx(advice["gain"])


def test_a_collapse_at_position_1_is_said_first_and_nothing_is_advised():
    found = judged(speculation_is(0.5), speculative=counts((20, 12, 8)))
    assert found["outcome"] == "REGRESSION"
    assert found["sentence"].startswith("Accept rates: position 1 is accepted in 2.0 % of 1000 cycles")
    assert "wired wrong" in found["sentence"].split(". ")[0]
    assert found["reasons"][0]["code"] == "ADVICE_WITHHELD"
    assert checks(found) == {"accept rates": "failed", "output": "passed"}
    assert found["speculate"]["advice"] is None
    assert not found["speculate"]["gate"]["passed"]


def test_a_first_position_far_below_later_ones_is_a_collapse_too():
    """20 % at first, then 90 %: a weak draft would not do that. 20 %, then 30 %, a weak one might."""
    assert checks(judged(speculation_is(0.5), speculative=counts((200, 180, 162))))["accept rates"] == "failed"
    assert checks(judged(speculation_is(0.5), speculative=counts((200, 60, 18))))["accept rates"] == "passed"


def test_a_faster_mode_with_another_output_is_no_win_and_says_so_first():
    found = judged(speculation_is(1.3), outputs={"base": "one", "head": "other"})
    assert (found["outcome"], found["exit_code"], found["speculate"]["result"]) == ("INCONCLUSIVE", 3, None)
    assert "eagle3 produces other output than plain" in found["sentence"]
    assert [reason["code"] for reason in found["reasons"][:2]] == ["ADVICE_WITHHELD", "OUTPUT_CHANGED"]
    assert checks(found)["output"] == "failed"
    assert found["speculate"]["advice"] is None


def test_missing_accept_rates_are_unknown_and_withhold_advice():
    found = judged(speculation_is(1.3), speculative={"cycles": 60})
    assert found["speculate"]["result"] == "win"
    assert checks(found)["accept rates"] == "unknown"
    assert found["speculate"]["accept_length"] is None
    assert found["speculate"]["advice"] is None
    assert found["reasons"][0]["code"] == "ADVICE_WITHHELD"


def test_missing_digests_are_unknown_not_equal():
    found = judged(speculation_is(1.3), outputs={"base": "", "head": ""})
    assert checks(found)["output"] == "unknown"
    assert found["speculate"]["advice"] is None


@pytest.mark.parametrize("by_mode", [False, True])
def test_ids_of_one_mode_and_text_of_the_other_are_unknown_not_another_output(by_mode):
    found = judged(speculation_is(1.3), outputs={"base": "ids:one", "head": "text:one"}, by_mode=by_mode)
    assert checks(found)["output"] == "unknown"
    assert found["speculate"]["result"] == "win"
    assert found["speculate"]["advice"] is None
    assert "OUTPUT_CHANGED" not in [reason["code"] for reason in found["reasons"]]


def test_a_workload_of_one_mode_cannot_be_compared():
    with pytest.raises(UsageError, match="measures no eagle3 decoding"):
        of_modes(with_modes(FAKE, "plain"))


def test_a_launch_of_one_mode_keeps_its_own_numbers_beside_the_shared_one():
    own = of_mode(of_modes(FAKE), "eagle3")
    assert (own.modes, [metric.name for metric in own.metrics]) == (("eagle3",), ["eagle3_throughput"])
    one = Trial(
        id="t", stage=1, block=0, slot=0, side="head", build=1, attempt=0, status="ok", started_at="", wall_s=1.0,
        measured_s=1.0, values={"eagle3_throughput": 50.0}, digests={"eagle3": "x"},
    )  # fmt: skip
    assert (shared(one, "eagle3", own).values, shared(one, "eagle3", own).digests) == (
        {"throughput": 50.0},
        {"tokens": "x"},
    )


def test_outputs_must_agree_only_where_decoding_is_greedy_and_exact():
    tiny = find("moe-eagle3", {w.name: w for w in BUILT_IN})
    assert must_agree(tiny)
    assert not must_agree(with_params(tiny, {"dtype": "bfloat16"}))
    assert not must_agree(replace(tiny, params={**tiny.params, "temperature": 0.7}))
    assert not must_agree(replace(tiny, params={**tiny.params, "accept_length": 2.0}))
