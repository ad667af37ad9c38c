"""The level of each round of a warm-up: what it is the time of, and when two are one."""

import pytest
from client_cases import a_load, an_answer, exchange_of

from runners.engines.loads import hint_of, is_steady, level_of, warmup_record
from runners.engines.measuring import Sent, observe


def a_round(*answers):
    sent = Sent(exchanges=[exchange_of() for _ in answers], late={}, client=None, scheduler="ordinary")
    return observe(answers, sent, a_load(num_requests=len(answers)))


def test_the_level_is_a_token_s_time_and_a_request_s_where_all_tokens_come_at_once():
    assert level_of(a_round(an_answer(first_ms=10, gap_ms=2))) == ("tpot_s", pytest.approx(0.002))
    at_once = an_answer(first_ms=10, num=1)
    assert level_of(a_round(at_once)) == ("e2e_s", pytest.approx(0.010))


def test_seconds_stand_under_the_name_of_what_they_are_the_time_of():
    record = warmup_record(4, [("e2e_s", 0.5), ("e2e_s", 0.505)])
    assert "tpot_s" not in record
    assert (record["e2e_s"], record["found"], record["iterations"]) == ([0.5, 0.505], True, 8)
    assert record["spread"] == pytest.approx(0.0025 / 0.5025)


def test_rounds_of_two_kinds_are_neither_steady_nor_one_spread():
    """The same number twice, once of a token and once of a request: no level at all."""
    levels = [("tpot_s", 0.1), ("e2e_s", 0.1)]
    assert not is_steady(levels)
    record = warmup_record(4, levels)
    assert (record["tpot_s"], record["e2e_s"], record["found"], record["spread"]) == ([0.1], [0.1], False, None)


@pytest.mark.parametrize(("earlier", "later", "steady"), [(0.1, 0.1021, False), (0.1, 0.1019, True)])
def test_two_rounds_within_two_percent_are_one_level(earlier, later, steady):
    """0.0021 / 0.1021 is 2.06 %, 0.0019 / 0.1019 is 1.86 %."""
    assert is_steady([("tpot_s", earlier), ("tpot_s", later)]) == steady
    assert not is_steady([("tpot_s", later)])


def test_a_model_that_lacks_the_ids_of_the_shipped_prompts_is_told_what_to_do():
    assert "--set text_prompts=true" in hint_of("400: Token id 999 is out of vocabulary")
    assert hint_of("500: CUDA error") == ""
