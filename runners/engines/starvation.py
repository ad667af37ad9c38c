"""Whether the client itself was kept from the processor: the kernel's account of its thread, and a real-time turn.

Must not judge anything but the client. `/proc/PID/schedstat` (kernel, Documentation/scheduler/sched-stats.rst) gives
a thread's nanoseconds on the processor, its nanoseconds of waiting for one, and how often it got one.
"""

import os
import statistics
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from runners.engines.client import ACCOUNT_BYTES, clock_ns
from runners.engines.figures import ttft_s
from runners.engines.limits import MAX_CPU_SHARE, MIN_LATE_S
from runners.engines.records import Answer, Exchange, Reason

SCHEDSTAT = Path("/proc/thread-self/schedstat")
CODE = "client_starved"


@dataclass(frozen=True, kw_only=True)
class ThreadTime:
    """What the kernel has counted for a thread up to `at_ns`."""

    at_ns: int
    cpu_ns: int
    wait_ns: int
    turns: int


@dataclass(frozen=True, kw_only=True)
class ClientTime:
    """What the client's thread did while requests were under way; seconds."""

    span_s: float
    cpu_s: float
    wait_s: float
    turns: int

    @property
    def wait_share(self) -> float:
        return self.wait_s / self.span_s

    @property
    def cpu_share(self) -> float:
        return self.cpu_s / self.span_s


def read_thread(account_fd: int | None) -> ThreadTime | None:
    """The account now; None where the kernel keeps none."""
    return None if account_fd is None else parse(os.pread(account_fd, ACCOUNT_BYTES, 0), clock_ns())


def parse(account: bytes, at_ns: int) -> ThreadTime | None:
    """What was read of the account at `at_ns`; None where that is not three numbers."""
    try:
        cpu_ns, wait_ns, turns = map(int, account.split())
    except ValueError:
        return None
    return ThreadTime(at_ns=at_ns, cpu_ns=cpu_ns, wait_ns=wait_ns, turns=turns)


def between(before: ThreadTime | None, after: ThreadTime | None) -> ClientTime | None:
    """None where one of the two is unknown, or the kernel does not count (all zero)."""
    if before is None or after is None or after.turns == before.turns == 0:
        return None
    return ClientTime(
        span_s=(after.at_ns - before.at_ns) / 1e9,
        cpu_s=(after.cpu_ns - before.cpu_ns) / 1e9,
        wait_s=(after.wait_ns - before.wait_ns) / 1e9,
        turns=after.turns - before.turns,
    )


def lateness(before: ThreadTime | None, exchanges: Sequence[Exchange]) -> dict[int, float]:
    """Time of each read -> seconds for which the thread had waited just before it; empty where that is unknown.

    Reads of one turn on the processor were all late by the wait before that turn; where turns without a read lay
    between, their waits are counted too, so it is an upper bound.
    """
    if before is None:
        return {}
    rows = [
        thread
        for exchange in exchanges
        for (at_ns, _), account in zip(exchange.reads, exchange.accounts, strict=False)
        if (thread := parse(account, at_ns)) is not None and thread.turns > 0
    ]
    late: dict[int, float] = {}
    turn, waited_s, wait_ns = before.turns, 0.0, before.wait_ns
    for row in sorted(rows, key=lambda row: row.at_ns):
        if row.turns != turn:
            turn, waited_s, wait_ns = row.turns, (row.wait_ns - wait_ns) / 1e9, row.wait_ns
        late[row.at_ns] = waited_s
    return late


def judge_reads(answers: Sequence[Answer], late: Mapping[int, float], max_share: float) -> tuple[Reason, ...]:
    """A reason where tokens were read late because the client waited: first ones, or all of them."""
    good = [answer for answer in answers if not answer.error]
    firsts = [late[answer.first_ns] for answer in good if answer.first_ns in late]
    times = [sorted({one.at_ns for one in answer.arrivals}) for answer in good]
    reads = [late[at_ns] for stream in times for at_ns in stream if at_ns in late]
    gaps = [(later - earlier) / 1e9 for stream in times for earlier, later in pairwise(stream)]
    if firsts and statistics.median(firsts) > max(MIN_LATE_S, max_share * statistics.median(map(ttft_s, good))):
        return (_too_late("first tokens", statistics.median(firsts), statistics.median(map(ttft_s, good)), max_share),)
    if reads and gaps and statistics.fmean(reads) > max(MIN_LATE_S, max_share * statistics.fmean(gaps)):
        return (_too_late("tokens", statistics.fmean(reads), statistics.fmean(gaps), max_share),)
    return ()


def _too_late(what: str, late_s: float, of_s: float, max_share: float) -> Reason:
    text = (
        f"{what} were read {late_s * 1e3:.2f} ms late, of {of_s * 1e3:.2f} ms, because the client waited for a"
        f" processor ({late_s / of_s:.1%}, at most {max_share:.1%})"
    )
    return Reason(code=CODE, text=text)


def judge_client(client: ClientTime | None) -> tuple[Reason, ...]:
    """A reason where the client worked so much that its times are its own."""
    if client is None or client.cpu_share <= MAX_CPU_SHARE:
        return ()
    text = f"the client itself was busy for {client.cpu_share:.0%} of the time (at most {MAX_CPU_SHARE:.0%})"
    return (Reason(code=CODE, text=text),)


@contextmanager
def account(path: Path = SCHEDSTAT) -> Iterator[int | None]:
    """The kernel's account of the calling thread as an open file, to be read again and again; None without one."""
    try:
        opened = os.open(path, os.O_RDONLY)
    except OSError:
        yield None
        return
    try:
        yield opened
    finally:
        os.close(opened)


@contextmanager
def scheduled(realtime: bool) -> Iterator[str]:
    """The calling thread under SCHED_RR inside, where asked for and permitted; yields how it is scheduled.

    A process started inside would inherit it: none is.
    """
    if not realtime:
        yield "ordinary"
        return
    policy, param = os.sched_getscheduler(0), os.sched_getparam(0)
    try:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    except (OSError, AttributeError) as error:
        yield f"ordinary: SCHED_RR was asked for and not granted ({type(error).__name__}: {error})"
        return
    try:
        yield "SCHED_RR"
    finally:
        os.sched_setscheduler(0, policy, param)
