"""Numbers of answers, worked out by hand."""

from dataclasses import replace

import pytest
from client_cases import MS, an_answer

from runners.engines import figures
from runners.engines.answers import UNSENT
from runners.engines.records import Answer, Arrival


def grouped(*events, started_ms=0, num=None):
    """An answer by (ms, tokens) of its events; tokens None: the event does not say."""
    arrivals = tuple(Arrival(at_ns=at * MS, num_tokens=tokens) for at, tokens in events)
    total = sum(one.num_tokens or 0 for one in arrivals) if num is None else num
    first, last = arrivals[0].at_ns, arrivals[-1].at_ns
    return Answer(started_ns=started_ms * MS, first_ns=first, last_ns=last, num_tokens=total, arrivals=arrivals)


def test_one_token_an_event():
    answer = an_answer(started_ms=5, first_ms=20, gap_ms=4, num=11)
    assert figures.ttft_s(answer) == pytest.approx(0.020)
    assert figures.tpot_s(answer) == pytest.approx(0.004)
    assert figures.e2e_s(answer) == pytest.approx(0.060)
    assert figures.token_gaps_s(answer) == pytest.approx([0.004] * 10)


def test_several_tokens_an_event_share_its_gap():
    answer = grouped((10, 1), (16, 3), (20, 1))
    assert figures.tpot_s(answer) == pytest.approx(0.010 / 4)
    assert figures.token_gaps_s(answer) == pytest.approx([0.002, 0.002, 0.002, 0.004])


def test_tokens_of_the_first_event_do_not_make_the_others_fast():
    assert figures.tpot_s(grouped((10, 4), (16, 3))) == pytest.approx(0.002)


def test_where_events_do_not_say_their_tokens_the_first_is_taken_for_one():
    answer = grouped((10, None), (16, None), (20, None), num=6)
    assert figures.tpot_s(answer) == pytest.approx(0.002)
    assert figures.token_gaps_s(answer) is None


def test_an_answer_in_one_event_has_no_time_per_token():
    assert figures.tpot_s(grouped((10, 8))) is None
    assert figures.tpot_s(grouped((10, None), num=8)) is None


def test_values_are_medians_over_requests():
    answers = [an_answer(first_ms=first, gap_ms=gap) for first, gap in ((10, 2), (30, 4), (11, 3))]
    values = figures.values(answers)
    assert values["ttft_s"] == pytest.approx(0.011)
    assert values["tpot_s"] == pytest.approx(0.003)
    assert values["e2e_s"] == pytest.approx(0.032)  # 10 + 14, 30 + 28, 11 + 21 ms
    assert values["itl_s"] == pytest.approx(0.003)


def test_throughput_goes_from_the_first_request_to_the_last_token():
    first = an_answer(started_ms=1, first_ms=10, gap_ms=10, num=10)
    second = an_answer(started_ms=51, first_ms=60, gap_ms=10)  # its last token at 51 + 60 + 7 * 10 = 181 ms
    assert figures.throughput([first, second]) == pytest.approx(18 / 0.180)


def test_failed_requests_bring_no_tokens_but_their_time_counts():
    good = an_answer(started_ms=1, first_ms=10, gap_ms=10, num=10)
    bad = replace(an_answer(started_ms=1), ended_ns=401 * MS, error="cut: x")
    assert figures.throughput([good, bad]) == pytest.approx(10 / 0.400)
    assert figures.samples([good, bad])["ttft_s"] == pytest.approx([0.010])


def test_a_request_that_was_never_sent_has_no_beginning():
    good = an_answer(started_ms=1, first_ms=10, gap_ms=10, num=10)
    assert figures.throughput([good, UNSENT]) == pytest.approx(10 / 0.100)


def test_what_cannot_be_known_has_no_entry():
    assert figures.values([an_answer(error="cut: x")]) == {}
    untold = grouped((10, None), (20, None), started_ms=1, num=5)
    assert set(figures.values([untold])) == {"ttft_s", "tpot_s", "e2e_s", "output_throughput"}


def test_one_answer_without_counts_leaves_the_gaps_unknown():
    assert "itl_s" not in figures.values([an_answer(), grouped((10, None), (20, None), num=5)])


def test_the_digest_knows_the_order():
    one, two = replace(an_answer(), digest="ids:a"), replace(an_answer(), digest="ids:b")
    assert figures.digest([one, two]) != figures.digest([two, one])
    assert figures.digest([one, two]).startswith("ids:")


def test_answers_that_tell_different_things_have_no_digest_together():
    one, two, untold = (replace(an_answer(), digest=digest) for digest in ("ids:a", "text:a", ""))
    assert figures.digest([one, two]) == ""
    assert figures.digest([one, untold]) == ""
