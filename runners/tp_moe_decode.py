"""Mode plain: one token a sequence and step, over fixed prompts. Times single steps; must not print, allocate logs or
judge.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from statistics import median

from runners.contract import ModeRun, Session
from runners.timing import batches, clock, end_of_step, find_warmup


@dataclass(kw_only=True)
class PlainLog:
    """Times in seconds; `token_s` is allocated before the timed loop and filled up to `steps`."""

    token_s: list[float]
    ttft_s: list[float] = field(default_factory=list)
    steps: int = 0
    batch: int = 1


def measure(
    session: Session, prompts: Sequence[list[int]], tokens: int, slowdown: float = 1.0, batch: int = 1
) -> ModeRun:
    """Generate exactly `tokens` ids for each prompt: one by prefill, the others by single steps.

    `slowdown` above 1 is a control: each step then takes that many times as long.
    """
    log = new_log(len(prompts) * tokens)
    generated = [ids for some in batches(prompts, batch) for ids in generate(session, some, tokens, log, slowdown)]
    return summarise(log, generated)


def new_log(rows: int) -> PlainLog:
    return PlainLog(token_s=[0.0] * rows)


def generate(
    session: Session, prompts: Sequence[list[int]], tokens: int, log: PlainLog, slowdown: float = 1.0
) -> list[list[int]]:
    """One batch. The host reads `session.run_ahead` steps behind what it enqueued; a step lasts from read to read.

    With a planted slowdown nothing is enqueued ahead: the device would work through the wait and hide it.
    """
    session.synchronize()
    begin = clock()
    ids = [[token] for token in session.prefill(prompts, mode="plain")]
    session.synchronize()
    log.ttft_s.append(clock() - begin)
    log.batch = len(prompts)
    ahead = session.run_ahead if slowdown == 1.0 else 0
    enqueued = 0
    begin = clock()
    for step in range(tokens - 1):
        while enqueued < min(step + 1 + ahead, tokens - 1):
            session.decode()
            enqueued += 1
        emitted = session.read()
        end = end_of_step(begin, slowdown)
        log.token_s[log.steps] = end - begin
        log.steps += 1
        for mine, new in zip(ids, emitted, strict=True):
            mine.extend(new)
        begin = end if ahead else clock()
    return ids


def summarise(log: PlainLog, generated: Sequence[Sequence[int]]) -> ModeRun:
    times = log.token_s[: log.steps]
    warmup = find_warmup(times)
    steady = times[warmup.discarded :]
    return ModeRun(
        # Tokens over time, not the median's inverse: a stall every tenth token is slowness that a user feels.
        values={
            "plain_throughput": log.batch * len(steady) / sum(steady),
            "plain_token_s": median(steady),
            "plain_ttft_s": median(log.ttft_s),
        },
        samples={"plain_token_s": times, "plain_ttft_s": log.ttft_s},
        counts={"prompts": len(generated), "tokens": sum(map(len, generated)), "steps": log.steps},
        warmup=asdict(warmup),
        tokens=generated,
    )
