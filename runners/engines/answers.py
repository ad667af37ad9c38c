"""One recorded exchange to one Answer: tokens, their times, how it ended, and why it cannot count if it cannot.

Runs after the measured part. Must not decide what failures mean for a trial (validity.py).
An answer's `error` begins with a word of ERRORS and a colon.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from runners.engines.client import TIMED_OUT, TOO_LONG
from runners.engines.records import Answer, Arrival, Exchange, Prompt
from runners.engines.streams import Body, read_body, read_events
from runners.engines.wires import Said, Wire, whole_number

DONE = "[DONE]"
UNCOUNTABLE = "uncountable"
# unsent: the load had stopped by then; connection: refused or reset; http: another status than 200; stream: an error
# object inside a 200 stream; cut: no finish reason; empty: no token; uncountable: nothing says how many tokens.
ERRORS = ("unsent", "connection", "timeout", "http", "stream", "cut", "empty", UNCOUNTABLE)
UNSENT = Answer(started_ns=0, error="unsent: too many requests had failed by then")
BROKEN_FINISHES = ("abort", "error")


@dataclass(frozen=True, kw_only=True)
class Heard:
    """All that the events of one stream said. `ids` None: not known for all tokens; `finish_ns`: the last finish."""

    arrivals: tuple[Arrival, ...]
    text: str
    ids: tuple[int, ...] | None
    total: int | None
    finish: str
    finish_ns: int
    error: str
    usage: Mapping[str, Any]
    meta: Mapping[str, Any]


def read_answer(exchange: Exchange, wire: Wire, prompt: Prompt) -> Answer:
    """What the server answered; whatever is wrong with it is in `error`."""
    body = read_body(exchange.reads, is_closed=not exchange.error)
    heard = hear(body, wire, prompt)
    num_tokens = count_tokens(heard)
    arrivals = settle(heard.arrivals, num_tokens)
    is_sure = heard.ids is not None and len(heard.ids) == num_tokens
    return Answer(
        started_ns=exchange.sent_ns,
        first_ns=arrivals[0].at_ns if arrivals else 0,
        last_ns=last_token_ns(arrivals, heard.finish_ns),
        ended_ns=exchange.ended_ns,
        num_tokens=num_tokens,
        arrivals=arrivals,
        token_ids=heard.ids if is_sure and heard.ids else (),
        digest=_digest("ids", json.dumps(heard.ids)) if is_sure else _digest("text", heard.text),
        usage=heard.usage,
        finish=heard.finish,
        error=find_error(exchange, body, heard, num_tokens),
        meta=heard.meta,
    )


def hear(body: Body, wire: Wire, prompt: Prompt) -> Heard:
    """Everything the stream said, in increments; only events that brought a token are arrivals."""
    events = read_events(body.pieces) if body.status == 200 else []
    end = next((place for place, (_, data) in enumerate(events) if data.strip() == DONE), len(events))
    times = [at_ns for at_ns, _ in events[:end]]
    said = [_understand(data, wire) for _, data in events[:end]]
    said = without_echo(said, prompt) if wire.may_echo else said
    parts = increments(said)
    counts = new_tokens(parts)
    speaking = [one for one in parts if one.text or one.ids]
    return Heard(
        arrivals=tuple(
            Arrival(at_ns=at_ns, num_tokens=count) for at_ns, count in zip(times, counts, strict=True) if count != 0
        ),
        text="".join(one.text for one in parts),
        ids=None if any(one.ids is None for one in speaking) else tuple(i for one in speaking for i in one.ids or ()),
        total=next((one.total for one in reversed(said) if one.total is not None), None),
        finish=next((one.finish for one in reversed(said) if one.finish), ""),
        finish_ns=max((at_ns for at_ns, one in zip(times, said, strict=True) if one.finish), default=0),
        error=next((one.error for one in said if one.error), ""),
        usage=next((one.usage for one in reversed(said) if one.usage), {}),
        meta=next((one.meta for one in reversed(said) if one.meta), {}),
    )


def _understand(data: str, wire: Wire) -> Said:
    try:
        event = json.loads(data)
    except (ValueError, RecursionError):
        return Said(error=f"not JSON: {data[:200]}")
    return wire.understand(event) if isinstance(event, dict) else Said(error=f"not an object: {data[:200]}")


def without_echo(said: Sequence[Said], prompt: Prompt) -> list[Said]:
    """The first text is no token where it holds the prompt: some servers send the rendered prompt first."""
    first = next((place for place, one in enumerate(said) if one.text), None)
    asked = (prompt.text or "").strip()
    if first is None or not asked or asked not in said[first].text:
        return list(said)
    return [replace(one, text="") if place == first else one for place, one in enumerate(said)]


def increments(said: Sequence[Said]) -> list[Said]:
    """Events whose text and ids hold only what is new, also where each repeated what came before."""
    whole = [place for place, one in enumerate(said) if one.is_whole and (one.text or one.ids)]
    if not whole or not repeats([said[place] for place in whole]):
        return list(said)
    parts = list(said)
    for earlier, later in pairwise(whole):
        text, ids = said[later].text[len(said[earlier].text) :], said[later].ids
        new_ids = None if ids is None else ids[len(said[earlier].ids or ()) :]
        parts[later] = replace(said[later], text=text, ids=new_ids)
    return parts


def repeats(said: Sequence[Said]) -> bool:
    """Whether each event holds the answer so far. The server's own count decides where there is one."""
    last = said[-1]
    if last.ids is not None and last.total is not None:
        return len(last.ids) == last.total
    parts = [one.ids if last.ids is not None else one.text for one in said]
    grows = len(parts[-1] or ()) > len(parts[0] or ())
    return grows and all((later or ())[: len(earlier or ())] == earlier for earlier, later in pairwise(parts))


