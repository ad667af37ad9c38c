"""A server that sends tokens at known times and tells afterwards when it did; a process of its own, asyncio only.

`python emitter.py` prints its port. POST /scenario sets what later requests get (fields of Scenario), GET /report
returns what they got and forgets it: times by time.perf_counter_ns(), the clock that all processes of a machine share.
"""

import asyncio
import contextlib
import json
import socket
import struct
import sys
import time
from dataclasses import dataclass, field

clock_ns = time.perf_counter_ns
RESET = struct.pack("ii", 1, 0)  # SO_LINGER: closing sends a reset


@dataclass(kw_only=True)
class Scenario:
    """`first_s` after a request, then every `gap_s`, an event with `per_event` tokens."""

    first_s: float = 0.0
    gap_s: float = 0.0
    per_event: int = 1
    num_tokens: int = 0  # 0: as asked
    status: int = 200
    ending: str = "whole"  # or: cut (no last chunk), reset, hang, error (an object in the stream), endless (one event)
    ends_after: int = 0  # events before an ending that is not whole
    fail_from: int = 0  # the ending is for requests from this number on
    usage: bool = True
    ids: bool = True
    done: bool = True
    held_back: bool = False  # everything in one go after `first_s`
    serial: bool = False  # one request at a time: the others queue


@dataclass(kw_only=True)
class Server:
    scenario: Scenario = field(default_factory=Scenario)
    report: list = field(default_factory=list)
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)


def main() -> None:
    asyncio.run(serve(Server()))


async def serve(server: Server) -> None:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            await answer(server, reader, writer)
        writer.close()

    listening = await asyncio.start_server(handle, "127.0.0.1", 0, backlog=1024)
    print(listening.sockets[0].getsockname()[1], flush=True)
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    loop.add_reader(sys.stdin, lambda: sys.stdin.read(1) or ended.set())  # nobody outlives who started it
    await ended.wait()


async def answer(server: Server, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    length = next((int(line[15:]) for line in head.split("\r\n") if line.lower().startswith("content-length:")), 0)
    body = json.loads(await reader.readexactly(length) or "{}")
    path = head.split(" ")[1]
    if path == "/scenario":
        server.scenario = Scenario(**body)
        reply(writer, 200, {})
    elif path == "/report":
        reply(writer, 200, server.report)
        server.report = []
    elif server.scenario.serial:
        async with server.turn:
            await stream(server, path, body, writer)
    else:
        await stream(server, path, body, writer)


def reply(writer: asyncio.StreamWriter, status: int, said: object) -> None:
    data = json.dumps(said).encode()
    writer.write(b"HTTP/1.1 %d X\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % (status, len(data)) + data)


async def stream(server: Server, path: str, body: dict, writer: asyncio.StreamWriter) -> None:
    plan = server.scenario
    record = {"body": body, "path": path, "received_ns": clock_ns(), "sent": []}
    server.report.append(record)
    is_struck = len(server.report) > plan.fail_from
    if plan.status != 200 and is_struck:
        return reply(writer, plan.status, {"error": {"message": "planned"}})
    asked = body.get("max_tokens") or body["sampling_params"]["max_new_tokens"]
    events = plan_events(plan, path, plan.num_tokens or asked)
    ending = plan.ending if is_struck else "whole"
    stop = plan.ends_after if ending != "whole" else len(events)
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
    begin_ns = record["received_ns"] + round(plan.first_s * 1e9)
    if plan.held_back:
        await asyncio.sleep(plan.first_s)
        writer.write(b"".join(chunk(event) for _, event in events[:stop]))
        stop = 0
    for number, (count, event) in enumerate(events[:stop]):
        await asyncio.sleep(max(0.0, (begin_ns + round(number * plan.gap_s * 1e9) - clock_ns()) / 1e9))
        record["sent"].append((clock_ns(), count))
        writer.write(chunk(event))
    num = asked if plan.held_back else sum(count for count, _ in events[:stop])
    if ending == "endless":
        await go_on(record, writer)
    await finish(plan, ending, path, num, writer)


async def go_on(record: dict, writer: asyncio.StreamWriter) -> None:
    """One event that never ends, as long as somebody reads it."""
    record["endless_bytes"] = 0
    writer.write(b"6\r\ndata: \r\n")
    for _ in range(200):
        writer.write(b"%x\r\n%s\r\n" % (2**20, b"x" * 2**20))
        await writer.drain()
        record["endless_bytes"] += 2**20


async def finish(plan: Scenario, ending: str, path: str, num: int, writer: asyncio.StreamWriter) -> None:
    if ending == "hang":
        await asyncio.sleep(3600)
    if ending == "reset":
        await writer.drain()
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        writer.transport.abort()
    if ending in ("reset", "cut"):
        return
    if ending == "error":
        writer.write(chunk({"error": {"message": "EngineCore encountered an issue", "code": 500}}))
    elif path != "/generate":
        usage = {"usage": {"prompt_tokens": 3, "completion_tokens": num}} if plan.usage else {}
        writer.write(chunk({"choices": [{"text": "", "finish_reason": "length"}]}) + chunk({"choices": [], **usage}))
    writer.write((b"e\r\ndata: [DONE]\n\n\r\n" if plan.done else b"") + b"0\r\n\r\n")


def plan_events(plan: Scenario, path: str, num: int) -> list[tuple[int, dict]]:
    """(tokens, event) for all tokens, `per_event` in each; ids are 100, 101, …"""
    events = []
    for begin in range(0, num, plan.per_event):
        ids = [100 + place for place in range(begin, min(begin + plan.per_event, num))]
        events.append((len(ids), one_event(plan, path, begin, ids, num)))
    return events


def one_event(plan: Scenario, path: str, begin: int, ids: list[int], num: int) -> dict:
    text = " a" * len(ids)
    if path == "/generate":
        so_far = begin + len(ids)
        finish = {"type": "length", "length": num} if so_far == num else None
        meta = {"completion_tokens": so_far, "finish_reason": finish, "prompt_tokens": 3, "spec_verify_ct": 2}
        return {"text": " a" * so_far, "output_ids": [100 + place for place in range(so_far)], "meta_info": meta}
    said = {"delta": {"content": text}} if path.endswith("chat/completions") else {"text": text}
    return {"choices": [{**said, "finish_reason": None, **({"token_ids": ids} if plan.ids else {})}]}


def chunk(event: dict) -> bytes:
    data = b"data: " + json.dumps(event).encode() + b"\n\n"
    return b"%x\r\n%s\r\n" % (len(data), data)


if __name__ == "__main__":
    main()
