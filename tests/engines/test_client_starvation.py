"""The client's own share: waiting for a processor, being busy, and the real-time turn."""

import os
from dataclasses import replace

import pytest

from runners.engines.limits import MAX_CPU_SHARE, MAX_WAIT_SHARE
from runners.engines.starvation import ClientTime, ThreadTime, between, judge_client, read_thread, scheduled

IDLE = ClientTime(span_s=2.0, cpu_s=0.1, wait_s=0.002, turns=400, scheduler="ordinary")


def codes(client, ttft_s=0.020, max_wait_share=MAX_WAIT_SHARE):
    return [reason.code for reason in judge_client(client, ttft_s, max_wait_share)]


def test_an_idle_machine_gives_no_reason():
    assert codes(IDLE) == []


def test_waiting_for_a_processor_is_a_reason():
    (reason,) = judge_client(replace(IDLE, wait_s=0.24, span_s=0.4), 0.270, MAX_WAIT_SHARE)
    assert reason.code == "client_starved"
    assert "waited 240 ms for a processor in 400 ms (60.0%, at most 3.0%)" in reason.text


@pytest.mark.parametrize(("wait_s", "expected"), [(0.059, []), (0.061, ["client_starved"])])
def test_the_limit_of_waiting_is_a_share_of_the_time(wait_s, expected):
    assert codes(replace(IDLE, wait_s=wait_s, turns=4000)) == expected


def test_few_but_long_waits_spoil_first_tokens():
    """2 % of the time, but 2 ms before each turn: a tenth of the time to the first token."""
    assert codes(replace(IDLE, wait_s=0.04, turns=20)) == ["client_starved"]
    assert codes(replace(IDLE, wait_s=0.04, turns=20), ttft_s=0.200) == []
    assert codes(replace(IDLE, wait_s=0.04, turns=20), ttft_s=None) == []


def test_who_allows_more_waiting_gets_more():
    assert codes(replace(IDLE, wait_s=1.9), max_wait_share=1.0) == []


def test_a_client_that_is_always_busy_is_a_reason():
    assert codes(replace(IDLE, cpu_s=2.0 * MAX_CPU_SHARE + 0.01)) == ["client_starved"]
    assert codes(replace(IDLE, cpu_s=2.0 * MAX_CPU_SHARE - 0.01)) == []


def test_an_unknown_account_is_no_reason_and_no_zero():
    assert codes(None) == []
    nothing = ThreadTime(at_ns=0, cpu_ns=0, wait_ns=0, turns=0)
    assert between(None, nothing, "ordinary") is None
    assert between(nothing, replace(nothing, at_ns=5), "ordinary") is None  # a kernel that does not count


def test_differences_are_taken():
    before = ThreadTime(at_ns=1_000_000_000, cpu_ns=500_000_000, wait_ns=100_000_000, turns=10)
    after = ThreadTime(at_ns=3_000_000_000, cpu_ns=700_000_000, wait_ns=150_000_000, turns=30)
    client = between(before, after, "ordinary")
    assert client == ClientTime(span_s=2.0, cpu_s=0.2, wait_s=0.05, turns=20, scheduler="ordinary")
    assert (client.wait_share, client.cpu_share) == (0.025, 0.1)


def test_the_kernels_account_is_read(tmp_path):
    path = tmp_path / "schedstat"
    path.write_text("36519796 29401616 27\n")
    read = read_thread(path)
    assert (read.cpu_ns, read.wait_ns, read.turns) == (36519796, 29401616, 27)


@pytest.mark.parametrize("text", ["", "12 x 3", "12 3"])
def test_what_cannot_be_read_is_unknown(tmp_path, text):
    (tmp_path / "schedstat").write_text(text)
    assert read_thread(tmp_path / "schedstat") is None
    assert read_thread(tmp_path / "missing") is None


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
