"""Reasons against a load's numbers, and none against a load that was served as asked."""

import random
from dataclasses import replace

import pytest
from client_cases import MS, a_load, an_answer

from runners.engines.limits import MAX_FAILED_SHARE, MAX_SHORT_SHARE
from runners.engines.records import Exchange
from runners.engines.validity import came_at_once, count_errors, find_reasons, unfinished


def codes(answers, exchanges=(), **load):
    return [reason.code for reason in find_reasons(answers, exchanges, a_load(**load))]


def test_a_load_served_as_asked_has_no_reason():
    assert codes([an_answer() for _ in range(4)]) == []


@pytest.mark.parametrize(("num", "expected"), [(1, []), (2, ["requests_failed"])])
def test_too_many_failed_requests_are_a_reason(num, expected):
    assert MAX_FAILED_SHARE == 0.01
    answers = [an_answer(error="cut: x" if place < num else "") for place in range(100)]
    assert codes(answers) == expected


def test_failures_make_no_load_faster():
    """Every second request refused at once: what is left looks like half the load, and is invalid."""
    answers = [an_answer(error="http: status 503" if place % 2 else "") for place in range(40)]
    (reason,) = find_reasons(answers, (), a_load())
    assert (reason.code, count_errors(answers)) == ("requests_failed", {"http": 20})
    assert "20 of 40 requests: http: status 503" in reason.text


def test_all_failed_is_a_reason_and_no_exception():
    assert codes([an_answer(error="connection: refused")] * 3) == ["requests_failed"]


def test_uncountable_answers_have_a_reason_of_their_own():
    assert codes([an_answer(error="uncountable: x")] * 4) == ["tokens_uncounted"]


@pytest.mark.parametrize(("num", "expected"), [(1, []), (2, ["short_answers"])])
@pytest.mark.parametrize("length", [7, 9])
def test_answers_of_another_length_than_asked_are_a_reason(num, expected, length):
    assert MAX_SHORT_SHARE == 0.01
    assert codes([an_answer(num=length if place < num else 8) for place in range(100)]) == expected


def test_ends_of_the_models_own_are_accepted_if_asked_for():
    assert codes([an_answer(num=5)] * 4, ignore_eos=False) == []


def test_answers_that_come_whole_at_their_end_mean_a_starved_client():
    whole = [an_answer(first_ms=270, gap_ms=0.01, num=64)] * 4
    assert codes(whole, num_tokens=64) == ["client_starved"]


def test_a_fast_engine_is_no_starved_client():
    assert not came_at_once(an_answer(first_ms=270, gap_ms=0.2, num=64))
    assert not came_at_once(an_answer(first_ms=0.2, gap_ms=0.09, num=64))  # the first token came early
    assert not came_at_once(an_answer(first_ms=270, gap_ms=0.01, num=4))  # a speculative cycle


def spread(times_ms, e2e_ms, *, late_ms=0.2):
    """Answers and exchanges of an open loop: request k is due at times_ms[k] and takes e2e_ms[k]."""
    answers, exchanges = [], []
    for due, took in zip(times_ms, e2e_ms, strict=True):
        gap = took / 8
        answers.append(an_answer(started_ms=due + late_ms, first_ms=gap, gap_ms=gap))
        ended_ns = round((due + late_ms + took) * MS)
        begin = {"scheduled_ns": round(due * MS), "sent_ns": round((due + late_ms) * MS)}
        exchanges.append(Exchange(**begin, ended_ns=ended_ns, reads=()))
    return answers, exchanges


def queued(times_ms, service_ms):
    """End-to-end times of one server that takes `service_ms` for each request, in order of arrival."""
    free, took = 0.0, []
    for due in times_ms:
        free = max(free, due) + service_ms
        took.append(free - due)
    return took


def poisson_ms(num, mean_ms, seed):
    coin, at, times = random.Random(seed), 0.0, []
    for _ in range(num):
        at += coin.expovariate(1 / mean_ms)
        times.append(at)
    return times


@pytest.mark.parametrize("seed", range(5))
def test_a_queue_that_grows_is_past_saturation(seed):
    times = poisson_ms(60, 10, seed)
    assert codes(*spread(times, queued(times, 15)), rate_per_s=100, num_requests=60) == ["saturated"]


@pytest.mark.parametrize("seed", range(5))
def test_a_server_that_keeps_up_is_not_saturated(seed):
    times = poisson_ms(60, 10, seed)
    assert codes(*spread(times, queued(times, 2)), rate_per_s=100, num_requests=60) == []


@pytest.mark.parametrize("seed", range(5))
def test_slow_requests_side_by_side_are_no_growing_queue(seed):
    times = poisson_ms(60, 10, seed)  # thirty under way at once, all alike
    assert codes(*spread(times, [300.0] * 60), rate_per_s=100, num_requests=60) == []


def test_a_queue_that_grows_behind_long_answers_is_seen_in_what_is_unfinished():
    times = [10.0 * place for place in range(3000)]
    took = [500 + 0.15 * place for place in range(3000)]  # 500 to 950 ms: never twice as long as at first
    (reason,) = find_reasons(*spread(times, took), a_load(rate_per_s=100, num_requests=3000))
    assert reason.code == "saturated"
    assert "unfinished" in reason.text


def test_unfinished_requests_are_counted_when_each_is_due():
    _, exchanges = spread([0, 10, 20, 30], [25, 5, 100, 1], late_ms=0)
    assert unfinished(exchanges) == [0, 1, 1, 1]


def test_a_closed_loop_cannot_be_saturated():
    times = poisson_ms(60, 10, 1)
    assert codes(*spread(times, queued(times, 15))) == []


@pytest.mark.parametrize(("num", "expected"), [(3, []), (4, ["client_starved"])])
def test_requests_sent_late_by_the_client_are_a_reason(num, expected):
    answers, exchanges = spread([10.0 * place for place in range(60)], [5.0] * 60)
    late = [
        replace(exchange, sent_ns=exchange.scheduled_ns + 6 * MS) if place < num else exchange
        for place, exchange in enumerate(exchanges)
    ]
    assert codes(answers, late, rate_per_s=100, num_requests=60) == expected
