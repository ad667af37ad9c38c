"""When requests are sent. A stand-in for the wire notes what is under way; nothing here waits for a clock."""

import asyncio

import pytest

from runners.engines.client import clock_ns
from runners.engines.load import arrival_offsets_s, run_closed, run_open
from runners.engines.records import Exchange


class Wire:
    """Answers after a few turns of the loop; requests of `failing` fail."""

    def __init__(self, failing=()):
        self.failing, self.under_way, self.most, self.sent = set(failing), 0, 0, []

    async def send(self, number, scheduled_ns):
        self.sent.append(number)
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        for _ in range(3 + number % 4):
            await asyncio.sleep(0)
        self.under_way -= 1
        error = "ConnectionRefusedError: refused" if number in self.failing else ""
        return Exchange(scheduled_ns=scheduled_ns, sent_ns=clock_ns(), ended_ns=clock_ns(), reads=(), error=error)


def test_the_same_seed_gives_the_same_arrivals():
    assert arrival_offsets_s(50, 10.0, 3) == arrival_offsets_s(50, 10.0, 3)
    assert arrival_offsets_s(50, 10.0, 3) != arrival_offsets_s(50, 10.0, 4)
    assert arrival_offsets_s(80, 10.0, 3)[:50] == arrival_offsets_s(50, 10.0, 3)


@pytest.mark.parametrize("seed", range(4))
def test_arrivals_are_poisson_at_the_rate_asked_for(seed):
    offsets = arrival_offsets_s(4000, 20.0, seed)
    gaps = [later - earlier for earlier, later in zip([0.0, *offsets], offsets, strict=False)]
    mean = sum(gaps) / len(gaps)
    variance = sum((gap - mean) ** 2 for gap in gaps) / (len(gaps) - 1)
    assert mean == pytest.approx(0.05, rel=0.08)  # five standard errors
    assert variance**0.5 == pytest.approx(mean, rel=0.12)  # an exponential's deviation is its mean


@pytest.mark.parametrize("concurrency", [1, 3, 50])
def test_a_closed_loop_keeps_its_concurrency(concurrency):
    wire = Wire()
    exchanges = asyncio.run(run_closed(wire.send, num=20, concurrency=concurrency, max_failed=0))
    assert wire.most == min(concurrency, 20)
    assert sorted(wire.sent) == list(range(20))
    assert None not in exchanges


def test_a_closed_loop_ends_where_it_can_no_longer_become_valid():
    wire = Wire(failing={4})
    exchanges = asyncio.run(run_closed(wire.send, num=20, concurrency=1, max_failed=0))
    assert wire.sent == [0, 1, 2, 3, 4]
    assert exchanges[5:] == [None] * 15


def test_a_few_failures_do_not_end_a_long_load():
    wire = Wire(failing={4, 9})
    assert None not in asyncio.run(run_closed(wire.send, num=200, concurrency=4, max_failed=2))


def test_an_open_loop_sends_without_waiting_for_answers():
    wire = Wire()
    exchanges = asyncio.run(run_open(wire.send, offsets_s=[0.0] * 30, max_failed=0))
    assert wire.most > 1
    assert wire.sent == list(range(30))
    assert None not in exchanges


def test_an_open_loop_sends_nothing_before_its_time():
    wire = Wire()
    offsets = arrival_offsets_s(10, 1000.0, 5)
    begin_ns = clock_ns()
    exchanges = asyncio.run(run_open(wire.send, offsets_s=offsets, max_failed=0))
    assert all(one.scheduled_ns >= begin_ns + at * 1e9 for one, at in zip(exchanges, offsets, strict=True))
    assert all(one.sent_ns >= one.scheduled_ns for one in exchanges)


def test_an_open_loop_ends_where_it_can_no_longer_become_valid():
    wire = Wire(failing={0})
    exchanges = asyncio.run(run_open(wire.send, offsets_s=[0.0, 0.05, 0.1], max_failed=0))
    assert exchanges[1:] == [None, None]
