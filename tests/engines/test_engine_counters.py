"""Accept lengths from what answers and counters say; every number here is worked out by hand."""

import pytest

from runners.engines.counters import Acceptance, by_counter, by_request, foreign_traffic, off_synthetic, totals
from runners.engines.records import Answer
from runners.engines.sglang import SGLANG
from runners.engines.vllm import VLLM


def answer(num_tokens, error="", **meta):
    return Answer(started_ns=1, num_tokens=num_tokens, meta=meta, error=error)


def text(drafts, drafted, accepted, by_position, generated=0.0):
    names = {"num_drafts": drafts, "num_draft_tokens": drafted, "num_accepted_tokens": accepted}
    lines = []
    for name, value in names.items():
        whole = f"vllm:spec_decode_{name}"
        lines += [f"# TYPE {whole} counter", f'{whole}_total{{engine="0"}} {value}']
        lines += [f"# TYPE {whole}_created gauge", f'{whole}_created{{engine="0"}} 1.7e9']
    lines += ["# TYPE vllm:spec_decode_num_accepted_tokens_per_pos counter"]
    for place, value in enumerate(by_position):
        lines.append(f'vllm:spec_decode_num_accepted_tokens_per_pos_total{{engine="0",position="{place}"}} {value}')
    lines += ["# TYPE vllm:generation_tokens counter", f'vllm:generation_tokens_total{{engine="0"}} {generated}']
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize(
    ("accepted", "drafted"),
    [("spec_num_correct_drafts", "spec_num_proposed_drafts"), ("spec_accept_token_num", "spec_draft_token_num")],
)
def test_by_request_all_tokens_stand_over_all_verify_steps(accepted, drafted):
    """10 and 20 tokens in 4 and 8 steps: 30 / 12, not the mean of two ratios."""
    answers = [
        answer(10, spec_verify_ct=4, **{accepted: 5, drafted: 12}),
        answer(20, spec_verify_ct=8, **{accepted: 11, drafted: 24}),
        answer(None, error="cut"),
    ]
    found = by_request(answers, SGLANG.by_request)
    assert (found.length, found.cycles, found.accepted, found.drafted, found.rate) == (2.5, 12, 16, 36, 16 / 36)
    assert found.counts()["emitted_by_prompt"] == [10, 20]
    assert found.counts()["cycles_by_prompt"] == [4, 8]


def test_an_answer_that_does_not_tell_its_steps_makes_the_whole_unknown():
    told = answer(10, spec_verify_ct=4)
    assert by_request([told, answer(10)], SGLANG.by_request) is None
    assert by_request([told, answer(10, spec_verify_ct="4")], SGLANG.by_request) is None
    assert by_request([answer(10, spec_verify_ct=0)], SGLANG.by_request) is None
    assert by_request([], SGLANG.by_request) is None


def test_what_only_one_version_tells_is_unknown_and_not_zero():
    found = by_request([answer(10, spec_verify_ct=4)], SGLANG.by_request)
    assert (found.accepted, found.drafted, found.rate) == (None, None, None)
    assert {"accepted", "drafted"}.isdisjoint(found.counts())


def test_by_counter_it_is_what_grew_around_the_window_and_not_what_was_there():
    """94 drafts, 271 draft tokens, 106 accepted, as an ngram run of vLLM once counted: 1 + 106 / 94."""
    before, after = text(1000, 3000, 3000, [900, 100]), text(1094, 3271, 3106, [970, 136])
    found = by_counter(before, after, VLLM.by_counter)
    assert found.length == pytest.approx(2.12766, abs=1e-5)
    assert (found.cycles, found.drafted, found.accepted) == (94, 271, 106)
    assert found.counts()["accepted_by_position"] == [70, 36]


def test_counters_that_are_not_there_or_did_not_move_are_unknown():
    there = text(10, 30, 5, [5])
    assert by_counter("", there, VLLM.by_counter) is None
    assert by_counter(there, there, VLLM.by_counter) is None
    assert by_counter("", "", VLLM.by_counter) is None


def test_a_twin_that_says_when_a_counter_began_is_not_added_to_it():
    assert totals(text(10, 30, 5, []))["vllm:spec_decode_num_drafts_total"] == 10


@pytest.mark.parametrize("value", ["NaN", "+Inf"])
def test_a_counter_that_holds_no_number_counts_nothing(value):
    """One of two engines of a server: the other's count stays, and no comparison is made with what is no number."""
    broken = text(7, 30, 5, [5]) + f'vllm:spec_decode_num_drafts_total{{engine="1"}} {value}\n'
    assert totals(broken)["vllm:spec_decode_num_drafts_total"] == 7
    assert by_counter(text(0, 0, 0, [0]), broken, VLLM.by_counter).length == 1 + 5 / 7


def test_a_negative_count_of_cycles_is_unknown():
    assert by_request([answer(10, spec_verify_ct=-4)], SGLANG.by_request) is None


def test_tokens_that_nobody_here_received_are_somebody_else_s():
    before, after = text(0, 0, 0, [], generated=100), text(0, 0, 0, [], generated=300)
    assert foreign_traffic(before, after, VLLM.generated_tokens, 200) is None
    assert foreign_traffic(before, after, VLLM.generated_tokens, 199) is None  # a stop token that is not sent
    found = foreign_traffic(before, after, VLLM.generated_tokens, 150)
    assert found.code == "other_clients"
    assert "made 200 tokens while this client got 150" in found.text
    assert foreign_traffic(before, after, VLLM.generated_tokens, None) is None
    assert foreign_traffic("", "", VLLM.generated_tokens, 5) is None


@pytest.mark.parametrize(
    ("tokens", "cycles", "num_requests", "wanted", "is_off"),
    [
        (25_000, 10_000, 10, 2.5, False),
        (24_000, 10_000, 10, 2.5, True),  # 4 % short; the ends of ten requests explain 0.2 %, chance 0.8 %
        (20_000, 10_000, 10, 2.0, False),
        (20_300, 10_000, 10, 2.0, True),  # a whole number is no coin
        (1_010, 500, 10, 2.0, False),  # ten first tokens are not of any cycle
        (990, 400, 100, 2.5, False),  # last cycles of a hundred requests were cut
    ],
)
def test_a_synthetic_length_is_off_by_more_than_ends_and_coin_explain(tokens, cycles, num_requests, wanted, is_off):
    found = Acceptance(length=tokens / cycles, definition="", cycles=cycles, more={"emitted": tokens})
    assert (off_synthetic(found, wanted, num_requests) is not None) == is_off
