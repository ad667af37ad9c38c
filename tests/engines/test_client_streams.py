"""HTTP and server-sent events taken apart: times are those of the read that completed an event."""

import pytest
from client_cases import HEAD, MS, chunked, exchange_of, sse

from runners.engines.streams import read_body, read_events

LENGTH = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: %d\r\n\r\n"
UNTIL_CLOSED = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"


def events_of(reads, *, is_closed=True):
    return read_events(read_body(reads, is_closed=is_closed).pieces)


def test_each_event_has_the_time_of_its_read():
    exchange = exchange_of({"n": 1}, {"n": 2})
    assert events_of(exchange.reads) == [(10 * MS, '{"n": 1}'), (11 * MS, '{"n": 2}')]


def test_an_event_in_two_reads_has_the_time_of_the_second():
    data = chunked(sse({"n": 1}))
    for cut in range(1, len(data) - 2):  # the last two bytes end the chunk, not the event
        assert events_of([(1, HEAD), (2, data[:cut]), (3, data[cut:])]) == [(3, '{"n": 1}')]


def test_events_that_come_in_one_read_share_its_time():
    data = HEAD + chunked(sse("a") + sse("b")) + chunked(sse("c")) + b"0\r\n\r\n"
    assert events_of([(7, data)]) == [(7, "a"), (7, "b"), (7, "c")]


@pytest.mark.parametrize("size", [1, 2, 7])
def test_any_cutting_of_the_bytes_gives_the_same_events(size):
    data = HEAD + chunked(sse("größe")) + chunked(sse("b")) + b"0\r\n\r\n"
    reads = [(place, data[place : place + size]) for place in range(0, len(data), size)]
    assert [text for _, text in events_of(reads)] == ["größe", "b"]


@pytest.mark.parametrize("head", [LENGTH % (2 * len(sse("a"))), UNTIL_CLOSED])
def test_bodies_without_chunks_are_read(head):
    body = read_body([(1, head), (2, sse("a")), (3, sse("a"))], is_closed=True)
    assert body.problem == ""
    assert read_events(body.pieces) == [(2, "a"), (3, "a")]


@pytest.mark.parametrize(
    ("reads", "is_closed"),
    [
        ([(1, HEAD), (2, chunked(sse("a")))], True),
        ([(1, LENGTH % 100), (2, sse("a"))], True),
        ([(1, HEAD), (2, chunked(sse("a")))], False),
        ([(1, UNTIL_CLOSED), (2, sse("a"))], False),
    ],
    ids=["no last chunk", "shorter than said", "reset", "reset before the end of an unmarked body"],
)
def test_a_body_that_ends_too_early_says_so_and_keeps_what_came(reads, is_closed):
    body = read_body(reads, is_closed=is_closed)
    assert body.problem != ""
    assert read_events(body.pieces) == [(2, "a")]


def test_what_is_no_http_is_a_problem_and_no_exception():
    assert read_body([(1, b"SSH-2.0-server\r\n\r\n")], is_closed=True).problem != ""
    assert read_body([], is_closed=True).status == 0


def test_an_interim_response_is_passed_over():
    reads = [(1, b"HTTP/1.1 100 Continue\r\n\r\n" + HEAD), (2, chunked(sse("a")) + b"0\r\n\r\n")]
    body = read_body(reads, is_closed=True)
    assert (body.status, body.problem, read_events(body.pieces)) == (200, "", [(2, "a")])


def test_lines_end_either_way_and_other_fields_are_left_out():
    first = (1, b": ping\n\nevent: message\r\ndata: a\r\nid: 4\r\n\r\n")
    pieces = [first, (2, b"data:b\ndata: c\n\n"), (3, b"data: d\n")]
    assert read_events(pieces) == [(1, "a"), (2, "b\nc")]


def test_an_event_in_very_many_reads_is_joined_once():
    """40 MB in reads of 1 KiB: joined anew at each of them that would be 800 GB of copying, and no test would end."""
    pieces = [(1, b"data: "), *[(2, b"x" * 1024)] * 40_000, (3, b"\n\n")]
    ((at_ns, data),) = read_events(pieces)
    assert (at_ns, len(data)) == (3, 40_000 * 1024)