def new_tokens(parts: Sequence[Said]) -> list[int | None]:
    """Tokens that each event brought: by the server's running count, else by ids, else unknown where text came."""
    counts: list[int | None] = []
    so_far = 0
    for one in parts:
        if one.total is not None:
            counts.append(max(0, one.total - so_far))
            so_far = max(so_far, one.total)
        elif one.ids is not None:
            counts.append(len(one.ids))
        else:
            counts.append(None if one.text else 0)
    return counts


def count_tokens(heard: Heard) -> int | None:
    """By `usage`, else by the stream's running count, else by token ids; never by the number of events."""
    told = whole_number(heard.usage.get("completion_tokens"))
    if told is not None:
        return told
    if heard.total is not None:
        return heard.total
    return len(heard.ids) if heard.ids else None


def settle(arrivals: Sequence[Arrival], num_tokens: int | None) -> tuple[Arrival, ...]:
    """Arrivals whose counts add up to the answer; where they do not, what single events brought is unknown.

    An event for each token is one token an event. A server may withhold events (half a character, a parsed tag).
    """
    if sum(one.num_tokens or 0 for one in arrivals) == num_tokens and all(one.num_tokens for one in arrivals):
        return tuple(arrivals)
    each = 1 if len(arrivals) == num_tokens else None
    return tuple(replace(one, num_tokens=each) for one in arrivals)


def last_token_ns(arrivals: Sequence[Arrival], finish_ns: int) -> int:
    """When the last token came, 0 if none did. Where text may have been withheld, the end is told by the finish."""
    if not arrivals:
        return 0
    last = arrivals[-1]
    return last.at_ns if last.num_tokens is not None else max(last.at_ns, finish_ns)


def find_error(exchange: Exchange, body: Body, heard: Heard, num_tokens: int | None) -> str:
    """Why the answer cannot count: the first of ERRORS that holds, with what was seen; empty if none does."""
    if body.status not in (0, 200):
        return f"http: status {body.status}: {_said_in_body(body)}"
    if heard.error or heard.finish in BROKEN_FINISHES:
        return f"stream: {heard.error or heard.finish}"
    if exchange.error.startswith(TIMED_OUT):
        return f"timeout: {exchange.error}, {len(heard.arrivals)} events with tokens had come"
    if exchange.error.startswith(TOO_LONG):
        return f"cut: {exchange.error}, {len(heard.arrivals)} events with tokens had come"
    if body.status == 0:
        return f"connection: {exchange.error or body.problem or 'closed without an answer'}"
    if not heard.finish:
        why = exchange.error or body.problem or f"{body.content_type or 'untyped'} answer"
        return f"cut: no finish reason after {len(heard.arrivals)} events with tokens ({why})"
    if num_tokens is None:
        return f"{UNCOUNTABLE}: neither usage nor token ids in the stream"
    if num_tokens == 0 or not heard.arrivals:
        return f"empty: {num_tokens} tokens said, {len(heard.arrivals)} events brought one"
    return ""


def _said_in_body(body: Body) -> str:
    return b"".join(data for _, data in body.pieces)[:300].decode("utf-8", "replace")


def _digest(kind: str, text: str) -> str:
    return f"{kind}:{hashlib.sha256(text.encode('utf-8', 'replace')).hexdigest()}"
