"""Answers to numbers: TTFT, TPOT, ITL, end-to-end time and throughput. Pure; must not judge (validity.py).

TTFT: request sent to the event with the first token. TPOT of a request: the time from there to its last token over
the tokens that came after that event; so an event with several tokens does not make tokens look fast. ITL: the median
over all tokens of all requests of the time since the event before, divided over the tokens of an event; unknown where
a server does not say how many an event brought. Throughput: all tokens over the time from the first request sent to
the last token. Seconds and token/s; failed requests count in none of them, but their time does in throughput.
"""

import hashlib
import statistics
from collections.abc import Sequence
from itertools import pairwise

from runners.engines.records import Answer


def ttft_s(answer: Answer) -> float:
    return (answer.first_ns - answer.started_ns) / 1e9


def e2e_s(answer: Answer) -> float:
    return (answer.last_ns - answer.started_ns) / 1e9


def num_after_first(answer: Answer) -> int:
    """Tokens that came after the event with the first one; an event that does not tell is taken for one token."""
    return (answer.num_tokens or 0) - (answer.arrivals[0].num_tokens or 1)


def tpot_s(answer: Answer) -> float | None:
    """None where all tokens came in one event."""
    after = num_after_first(answer)
    return (answer.last_ns - answer.first_ns) / 1e9 / after if after > 0 and len(answer.arrivals) > 1 else None


def token_gaps_s(answer: Answer) -> list[float] | None:
    """The time of each token after the first event; None where events do not say how many tokens they brought."""
    if any(one.num_tokens is None for one in answer.arrivals):
        return None
    return [
        (later.at_ns - earlier.at_ns) / 1e9 / later.num_tokens
        for earlier, later in pairwise(answer.arrivals)
        if later.num_tokens is not None
        for _ in range(later.num_tokens)
    ]


def throughput(answers: Sequence[Answer]) -> float | None:
    """Token/s of what was answered; a failed request lasts until its connection ended."""
    good = [answer for answer in answers if not answer.error]
    begins = [answer.started_ns for answer in answers if answer.started_ns]
    if not good or not begins:
        return None
    end = max(answer.ended_ns if answer.error else answer.last_ns for answer in answers)
    return sum(answer.num_tokens or 0 for answer in good) * 1e9 / (end - min(begins))


def samples(answers: Sequence[Answer]) -> dict[str, list[float]]:
    """Seconds by answered request, in the order of the requests."""
    good = [answer for answer in answers if not answer.error]
    return {
        "ttft_s": [ttft_s(answer) for answer in good],
        "tpot_s": [value for value in map(tpot_s, good) if value is not None],
        "e2e_s": [e2e_s(answer) for answer in good],
    }


def values(answers: Sequence[Answer]) -> dict[str, float]:
    """The medians of `samples`, itl_s and output_throughput. What cannot be known has no entry."""
    found = {name: statistics.median(times) for name, times in samples(answers).items() if times}
    gaps = [token_gaps_s(answer) for answer in answers if not answer.error]
    if all(one is not None for one in gaps) and any(gaps):
        found["itl_s"] = statistics.median(gap for one in gaps for gap in one or ())
    rate = throughput(answers)
    return found if rate is None else {**found, "output_throughput": rate}


def digest(answers: Sequence[Answer]) -> str:
    """ "ids:…" or "text:…" of all answers, in the order of the requests; "" where they tell some ids and some text."""
    kinds = {answer.digest.partition(":")[0] for answer in answers}
    if len(kinds) != 1 or not all(answer.digest for answer in answers):
        return ""
    return f"{kinds.pop()}:{hashlib.sha256(''.join(answer.digest for answer in answers).encode()).hexdigest()}"
