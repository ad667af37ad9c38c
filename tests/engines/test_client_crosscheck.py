"""The client held against the server's own histograms, in the texts that vLLM and SGLang serve."""

import pytest
from client_cases import a_load, an_answer, exchange_of

from runners.engines.crosscheck import cross_check
from runners.engines.measuring import Sent, observe
from runners.engines.trial import others
from runners.engines.vllm import VLLM

NAMES = {"vllm": 'engine="0",model_name="m"', "sglang": 'model_name="m",tp_rank="0"'}


def metrics(*, num, ttft_s, gap_s, gaps=7, engine="vllm", between="inter_token_latency_seconds"):
    """What the server has counted since it began: `num` requests of these mean times, 1 + `gaps` tokens each."""
    lines = []
    for name, count, total in (
        ("time_to_first_token_seconds", num, num * ttft_s),
        (between, num * gaps, num * gaps * gap_s),
    ):
        full = f"{engine}:{name}"
        lines += [f"# HELP {full} x", f"# TYPE {full} histogram"]
        lines += [f'{full}_bucket{{{NAMES[engine]},le="+Inf"}} {count}.0']
        lines += [f"{full}_count{{{NAMES[engine]}}} {count}.0", f"{full}_sum{{{NAMES[engine]}}} {total}"]
        lines += [f"# HELP {full}_created x", f"# TYPE {full}_created gauge"]
        lines += [f"{full}_created{{{NAMES[engine]}}} 1.7e9"]
    return "\n".join(lines) + "\n"


def observed(num=4, **answer):
    answers = tuple(an_answer(**answer) for _ in range(num))
    sent = Sent(exchanges=[exchange_of() for _ in answers], late={}, client=None, scheduler="ordinary")
    return observe(answers, sent, a_load(num_requests=num))


def codes(observation, before, after):
    return [reason.code for reason in cross_check(observation, before, after).reasons]


WARM = {"num": 3, "ttft_s": 0.5, "gap_s": 0.1}  # the warm-up before the load: other times, to be subtracted


def later(*, ttft_s, gap_s, num=4, **how):
    """The text after `num` requests more than WARM."""
    both = WARM["num"] + num
    mean = (WARM["num"] * WARM["ttft_s"] + num * ttft_s) / both
    gap = (WARM["num"] * WARM["gap_s"] + num * gap_s) / both
    return metrics(num=both, ttft_s=mean, gap_s=gap, **how)


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
@pytest.mark.parametrize("between", ["inter_token_latency_seconds", "time_per_output_token_seconds"])
def test_client_and_server_that_agree_give_no_reason(engine, between):
    before = metrics(**WARM, engine=engine, between=between)
    after = later(ttft_s=0.009, gap_s=0.002, engine=engine, between=between)
    checked = cross_check(observed(first_ms=10, gap_ms=2), before, after)
    assert checked.reasons == ()
    assert checked.counts["server"]["num_requests"] == 4
    assert checked.counts["server"]["ttft_s"] == pytest.approx(0.009)
    assert checked.counts["server"]["tpot_s"] == pytest.approx(0.002)


def test_a_client_that_read_everything_at_the_end_is_contradicted():
    """As seen on a busy machine: client 270 ms and 0.01 ms a token, server 12 ms and 4.8 ms."""
    after = later(ttft_s=0.012, gap_s=0.0048)
    assert codes(observed(first_ms=270, gap_ms=0.01), metrics(**WARM), after)[-2:] == ["server_disagrees"] * 2


def test_a_small_time_of_its_own_on_the_way_is_no_contradiction():
    assert codes(observed(first_ms=12, gap_ms=2), metrics(**WARM), later(ttft_s=0.004, gap_s=0.002)) == []


def test_speculation_counts_fewer_gaps_and_the_same_time():
    """vLLM counts a gap for each step; the sum over all gaps is the same."""
    before, after = metrics(num=3, ttft_s=0.5, gap_s=0.1), metrics(num=7, ttft_s=0.5, gap_s=0.1, gaps=3)
    checked = cross_check(observed(first_ms=500, gap_ms=2), before, after)
    assert checked.reasons == ()


def test_requests_of_others_are_a_reason():
    after = later(ttft_s=0.010, gap_s=0.002, num=6)
    assert codes(observed(), metrics(**WARM), after) == ["other_clients"]


def test_requests_and_tokens_of_others_are_told_as_one_thing():
    made = "# TYPE vllm:generation_tokens counter\nvllm:generation_tokens_total"
    before, after = f"{metrics(**WARM)}{made} 0\n", f"{later(ttft_s=0.010, gap_s=0.002, num=6)}{made} 48\n"
    seen = cross_check(observed(), before, after)
    assert [reason.code for reason in seen.reasons] == ["other_clients"]
    assert list(others(VLLM, seen, before, after)) == []
    by_tokens = list(others(VLLM, observed(), before, after))
    assert [reason.code for reason in by_tokens] == ["other_clients"]


@pytest.mark.parametrize("text", ["", 'vllm:num_requests_running{engine="0"} 0.0\n'])
def test_what_a_server_does_not_count_is_unknown_and_no_reason(text):
    checked = cross_check(observed(), text, text)
    assert checked.reasons == ()
    assert checked.counts["server"] == {"num_requests": None, "ttft_s": None, "tpot_s": None}


@pytest.mark.parametrize("num_before", [90, 2])
def test_a_server_that_began_anew_is_not_compared(num_before):
    before = metrics(num=num_before, ttft_s=30.0, gap_s=0.1)
    assert codes(observed(), before, metrics(num=6, ttft_s=9.0, gap_s=0.1)) == []


def test_a_count_that_lags_behind_is_not_compared():
    assert codes(observed(), metrics(**WARM), later(ttft_s=9.0, gap_s=0.002, num=2)) == []
