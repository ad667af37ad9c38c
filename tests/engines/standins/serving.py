"""HTTP for stand-ins, on threads: routes, streams of server-sent events, tokens at times of a plan.

Imports little: every launch of a test starts a server.
"""

import json
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, BinaryIO, NamedTuple

from standins.script import Script, note_memory

AWAKE_MIB, ASLEEP_MIB = 1000, 150
NUM_THREADS = 16  # as many requests at a time

Json = dict[str, Any]


class State:
    """What a server counts since it began."""

    num_requests = 0
    completed = 0
    generated = 0
    cycles = 0
    running = 0
    first_s = 0.0  # of all completed requests together
    between_s = 0.0
    profiled_from = 0
    asleep = False
    busy_until_s = 0.0  # the last request is still being put away
    body_bytes = 0  # of the last request

    def __init__(self, script: Script, *, speculates: bool, accept: tuple[float, ...], profiler: Json) -> None:
        self.script, self.speculates, self.accept, self.profiler = script, speculates, accept, profiler
        self.began_s = time.monotonic()
        self.counting = threading.Lock()

    @property
    def is_ready(self) -> bool:
        return time.monotonic() - self.began_s >= self.script.load_s


class Event(NamedTuple):
    """What a request got so far."""

    ids: list[int]
    cycles: int
    is_last: bool


Answer = tuple[int, str, bytes]  # status, content type, body
Stream = Iterator[bytes]
Route = Callable[[State, Json], "Answer | Stream"]


def as_json(found: Any, status: int = 200) -> Answer:
    return status, "application/json", json.dumps(found).encode()


def as_text(text: str, status: int = 200) -> Answer:
    return status, "text/plain", text.encode()


def sse(found: Any) -> bytes:
    return f"data: {found if isinstance(found, str) else json.dumps(found)}\n\n".encode()


def tokens(state: State, prompt: Any, num_tokens: int) -> Iterator[Event]:
    """Events at their times, and the misbehaviour that falls into a stream: Cut closes it."""
    script = state.script
    number = count_request(state)
    wanted = min(num_tokens, script.stop_after or num_tokens)
    seed = sum(map(ord, json.dumps(prompt)))
    ids: list[int] = []
    begun_s = first_at_s = time.monotonic()
    cycles, credit, due_s = 0, 0.0, begun_s + script.first_s
    while len(ids) < wanted:
        time.sleep(max(0.0, due_s - time.monotonic()))
        step = 1 if not ids and state.speculates else script.tokens_per_event
        if ids and state.speculates:
            credit += state.accept[cycles % len(state.accept)]
            step = int(credit)
            credit -= step
            cycles += 1
        first_at_s = first_at_s if ids else time.monotonic()
        ids += [(seed + place) % 997 + 3 for place in range(len(ids), min(wanted, len(ids) + step))]
        due_s += script.gap_s * (1 if state.speculates else script.tokens_per_event)
        if script.die_after and number >= script.die_at_request and len(ids) >= script.die_after:
            os._exit(9)
        if script.cut_after and len(ids) >= script.cut_after:
            raise ConnectionAbortedError
        if script.error_after and len(ids) >= script.error_after:
            raise RuntimeError("EngineCore encountered an issue.")
        yield Event(ids=list(ids), cycles=cycles, is_last=len(ids) >= wanted)
    with state.counting:
        state.completed += 1
        state.first_s += first_at_s - begun_s
        state.between_s += time.monotonic() - first_at_s
        state.busy_until_s = time.monotonic() + script.busy_s
        state.generated += len(ids)
        state.cycles += cycles


def count_request(state: State) -> int:
    """Its number."""
    with state.counting:
        state.num_requests += 1
        return state.num_requests


def histograms(engine: str, state: State) -> list[str]:
    """Of the times of completed requests, by the names of this version."""
    lines = []
    for name, total in (("time_to_first_token_seconds", state.first_s), (state.script.between, state.between_s)):
        whole = f"{engine}:{name}"
        lines += [f"# HELP {whole} Seconds.", f"# TYPE {whole} histogram"]
        lines += [f'{whole}_bucket{{model_name="m",le="+Inf"}} {state.completed}.0']
        lines += [f'{whole}_count{{model_name="m"}} {state.completed}.0', f'{whole}_sum{{model_name="m"}} {total}']
    return lines


def fall_asleep(state: State) -> None:
    if state.script.sleepless:
        return
    state.asleep = True
    note_memory(state.script, ASLEEP_MIB)
    if state.script.dies_asleep_s:
        threading.Timer(state.script.dies_asleep_s, os._exit, [9]).start()


def wake_up(state: State) -> None:
    if not state.script.drowsy:
        state.asleep = False
        note_memory(state.script, AWAKE_MIB)


def is_refused(state: State) -> bool:
    """Spread evenly over the requests."""
    share = state.script.fail_share
    return int((state.num_requests + 1) * share) > int(state.num_requests * share)


def serve(state: State, routes: dict[str, Route], host: str, port: int) -> None:
    with socket.create_server((host, port), backlog=100) as listener:
        note_memory(state.script, AWAKE_MIB)
        print(f"standin: serving on {port}", flush=True)
        for _ in range(NUM_THREADS):  # beforehand: on a busy machine the first token would wait for its thread
            threading.Thread(target=handle, args=(state, routes, listener), daemon=True).start()
        while True:
            signal.pause()  # their handlers run here


def handle(state: State, routes: dict[str, Route], listener: socket.socket) -> None:
    """One connection after the other."""
    while True:
        connection, _ = listener.accept()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with suppress(ConnectionError, EOFError), connection, connection.makefile("rwb") as stream:
            answer(state, routes, stream)


def answer(state: State, routes: dict[str, Route], stream: BinaryIO) -> None:
    first, *lines = head_of(stream)
    length = next((int(line[15:]) for line in lines if line.lower().startswith("content-length:")), 0)
    body = stream.read(length)
    state.body_bytes = length
    path = first.split()[1].partition("?")[0]
    route = None if path in state.script.missing else routes.get(path)
    found = as_json({"detail": "Not Found"}, 404) if route is None else route(state, json.loads(body or b"{}"))
    if isinstance(found, tuple):
        send_whole(stream, *found)
    else:
        send_stream(state, stream, found)


def head_of(stream: BinaryIO) -> list[str]:
    """The lines up to the empty one. Raises EOFError."""
    lines: list[str] = []
    while line := stream.readline().decode("latin-1"):
        if not line.strip():
            return lines
        lines.append(line.strip())
    raise EOFError


def send_whole(stream: BinaryIO, status: int, kind: str, body: bytes) -> None:
    head = f"HTTP/1.1 {status} X\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    send(stream, head.encode() + body)


def send_stream(state: State, stream: BinaryIO, events: Stream) -> None:
    head = ("HTTP/1.1 200 OK", "Content-Type: text/event-stream", "Transfer-Encoding: chunked", "Connection: close")
    send(stream, "\r\n".join([*head, "", ""]).encode())
    with state.counting:
        state.running += 1
    try:
        for event in events:
            send(stream, f"{len(event):x}\r\n".encode() + event + b"\r\n")
    finally:
        with state.counting:
            state.running -= 1
    send(stream, b"0\r\n\r\n")


def send(stream: BinaryIO, data: bytes) -> None:
    stream.write(data)
    stream.flush()
