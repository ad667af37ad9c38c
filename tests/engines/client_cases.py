"""Streams as bytes, exchanges made of them, and the emitter as a process, for the tests of an engine's client."""

import contextlib
import http.client
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from runners.engines.answers import read_answer
from runners.engines.records import Answer, Arrival, Endpoint, Exchange, Load, Prompt
from runners.engines.wires import find

MS = 1_000_000
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
PROMPT = Prompt(ids=(11, 12, 13), text="say a")
DONE = "[DONE]"
FINISH = {"choices": [{"text": "", "finish_reason": "length"}]}


def sse(said: object) -> bytes:
    return b"data: " + (said if isinstance(said, str) else json.dumps(said)).encode() + b"\n\n"


def chunked(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def token(text: str = " a", ids: Sequence[int] | None = None, finish: str | None = None) -> dict:
    """One event of /v1/completions; without ids as of a server that gives none."""
    own = {} if ids is None else {"token_ids": list(ids)}
    return {"choices": [{"text": text, "finish_reason": finish, **own}]}


def usage(num: int) -> dict:
    return {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": num}}


def exchange_of(*events: object, head: bytes = HEAD, tail: bytes = b"0\r\n\r\n", error: str = "") -> Exchange:
    """Sent at 0 ms, the head at 1 ms, event k (from 0) in a read of its own at 10 + k ms, the tail 1 ms later."""
    frame = chunked if b"chunked" in head else bytes
    reads = [(1 * MS, head)]
    reads += [((10 + place) * MS, frame(sse(said))) for place, said in enumerate(events)]
    end_ns = (10 + len(events)) * MS
    if tail:
        reads.append((end_ns, tail))
    return Exchange(scheduled_ns=0, sent_ns=0, ended_ns=end_ns, reads=tuple(reads), error=error)


def answer_to(*events: object, wire: str = "completions", prompt: Prompt = PROMPT, **exchange: object) -> Answer:
    return read_answer(exchange_of(*events, **exchange), find(wire), prompt)


def a_load(**changes: object) -> Load:
    given = {"prompts": (PROMPT,), "num_requests": 4, "num_tokens": 8, "timeout_s": 30.0, "max_wait_share": 1000.0}
    return Load(**{**given, **changes})


def an_answer(
    *, started_ms: float = 1, first_ms: float = 10, gap_ms: float = 2, num: int = 8, error: str = ""
) -> Answer:
    """One token an event: the first `first_ms` after it was sent, the others every `gap_ms`."""
    times = [round((started_ms + first_ms + place * gap_ms) * MS) for place in range(num)]
    return Answer(
        started_ns=round(started_ms * MS),
        first_ns=times[0],
        last_ns=times[-1],
        ended_ns=times[-1],
        num_tokens=num,
        arrivals=tuple(Arrival(at_ns=at_ns, num_tokens=1) for at_ns in times),
        finish="length",
        error=error,
    )


class Emitter:
    """The running emitter: where it is, what it shall do, what it did."""

    def __init__(self, port: int, pid: int) -> None:
        self.pid = pid
        self.endpoint = Endpoint(host="127.0.0.1", port=port, model="emitter")

    def play(self, **scenario: object) -> None:
        self.report()
        self._ask("POST", "/scenario", json.dumps(scenario))

    def report(self) -> list[dict]:
        return self._ask("GET", "/report")

    def _ask(self, method: str, path: str, body: str | None = None):
        connection = http.client.HTTPConnection(self.endpoint.host, self.endpoint.port, timeout=60)
        try:
            connection.request(method, path, body=body)
            return json.loads(connection.getresponse().read())
        finally:
            connection.close()


@contextlib.contextmanager
def emitting() -> Iterator[Emitter]:
    """An emitter in a process of its own; it ends with its standard input."""
    command = [sys.executable, str(Path(__file__).with_name("emitter.py"))]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        yield Emitter(int(process.stdout.readline()), process.pid)
    finally:
        process.stdin.close()
        process.stdout.close()
        try:
            process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
