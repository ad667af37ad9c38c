"""Recorded reads to the events of a stream: HTTP/1.1 by h11, server-sent events by hand (WHATWG HTML, section 9.2).

Runs after the measured part. An event has the time of the read that completed it. Must not know what an event means.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import h11

Piece = tuple[int, bytes]  # (time of the read, bytes of the body in it)
Event = tuple[int, str]  # (time of the read that completed it, its data)


@dataclass(frozen=True, kw_only=True)
class Body:
    """`status` 0: no response came. `problem`: why the body is not a whole one, empty if it is."""

    status: int = 0
    content_type: str = ""
    pieces: tuple[Piece, ...] = ()
    problem: str = ""


def read_body(reads: Sequence[Piece], *, is_closed: bool) -> Body:
    """The response in the reads of one connection; `is_closed`: the server closed it in order after the last."""
    connection = h11.Connection(h11.CLIENT)
    head = [("Host", "server"), ("Content-Length", "0"), ("Connection", "close")]
    connection.send(h11.Request(method="POST", target="/", headers=head))
    connection.send(h11.EndOfMessage())
    status, content_type, pieces = 0, "", []
    end = [(reads[-1][0], b"")] if reads and is_closed else []
    try:
        for at_ns, data in (*reads, *end):
            connection.receive_data(data)
            for event in _events(connection):
                if isinstance(event, h11.Response):
                    status, content_type = event.status_code, _content_type(event)
                elif isinstance(event, h11.Data):
                    pieces.append((at_ns, bytes(event.data)))
    except h11.RemoteProtocolError as error:
        problem = str(error)
    else:
        problem = "" if connection.their_state in (h11.DONE, h11.MUST_CLOSE, h11.CLOSED) else "no end of the body"
    return Body(status=status, content_type=content_type, pieces=tuple(pieces), problem=problem)


def _events(connection: h11.Connection) -> Iterable[object]:
    while True:
        event = connection.next_event()
        if event is h11.NEED_DATA or event is h11.PAUSED or isinstance(event, h11.ConnectionClosed):
            return
        yield event


def _content_type(response: h11.Response) -> str:
    return next((bytes(value).decode("latin-1") for name, value in response.headers if name == b"content-type"), "")


def read_events(pieces: Iterable[Piece]) -> list[Event]:
    """The data of each event. Comments and other fields are left out, and so is an event that was not completed."""
    events: list[Event] = []
    rest: list[bytes] = []  # of a line that has not ended: joined once, or one long event would take for ever
    data: list[str] = []
    for at_ns, piece in pieces:
        if b"\n" not in piece:
            rest.append(piece)
            continue
        *lines, begun = b"".join([*rest, piece]).split(b"\n")
        rest = [begun]
        for line in lines:
            line = line.removesuffix(b"\r")
            if line.startswith(b"data:"):
                data.append(line[5:].removeprefix(b" ").decode("utf-8", "replace"))
            elif not line and data:
                events.append((at_ns, "\n".join(data)))
                data = []
    return events
