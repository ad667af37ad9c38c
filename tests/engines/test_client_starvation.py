"""The client's own share: waiting for a processor, being busy, and the real-time turn."""

import os
from dataclasses import replace

import pytest
from client_cases import MS, a_load, an_answer

from runners.engines.limits import MAX_CPU_SHARE, MAX_WAIT_SHARE
from runners.engines.measuring import Sent, observe
from runners.engines.records import Exchange
from runners.engines.starvation import (
    ClientTime,
    ThreadTime,
    account,
    between,
    judge_client,
    judge_reads,
    lateness,
    read_thread,
    scheduled,
)

IDLE = ClientTime(span_s=2.0, cpu_s=0.1, wait_s=0.002, turns=400)
BEFORE = ThreadTime(at_ns=0, cpu_ns=0, wait_ns=100 * MS, turns=10)


def reads_of(*rows):
    """An exchange by (ms, wait in ms since BEFORE, turns so far) of its reads."""
    return Exchange(
        scheduled_ns=0,
        sent_ns=0,
        ended_ns=0,
        reads=tuple((at * MS, b"x") for at, _, _ in rows),
        accounts=tuple(b"5 %d %d\n" % ((100 + wait) * MS, turns) for _, wait, turns in rows),
    )


def late_reads(answers, first_ms, others_ms):
    """Lateness by read: of the first tokens, and of all others."""
    late = {one.at_ns: others_ms / 1e3 for answer in answers for one in answer.arrivals}
    return {**late, **{answer.first_ns: first_ms / 1e3 for answer in answers}}


def found(answers, late, max_share=MAX_WAIT_SHARE):
    return [(reason.code, reason.text.partition(" were")[0]) for reason in judge_reads(answers, late, max_share)]


def test_a_read_is_late_by_the_wait_before_its_turn():
    late = lateness(BEFORE, [reads_of((10, 2, 11), (20, 2, 12), (30, 7, 13))])
    assert late == {10 * MS: 0.002, 20 * MS: 0.0, 30 * MS: 0.005}


def test_reads_of_one_turn_were_late_together():
    streams = [reads_of((10, 4, 11), (13, 4, 12)), reads_of((11, 4, 11)), reads_of((12, 4, 11))]
    assert lateness(BEFORE, streams) == {10 * MS: 0.004, 11 * MS: 0.004, 12 * MS: 0.004, 13 * MS: 0.0}


def test_waits_of_turns_without_a_read_are_counted_to_the_next():
    assert lateness(BEFORE, [reads_of((10, 1, 11), (20, 9, 15))])[20 * MS] == 0.008


def test_lateness_is_unknown_where_the_kernel_does_not_count():
    assert lateness(None, [reads_of((10, 2, 11))]) == {}
    assert lateness(BEFORE, [reads_of((10, 0, 0))]) == {}
    assert lateness(BEFORE, [replace(reads_of((10, 2, 11)), accounts=())]) == {}
    assert lateness(BEFORE, [replace(reads_of((10, 2, 11)), accounts=(b"1 x 3",))]) == {}
    assert found([an_answer()], {}) == []


def test_reads_in_time_give_no_reason():
    answers = [an_answer(first_ms=50, gap_ms=10)] * 3
    assert found(answers, late_reads(answers, 0.02, 0.02)) == []


@pytest.mark.parametrize(("late_ms", "expected"), [(1.49, []), (1.51, [("client_starved", "first tokens")])])
def test_first_tokens_may_be_late_by_a_share_of_their_time(late_ms, expected):
    answers = [an_answer(first_ms=50, gap_ms=10, num=200)] * 3
    assert found(answers, late_reads(answers, late_ms, 0.02)) == expected


@pytest.mark.parametrize(("late_ms", "expected"), [(0.29, []), (0.31, [("client_starved", "tokens")])])
def test_tokens_may_be_late_by_a_share_of_their_gap(late_ms, expected):
    answers = [an_answer(first_ms=50, gap_ms=10)] * 3
    assert found(answers, late_reads(answers, late_ms, late_ms)) == expected


def test_one_late_first_token_of_many_moves_no_median():
    answers = [an_answer(started_ms=start, first_ms=50, gap_ms=10, num=200) for start in (1, 2.5, 4.7)]
    late = {**late_reads(answers, 0.02, 0.02), answers[0].first_ns: 0.040}
    assert found(answers, late) == []


