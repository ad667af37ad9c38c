"""The two timed loops against a scripted session whose answers are known by hand."""

import hashlib

import pytest

from runners import eagle3_decode, tp_moe, tp_moe_decode
from runners.version1 import Version1


class ScriptedSession:
    """Counts upwards from the prompt's last id; of each cycle's drafted ids, as many are right as the script says."""

    def __init__(self, accepted, num_draft_tokens=3):
        self.accepted = list(accepted)
        self.num_draft_tokens = num_draft_tokens
        self.newest = 0
        self.calls = []

    def prefill(self, prompt, mode="plain"):
        self.calls.append(f"prefill {mode}")
        self.newest = prompt[-1] + 1
        return self.newest

    def decode(self, token):
        return token + 1

    def draft(self):
        right = self.accepted.pop(0)
        wanted = [self.newest + 1 + place for place in range(self.num_draft_tokens)]
        return [token if place < right else -1 for place, token in enumerate(wanted)]

    def verify(self, drafted):
        return [self.newest + 1 + place for place in range(len(drafted) + 1)]

    def accept(self, drafted, verified):
        right = next((i for i, token in enumerate(drafted) if token != verified[i]), len(drafted))
        emitted = [*drafted[:right], verified[right]]
        self.newest = emitted[-1]
        return emitted

    def synchronize(self):
        self.calls.append("synchronize")


def test_plain_makes_exactly_the_asked_tokens_one_by_prefill_and_the_rest_by_steps():
    run = tp_moe_decode.measure(Version1(ScriptedSession([])), [[10], [50]], 6)
    assert run.tokens == [[11, 12, 13, 14, 15, 16], [51, 52, 53, 54, 55, 56]]
    assert run.counts == {"prompts": 2, "tokens": 12, "steps": 10}
    assert len(run.samples["plain_token_s"]) == 10
    assert len(run.samples["plain_ttft_s"]) == 2


def test_plain_throughput_is_steps_over_their_time_so_that_a_stall_counts():
    log = tp_moe_decode.PlainLog(token_s=[1.0, 1.0, 1.0, 7.0, 99.0], ttft_s=[2.0], steps=4)
    values = tp_moe_decode.summarise(log, [[1, 2, 3, 4, 5]]).values
    assert values == {"plain_throughput": 0.4, "plain_token_s": 1.0, "plain_ttft_s": 2.0}


def test_warmup_is_left_out_of_values_but_not_of_samples_and_counts():
    times = [2.0] * 20 + [1.0] * 80
    run = tp_moe_decode.summarise(tp_moe_decode.PlainLog(token_s=times, ttft_s=[1.0], steps=100), [[0] * 101])
    assert run.values["plain_throughput"] == 1.0
    assert run.warmup == {"iterations": 100, "discarded": 20, "found": True}
    assert len(run.samples["plain_token_s"]) == 100
    assert run.counts["steps"] == 100


def test_accept_length_and_positions_by_hand():
    # One prompt, 8 tokens: prefill gives 1; cycles accept 2, 0, 3 of 3 and emit 3, 1, 4: nine ids, one surplus.
    run = eagle3_decode.measure(Version1(ScriptedSession([2, 0, 3])), [[10]], 8)
    assert run.tokens == [[11, 12, 13, 14, 15, 16, 17, 18]]
    assert run.values["eagle3_accept_length"] == pytest.approx(8 / 3)
    assert run.counts == {
        "cycles": 3,
        "drafted": 9,
        "accepted": 5,
        "emitted": 8,
        "accepted_by_position": [2, 2, 1],
        "cycles_by_prompt": [3],
        "emitted_by_prompt": [8],
        "prompts": 1,
        "tokens": 8,
    }


def test_counts_are_kept_apart_by_prompt():
    # 4 tokens each: the first prompt takes cycles of 2 and 2 ids (one surplus), the second one of 4 (one surplus).
    run = eagle3_decode.measure(Version1(ScriptedSession([1, 1, 3])), [[10], [50]], 4)
    assert run.tokens == [[11, 12, 13, 14], [51, 52, 53, 54]]
    assert run.counts["cycles_by_prompt"] == [2, 1]
    assert run.counts["emitted_by_prompt"] == [4, 4]


