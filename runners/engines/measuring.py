"""One load put on a running server: prompts to requests, recorded, taken apart, made into numbers.

Must not start, stop or warm up a server.
"""

import asyncio
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from runners.engines import client, figures, limits, starvation, validity, wires
from runners.engines import load as loading
from runners.engines.answers import UNSENT, read_answer
from runners.engines.records import Answer, Endpoint, Exchange, Load, Observation
from runners.engines.starvation import ClientTime, ThreadTime
from runners.timing import quiet

Recorded = tuple[list[Exchange | None], ThreadTime | None, ThreadTime | None]


@dataclass(frozen=True, kw_only=True)
class Sent:
    """What was sent, and what the client was doing meanwhile. `late`: starvation.lateness; unknown is None or empty."""

    exchanges: Sequence[Exchange]
    late: Mapping[int, float]
    client: ClientTime | None
    scheduler: str


def measure(endpoint: Endpoint, wire: str, load: Load) -> Observation:
    """Send the load over `wire` (a name of wires.WIRES) and say what came back.

    Failed requests, cut streams and a starved client are reasons in the observation, never exceptions.
    Raises ValueError for a load that cannot be sent: an unknown wire, or a prompt that the wire cannot carry.
    """
    check(load)
    chosen = wires.find(wire)
    requests = [wires.request(endpoint, chosen, _prompt(load, i), load) for i in range(load.num_requests)]
    address = _resolve(endpoint)
    with starvation.scheduled(load.realtime) as scheduler, starvation.account() as account_fd, quiet():
        exchanges, before, after = asyncio.run(_record(address, requests, load, account_fd))
    answers = tuple(
        UNSENT if exchange is None else read_answer(exchange, chosen, _prompt(load, place))
        for place, exchange in enumerate(exchanges)
    )
    sent = [exchange for exchange in exchanges if exchange is not None]
    seen = Sent(
        exchanges=sent,
        late=starvation.lateness(before, sent),
        client=starvation.between(before, after),
        scheduler=scheduler,
    )
    return observe(answers, seen, load)


def check(load: Load) -> None:
    """Raises ValueError that names what of a load makes no sense."""
    if not load.prompts:
        raise ValueError("a load needs at least one prompt")
    for name in ("num_requests", "num_tokens", "concurrency", "timeout_s"):
        if not getattr(load, name) > 0:
            raise ValueError(f"{name} is {getattr(load, name)!r}; it must be above 0")
    if load.rate_per_s < 0 or not math.isfinite(load.rate_per_s):
        raise ValueError(f"rate_per_s is {load.rate_per_s!r}; expected requests a second, or 0 for a closed loop")
    if load.rate_per_s and load.num_requests < limits.MIN_OPEN_REQUESTS:
        raise ValueError(f"an open loop of fewer than {limits.MIN_OPEN_REQUESTS} requests cannot show a growing queue")


def observe(answers: tuple[Answer, ...], sent: Sent, load: Load) -> Observation:
    """Answers to values, counts and reasons. Pure."""
    late = starvation.judge_reads(answers, sent.late, load.max_wait_share)
    exchanges = sent.exchanges
    return Observation(
        values=figures.values(answers),
        samples=figures.samples(answers),
        counts=count(answers, sent, load),
        reasons=(*validity.find_reasons(answers, exchanges, load), *late, *starvation.judge_client(sent.client)),
        answers=answers,
        digest=figures.digest(answers),
        measured_s=(max(one.ended_ns for one in exchanges) - min(one.scheduled_ns for one in exchanges)) / 1e9,
    )


def count(answers: Sequence[Answer], sent: Sent, load: Load) -> dict[str, Any]:
    """What was asked, answered and how; None for what is unknown."""
    good = [answer for answer in answers if not answer.error]
    prompt_tokens = [_prompt_tokens(answer) for answer in good]
    known = [number for number in prompt_tokens if number is not None]
    return {
        "loop": "open" if load.rate_per_s else "closed",
        "num_requests": load.num_requests,
        "num_sent": len(sent.exchanges),
        "num_answered": len(good),
        "num_short": validity.num_short(answers, load),
        "num_late": sum(validity.late_s(exchange) > limits.LATE_SEND_S for exchange in sent.exchanges),
        "num_output_tokens": sum(answer.num_tokens or 0 for answer in good),
        "num_prompt_tokens": sum(known) if len(known) == len(good) else None,
        "num_events": sum(len(answer.arrivals) for answer in good),
        "errors": validity.count_errors(answers),
        "client": {
            "scheduler": sent.scheduler,
            "wait_share": sent.client and sent.client.wait_share,
            "cpu_share": sent.client and sent.client.cpu_share,
            "mean_late_s": statistics.fmean(sent.late.values()) if sent.late else None,
        },
    }


def _prompt_tokens(answer: Answer) -> int | None:
    source = answer.usage or answer.meta
    return wires.whole_number(source.get("prompt_tokens"))


def _prompt(load: Load, number: int) -> Any:
    return load.prompts[number % len(load.prompts)]


def _resolve(endpoint: Endpoint) -> client.Address:
    try:
        return client.resolve(endpoint.host, endpoint.port)
    except OSError as error:
        raise ValueError(f"no address for {endpoint.host}:{endpoint.port}: {error}") from error


async def _record(address: client.Address, requests: Sequence[bytes], load: Load, account_fd: int | None) -> Recorded:
    async def send(number: int, scheduled_ns: int) -> Exchange:
        return await client.send(
            address,
            requests[number],
            timeout_s=load.timeout_s,
            scheduled_ns=scheduled_ns,
            limit_bytes=limit_bytes,
            account_fd=account_fd,
        )

    limit_bytes = limits.answer_bytes(load.num_tokens)
    max_failed = int(limits.MAX_FAILED_SHARE * load.num_requests)
    before = starvation.read_thread(account_fd)
    if load.rate_per_s:
        offsets_s = loading.arrival_offsets_s(load.num_requests, load.rate_per_s, load.seed)
        exchanges = await loading.run_open(send, offsets_s=offsets_s, max_failed=max_failed)
    else:
        exchanges = await loading.run_closed(
            send, num=load.num_requests, concurrency=load.concurrency, max_failed=max_failed
        )
    return exchanges, before, starvation.read_thread(account_fd)
