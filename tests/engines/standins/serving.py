"""HTTP for stand-ins, on asyncio alone: routes, streams of server-sent events, tokens at times of a plan."""

import asyncio
import json
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from standins.script import Script, note_memory

AWAKE_MIB, ASLEEP_MIB = 1000, 150

Json = dict[str, Any]


@dataclass(kw_only=True)
class State:
    """What a server counts since it began."""

    script: Script
    speculates: bool
    began_s: float = field(default_factory=time.monotonic)
    num_requests: int = 0
    completed: int = 0
    generated: int = 0
    cycles: int = 0
    running: int = 0
    first_s: float = 0.0  # of all completed requests together
    between_s: float = 0.0
    accept: tuple[float, ...] = ()
    profiler: Json = field(default_factory=dict)
    profiled_from: int = 0
    asleep: bool = False
    busy_until_s: float = 0.0  # the last request is still being put away
    body_bytes: int = 0  # of the last request

    @property
    def is_ready(self) -> bool:
        return time.monotonic() - self.began_s >= self.script.load_s


@dataclass(frozen=True, kw_only=True)
class Event:
    """What a request got so far."""

    ids: list[int]
    cycles: int
    is_last: bool


Answer = tuple[int, str, bytes]  # status, content type, body
Stream = AsyncIterator[bytes]
Route = Callable[[State, Json], "Answer | Stream"]


def as_json(found: Any, status: int = 200) -> Answer:
    return status, "application/json", json.dumps(found).encode()


def as_text(text: str, status: int = 200) -> Answer:
    return status, "text/plain", text.encode()


def sse(found: Any) -> bytes:
    return f"data: {found if isinstance(found, str) else json.dumps(found)}\n\n".encode()


async def tokens(state: State, prompt: Any, num_tokens: int) -> AsyncIterator[Event]:
    """Events at their times, and the misbehaviour that falls into a stream: Cut closes it."""
    script = state.script
    state.num_requests += 1
    number = state.num_requests
    wanted = min(num_tokens, script.stop_after or num_tokens)
    seed = sum(map(ord, json.dumps(prompt)))
    ids: list[int] = []
    begun_s = first_at_s = time.monotonic()
    cycles, credit, due_s = 0, 0.0, begun_s + script.first_s
    while len(ids) < wanted:
        await asyncio.sleep(max(0.0, due_s - time.monotonic()))
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
    state.completed += 1
    state.first_s += first_at_s - begun_s
    state.between_s += time.monotonic() - first_at_s
    state.busy_until_s = time.monotonic() + script.busy_s
    state.generated += len(ids)
    state.cycles += cycles


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
        asyncio.get_running_loop().call_later(state.script.dies_asleep_s, os._exit, 9)


def wake_up(state: State) -> None:
    if not state.script.drowsy:
        state.asleep = False
        note_memory(state.script, AWAKE_MIB)


def is_refused(state: State) -> bool:
    """Spread evenly over the requests."""
    share = state.script.fail_share
    return int((state.num_requests + 1) * share) > int(state.num_requests * share)


async def serve(state: State, routes: dict[str, Route], host: str, port: int) -> None:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await answer(state, routes, reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(handle, host, port)
    note_memory(state.script, AWAKE_MIB)
    print(f"standin: serving on {port}", flush=True)
    async with server:
        await server.serve_forever()


async def answer(
    state: State, routes: dict[str, Route], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    length = next((int(line[15:]) for line in head.splitlines() if line.lower().startswith("content-length:")), 0)
    body = await reader.readexactly(length)
    state.body_bytes = length
    path = head.split()[1].partition("?")[0]
    route = None if path in state.script.missing else routes.get(path)
    found = as_json({"detail": "Not Found"}, 404) if route is None else route(state, json.loads(body or b"{}"))
    if isinstance(found, tuple):
        await send_whole(writer, *found)
    else:
        await send_stream(state, writer, found)


async def send_whole(writer: asyncio.StreamWriter, status: int, kind: str, body: bytes) -> None:
    head = f"HTTP/1.1 {status} X\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    writer.write(head.encode() + body)
    await writer.drain()


async def send_stream(state: State, writer: asyncio.StreamWriter, events: Stream) -> None:
    head = ("HTTP/1.1 200 OK", "Content-Type: text/event-stream", "Transfer-Encoding: chunked", "Connection: close")
    writer.write("\r\n".join([*head, "", ""]).encode())
    state.running += 1
    try:
        async for event in events:
            writer.write(f"{len(event):x}\r\n".encode() + event + b"\r\n")
            await writer.drain()
    finally:
        state.running -= 1
    writer.write(b"0\r\n\r\n")
    await writer.drain()


def run(serving: Awaitable[None]) -> None:
    asyncio.run(serving)  # type: ignore[arg-type]
