"""The gate of speculation where low precision parts the modes: what the runner has to say, and for which launches."""

import pytest
from campaign_cases import trial
from speculate_cases import FAKE, counts, judged, moded, record, speculation_is

from perfguard.modes import SIDES
from perfguard.payoff_gate import check_output
from perfguard.records import Decision, Outcome
from perfguard.workloads import with_params


def low_precision(speculative):
    # In this precision outputs keep the names of their modes, so that a difference is no change of output.
    of = moded(workload=with_params(FAKE, {"dtype": "bfloat16"}))
    outputs = {"base": "one", "head": "other"}
    return judged(speculation_is(1.3), of=of, speculative=speculative, outputs=outputs, by_mode=True)


def output_check(found):
    return next(check for check in found["speculate"]["gate"]["checks"] if check["name"] == "output")


@pytest.mark.parametrize(("said", "state"), [(True, "passed"), (False, "failed"), (None, "unknown")])
def test_in_low_precision_the_runner_has_to_explain_the_first_difference(said, state):
    found = low_precision(counts() if said is None else counts(first_difference_explained=said))
    assert output_check(found)["state"] == state
    assert found["speculate"]["result"] == "win"
    assert (found["speculate"]["advice"] is None) == (state != "passed")


def test_what_rounding_does_not_explain_is_said_before_the_verdict_with_its_numbers():
    gaps = {"num_differing": 3, "num_explained": 2, "worst_gap": 2.25, "worst_bound": 0.125}
    found = low_precision(counts(first_difference_explained=False, first_differences=gaps))
    numbers = "rounding explains 2 of 3 prompts that differ; logit gap 2.25, rounding up to 0.125"
    assert numbers in output_check(found)["text"]
    assert found["sentence"].startswith("Output: eagle3 and plain part where rounding does not explain it")
    assert found["reasons"][0]["code"] == "ADVICE_WITHHELD"
    gaps = {**gaps, "num_explained": 3, "worst_gap": 0.0625}
    found = low_precision(counts(first_difference_explained=True, first_differences=gaps))
    assert "rounding explains 3 of 3 prompts that differ; logit gap 0.0625" in output_check(found)["text"]
    assert found["sentence"].startswith("A win")


def gate_of(*launches):
    """The check of output; `launches`: (stage, side, digest, what the runner said) of launches in bfloat16."""
    workload = with_params(FAKE, {"dtype": "bfloat16"})
    trials = [
        trial(
            stage, 0, slot, side, 1.0, digests={SIDES[side]: digest}, values={"throughput": 1.0},
            record=record(side, counts() if said is None else counts(first_difference_explained=said)),
        )
        for slot, (stage, side, digest, said) in enumerate(launches)
    ]  # fmt: skip
    decision = Decision(state="done", outcome=Outcome.IMPROVEMENT, metrics=())
    return check_output(workload, trials, decision).state


def test_launches_of_one_mode_are_covered_by_one_of_both_that_said_the_same():
    both = (1, "base", "one", None), (1, "head", "other", True)
    assert gate_of(*both, (2, "base", "one", None), (2, "head", "other", None)) == "passed"
    assert gate_of(*both, (2, "base", "one", None), (2, "head", "third", None)) == "unknown"
    assert gate_of(*both, (2, "base", "other", None), (2, "head", "other", None)) == "unknown"
    assert gate_of(*both, (2, "base", "one", None), (2, "head", "other", False)) == "failed"
