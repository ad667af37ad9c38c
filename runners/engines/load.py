"""When requests are sent: a closed loop of fixed concurrency, or an open loop of Poisson arrivals.

Must not know what is sent or what an answer is worth; it only stops early where a load can no longer become valid.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence

from runners.engines.client import clock_ns
from runners.engines.records import Exchange

Send = Callable[[int, int], Awaitable[Exchange]]  # (number of the request, its scheduled_ns) -> what went over the wire


def arrival_offsets_s(num: int, rate_per_s: float, seed: int) -> list[float]:
    """Seconds from the start at which each request is to be sent: gaps are exponential with mean 1 / rate."""
    coin = random.Random(seed)
    offsets, at = [], 0.0
    for _ in range(num):
        at += coin.expovariate(rate_per_s)
        offsets.append(at)
    return offsets


async def run_closed(send: Send, *, num: int, concurrency: int, max_failed: int) -> list[Exchange | None]:
    """`concurrency` requests under way until `num` have been sent; None for what was not sent any more."""
    exchanges: list[Exchange | None] = [None] * num
    numbers = iter(range(num))
    failed: list[int] = []

    async def stream() -> None:
        for number in numbers:
            exchange = exchanges[number] = await send(number, clock_ns())
            if exchange.error:
                failed.append(number)
            if len(failed) > max_failed:
                return

    async with asyncio.TaskGroup() as group:
        for _ in range(min(concurrency, num)):
            group.create_task(stream())
    return exchanges


async def run_open(send: Send, *, offsets_s: Sequence[float], max_failed: int) -> list[Exchange | None]:
    """Each request at its own time, however many are unfinished; None for what was not sent any more."""
    exchanges: list[Exchange | None] = [None] * len(offsets_s)
    failed: list[int] = []
    begin_ns = clock_ns()

    async def request(number: int, due_ns: int) -> None:
        exchange = exchanges[number] = await send(number, due_ns)
        if exchange.error:
            failed.append(number)

    async with asyncio.TaskGroup() as group:
        for number, offset_s in enumerate(offsets_s):
            due_ns = begin_ns + round(offset_s * 1e9)
            await asyncio.sleep(max(0.0, (due_ns - clock_ns()) / 1e9))
            if len(failed) > max_failed:
                break
            group.create_task(request(number, due_ns))
    return exchanges
