"""Whether the client itself was kept from the processor: the kernel's account of its thread, and a real-time turn.

Must not judge anything but the client. `/proc/PID/schedstat` (kernel, Documentation/scheduler/sched-stats.rst) gives
a thread's nanoseconds on the processor, its nanoseconds of waiting for one, and how often it got one.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from runners.engines.client import clock_ns
from runners.engines.limits import MAX_CPU_SHARE, MAX_FIRST_TOKEN_WAIT_SHARE, MIN_WAIT_S
from runners.engines.records import Reason

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
    """What the client's thread did while requests were under way; seconds. `scheduler` says how it was scheduled."""

    span_s: float
    cpu_s: float
    wait_s: float
    turns: int
    scheduler: str

    @property
    def wait_share(self) -> float:
        return self.wait_s / self.span_s

    @property
    def cpu_share(self) -> float:
        return self.cpu_s / self.span_s


def read_thread(path: Path = SCHEDSTAT) -> ThreadTime | None:
    """The account of the calling thread; None where the kernel keeps none."""
    try:
        cpu_ns, wait_ns, turns = map(int, path.read_text().split()[:3])
    except (OSError, ValueError):
        return None
    return ThreadTime(at_ns=clock_ns(), cpu_ns=cpu_ns, wait_ns=wait_ns, turns=turns)


def between(before: ThreadTime | None, after: ThreadTime | None, scheduler: str) -> ClientTime | None:
    """None where one of the two is unknown, or the kernel does not count (all zero)."""
    if before is None or after is None or after.turns == before.turns == 0:
        return None
    return ClientTime(
        span_s=(after.at_ns - before.at_ns) / 1e9,
        cpu_s=(after.cpu_ns - before.cpu_ns) / 1e9,
        wait_s=(after.wait_ns - before.wait_ns) / 1e9,
        turns=after.turns - before.turns,
        scheduler=scheduler,
    )


def judge_client(client: ClientTime | None, ttft_s: float | None, max_wait_share: float) -> tuple[Reason, ...]:
    """A reason where the client waited, or worked, so much that its times are those of the client."""
    if client is None:
        return ()
    if client.wait_share > max_wait_share:
        text = (
            f"the client waited {client.wait_s * 1e3:.0f} ms for a processor in {client.span_s * 1e3:.0f} ms"
            f" ({client.wait_share:.1%}, at most {max_wait_share:.1%})"
        )
        return (Reason(code=CODE, text=text),)
    if client.cpu_share > MAX_CPU_SHARE:
        text = f"the client itself was busy for {client.cpu_share:.0%} of the time (at most {MAX_CPU_SHARE:.0%})"
        return (Reason(code=CODE, text=text),)
    each_s = client.wait_s / client.turns if client.turns else 0.0
    # A user who allows more waiting allows it here as well.
    share = max(MAX_FIRST_TOKEN_WAIT_SHARE, max_wait_share)
    if ttft_s is not None and each_s > max(MIN_WAIT_S, share * ttft_s):
        text = f"the client waited {each_s * 1e3:.2f} ms before each turn, for first tokens after {ttft_s * 1e3:.1f} ms"
        return (Reason(code=CODE, text=text),)
    return ()


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