def test_a_tenth_of_a_millisecond_is_nothing():
    answers = [an_answer(first_ms=1, gap_ms=1)] * 3
    assert found(answers, late_reads(answers, 0.09, 0.09)) == []
    assert found(answers, late_reads(answers, 0.11, 0.11)) == [("client_starved", "first tokens")]


def test_a_whole_answer_read_at_its_end_was_read_late():
    """As seen on a busy machine: 250 ms of waiting in a request of 400 ms."""
    answers = [an_answer(first_ms=380, gap_ms=0.01, num=64)]
    (reason,) = judge_reads(answers, late_reads(answers, 250, 250), MAX_WAIT_SHARE)
    assert "first tokens were read 250.00 ms late, of 380.00 ms" in reason.text
    assert "(65.8%, at most 3.0%)" in reason.text


def test_who_allows_more_waiting_gets_more():
    answers = [an_answer(first_ms=50, gap_ms=10)] * 3
    assert found(answers, late_reads(answers, 8, 8), max_share=1.0) == []


def test_a_client_that_is_always_busy_is_a_reason():
    assert [one.code for one in judge_client(replace(IDLE, cpu_s=2.0 * MAX_CPU_SHARE + 0.01))] == ["client_starved"]
    assert judge_client(replace(IDLE, cpu_s=2.0 * MAX_CPU_SHARE - 0.01)) == ()


def test_a_busy_client_voids_what_it_saw():
    busy = Sent(exchanges=[reads_of()], late={}, client=replace(IDLE, cpu_s=1.9), scheduler="ordinary")
    seen = observe((an_answer(),), busy, a_load(num_requests=1))
    assert [one.code for one in seen.reasons] == ["client_starved"]
    assert seen.counts["client"]["cpu_share"] == 0.95


def test_an_unknown_account_is_no_reason_and_no_zero():
    assert judge_client(None) == ()
    nothing = ThreadTime(at_ns=0, cpu_ns=0, wait_ns=0, turns=0)
    assert between(None, nothing) is None
    assert between(nothing, replace(nothing, at_ns=5)) is None  # a kernel that does not count


def test_differences_are_taken():
    before = ThreadTime(at_ns=1_000_000_000, cpu_ns=500_000_000, wait_ns=100_000_000, turns=10)
    after = ThreadTime(at_ns=3_000_000_000, cpu_ns=700_000_000, wait_ns=150_000_000, turns=30)
    client = between(before, after)
    assert client == ClientTime(span_s=2.0, cpu_s=0.2, wait_s=0.05, turns=20)
    assert (client.wait_share, client.cpu_share) == (0.025, 0.1)


def test_the_kernels_account_is_read_anew_each_time(tmp_path):
    path = tmp_path / "schedstat"
    path.write_text("36519796 29401616 27\n")
    with account(path) as opened:
        first = read_thread(opened)
        path.write_text("36519797 29401616 28\n")
        second = read_thread(opened)
    assert (first.cpu_ns, first.wait_ns, first.turns) == (36519796, 29401616, 27)
    assert (second.cpu_ns, second.turns) == (36519797, 28)


@pytest.mark.parametrize("text", ["", "12 x 3", "12 3"])
def test_what_cannot_be_read_is_unknown(tmp_path, text):
    (tmp_path / "schedstat").write_text(text)
    with account(tmp_path / "schedstat") as opened:
        assert read_thread(opened) is None
    with account(tmp_path / "missing") as opened:
        assert opened is None
        assert read_thread(opened) is None


def test_a_real_time_turn_is_given_back_or_said_to_be_refused():
    before = os.sched_getscheduler(0)
    with scheduled(True) as how:
        inside = os.sched_getscheduler(0)
    assert os.sched_getscheduler(0) == before
    assert (how == "SCHED_RR") == (inside == os.SCHED_RR)
    assert how == "SCHED_RR" or how.startswith("ordinary: SCHED_RR was asked for and not granted")


def test_a_refused_real_time_turn_is_said(monkeypatch):
    def refuse(*_):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "sched_setscheduler", refuse)
    with scheduled(True) as how:
        assert how.startswith("ordinary: SCHED_RR was asked for and not granted (PermissionError")


def test_without_being_asked_nothing_is_changed():
    before = os.sched_getscheduler(0)
    with scheduled(False) as how:
        assert (how, os.sched_getscheduler(0)) == ("ordinary", before)