def test_rejecting_every_draft_still_emits_one_token_a_cycle():
    run = eagle3_decode.measure(Version1(ScriptedSession([0] * 5)), [[10]], 6)
    assert run.values["eagle3_accept_length"] == 1.0
    assert run.counts["accepted_by_position"] == [0, 0, 0]


def test_throughput_counts_every_emitted_token_of_the_cycles_whose_time_it_counts():
    log = eagle3_decode.CycleLog(
        cycle_s=[4.0, 6.0, 0.0], draft_s=[1.0, 1.0, 0.0], verify_s=[2.0, 4.0, 0.0], accept_s=[1.0, 1.0, 0.0],
        drafted=[3, 3, 0], emitted=[4, 1, 0], emitted_each=[4, 1], ttft_s=[0.5], cycles=2, cycles_by_prompt=[2],
    )  # fmt: skip
    run = eagle3_decode.summarise(log, [[0, 0, 0]])
    assert run.values == {
        "eagle3_throughput": 0.5,
        "eagle3_accept_length": 2.5,
        "eagle3_cycle_s": 5.0,
        "eagle3_draft_s": 1.0,
        "eagle3_verify_s": 3.0,
        "eagle3_accept_s": 1.0,
        "eagle3_ttft_s": 0.5,
    }
    assert run.samples["eagle3_cycle_s"] == [4.0, 6.0]
    assert run.samples["eagle3_emitted"] == [4.0, 1.0]


def test_both_modes_produce_equal_ids_for_a_greedy_session():
    plain = tp_moe_decode.measure(Version1(ScriptedSession([])), [[7], [90]], 9)
    eagle3 = eagle3_decode.measure(Version1(ScriptedSession([1, 2, 0, 3, 1, 0, 0, 2, 3, 3])), [[7], [90]], 9)
    assert eagle3.tokens == plain.tokens


@pytest.mark.parametrize("emitted", [[], [1, 2, 3, 4, 5]])
def test_a_cycle_that_emits_no_token_or_more_than_drafted_and_bonus_is_an_error(emitted):
    session = ScriptedSession([3])
    session.accept = lambda drafted, verified: emitted
    with pytest.raises(ValueError, match=f"cycle 0 emitted {len(emitted)} tokens from 3 drafted"):
        eagle3_decode.measure(Version1(session), [[10]], 8)


def test_each_phase_is_closed_by_waiting_for_the_device():
    session = ScriptedSession([3])
    eagle3_decode.measure(Version1(session), [[10]], 5)
    assert session.calls.count("synchronize") == 2 + 3


def test_digest_is_the_documented_text():
    expected = hashlib.sha256(b"1,2,30\n4\n").hexdigest()
    assert tp_moe.token_digest([[1, 2, 30], [4]]) == expected


def test_equality_of_modes_is_reported_only_where_rounding_cannot_part_them():
    plain = tp_moe_decode.measure(Version1(ScriptedSession([])), [[7]], 4)
    eagle3 = eagle3_decode.measure(Version1(ScriptedSession([0, 0, 0])), [[7]], 4)
    other = eagle3_decode.measure(Version1(ScriptedSession([0, 0, 0])), [[8]], 4)
    marks = {"plain": {}, "eagle3": {"graph": 0.5}}

    def reported(run, dtype):
        runs = {"plain": plain, "eagle3": run}
        return tp_moe.numbers(runs, marks, tp_moe.TpMoeParams(dtype=dtype))["counts"]["eagle3"]

    assert reported(eagle3, "float32")["equals_plain"] is True
    assert reported(other, "float64")["equals_plain"] is False
    assert "equals_plain" not in reported(eagle3, "bfloat16")
    assert reported(eagle3, "bfloat16")["marks"] == {"graph": 0.5}


def test_a_mode_that_was_not_run_leaves_no_metric():
    plain = tp_moe_decode.measure(Version1(ScriptedSession([])), [[7]], 4)
    numbers = tp_moe.numbers({"plain": plain}, {"plain": {}}, tp_moe.TpMoeParams())
    assert set(numbers["values"]) == {"plain_throughput", "plain_token_s", "plain_ttft_s"}
    assert set(numbers["counts"]) == {"plain"}
