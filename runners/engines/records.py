"""What client and server of an engine's trial hand each other. Records only; must not measure or decide.

Times whose names end in `_ns` are time.perf_counter_ns() of the client's process: on Linux the monotonic clock, which
all processes of a machine share.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from runners.engines.limits import MAX_WAIT_SHARE

# The code of a trial in which the server worked for somebody else too, whichever of its counters showed it.
OTHER_CLIENTS = "other_clients"


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """Where a server listens; `model` is the name that the server itself gives to what it serves."""

    host: str
    port: int
    model: str


@dataclass(frozen=True, kw_only=True)
class Prompt:
    """One prompt: token ids, or text for servers (and wires) that take none. At least one of them is there."""

    ids: tuple[int, ...] | None = None
    text: str | None = None


@dataclass(frozen=True, kw_only=True)
class Load:
    """What is asked of a server. Request i takes prompt i modulo their number.

    `rate_per_s` 0 is a closed loop: `concurrency` requests are always under way. Above 0 it is an open loop:
    requests are sent at Poisson times drawn from `seed`, however many are unfinished; `concurrency` then says nothing.
    `ignore_eos` also means that every answer has to have `num_tokens` tokens, or it counts as short. `realtime` asks
    for SCHED_RR while requests are under way. `max_wait_share`: how late a client may read because it waited for a
    processor, as a share of the TTFT and of the time between reads, before it counts as starved.
    """

    prompts: Sequence[Prompt]
    num_requests: int
    num_tokens: int
    timeout_s: float
    concurrency: int = 1
    rate_per_s: float = 0.0
    seed: int = 0
    ignore_eos: bool = True
    realtime: bool = False
    max_wait_share: float = MAX_WAIT_SHARE


@dataclass(frozen=True, kw_only=True)
class Exchange:
    """One request as it went over the wire: `reads` holds the time of each read and the bytes it brought.

    `scheduled_ns` is when it should have been sent; `sent_ns`, 0 where no connection came about, when its bytes were
    given to the open connection. `error` is empty where the server closed the connection in order. `accounts` holds
    what the kernel said of the client's thread at each read (starvation.py), or nothing.
    """

    scheduled_ns: int
    sent_ns: int
    ended_ns: int
    reads: tuple[tuple[int, bytes], ...]
    accounts: tuple[bytes, ...] = ()
    error: str = ""


@dataclass(frozen=True, kw_only=True)
class Arrival:
    """Tokens that one event of a stream brought; `num_tokens` None: the event did not say how many."""

    at_ns: int
    num_tokens: int | None


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What became of one request. `error` is empty where it was answered completely and its tokens can be counted.

    `first_ns` is the event that brought the first token, `last_ns` the one that brought the last (0: none did).
    `num_tokens` comes from `usage` or token ids (None: uncountable). `digest`, "ids:…" over token ids, else "text:…".
    `finish` is the engine's word for the end (length, stop, …), `usage` and `meta` its last ones (SGLang: meta_info).
    """

    started_ns: int
    first_ns: int = 0
    last_ns: int = 0
    ended_ns: int = 0
    num_tokens: int | None = None
    arrivals: tuple[Arrival, ...] = ()
    token_ids: tuple[int, ...] = ()
    digest: str = ""
    usage: Mapping[str, Any] = field(default_factory=dict)
    finish: str = ""
    error: str = ""
    meta: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Reason:
    """Why a trial is invalid: a stable code and a sentence with the values."""

    code: str
    text: str


@dataclass(frozen=True, kw_only=True)
class Observation:
    """What one load showed. `values` has no entry for what is unknown; `answers` are in the order of the requests.

    `values`: ttft_s, tpot_s, itl_s, e2e_s (medians) and output_throughput (token/s). `samples`: seconds by answered
    request. `reasons`: why the trial is invalid, empty if it is not. `digest`: over the answers' digests.
    """

    values: Mapping[str, float]
    samples: Mapping[str, list[float]]
    counts: Mapping[str, Any]
    reasons: tuple[Reason, ...]
    answers: tuple[Answer, ...]
    digest: str
    measured_s: float
