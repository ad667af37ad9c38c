"""The client's times held against the server's own histograms. Pure; must not fetch anything.

Names as vLLM and SGLang serve them, behind a prefix of their own (`vllm:`, `sglang:`); a name that ends otherwise
(`…_created`, `…_bucket`) is another thing.
"""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from runners.engines import figures, limits
from runners.engines.counters import sums
from runners.engines.records import OTHER_CLIENTS, Answer, Observation, Reason

FIRST_TOKEN = ("time_to_first_token_seconds",)
BETWEEN_TOKENS = ("inter_token_latency_seconds", "time_per_output_token_seconds")  # the older name of both engines
CODE = "server_disagrees"


@dataclass(frozen=True, kw_only=True)
class Histogram:
    """What a histogram gained between two texts: seconds, and how many observations."""

    sum_s: float
    num: int


def cross_check(observation: Observation, before: str, after: str) -> Observation:
    """The observation, with a reason for each contradiction between it and the server's Prometheus text.

    `before` and `after` are the texts of /metrics around the measured load and nothing else ("": not served). What
    the server does not count is not checked; counts["server"] says what its histograms showed.
    """
    first, between = gained(before, after, FIRST_TOKEN), gained(before, after, BETWEEN_TOKENS)
    good = [answer for answer in observation.answers if not answer.error]
    num_decoded = sum(figures.num_after_first(answer) for answer in good)
    is_all = first is not None and first.num == len(good) == len(observation.answers)
    server: dict[str, float | None] = {
        "num_requests": first.num if first else None,
        "ttft_s": first.sum_s / first.num if first else None,
        # The sum over all gaps is the time from first to last token in both engines, however gaps are counted.
        "tpot_s": between.sum_s / num_decoded if between and is_all and num_decoded else None,
    }
    reasons = [
        _foreign(first, observation.answers),
        _contradiction("TTFT", _mean_ttft_s(good), server["ttft_s"] if is_all else None, limits.TTFT_SLACK_S),
        _contradiction("TPOT", _mean_tpot_s(good), server["tpot_s"], limits.TPOT_SLACK_S),
    ]
    return replace(
        observation,
        counts={**observation.counts, "server": server},
        reasons=(*observation.reasons, *(reason for reason in reasons if reason is not None)),
    )


def gained(before: str, after: str, names: Sequence[str]) -> Histogram | None:
    """Over all labels; None where the server has no such histogram, it gained nothing, or it began anew."""
    first, last = (sums(text, lambda sample: sample.name.rpartition(":")[2]) for text in (before, after))
    for name in names:
        (sum_0, num_0), (sum_1, num_1) = _of_histogram(first, name), _of_histogram(last, name)
        if num_1 > num_0 and sum_1 >= sum_0:
            return Histogram(sum_s=sum_1 - sum_0, num=round(num_1 - num_0))
    return None


def _of_histogram(totals: Mapping[str, float], name: str) -> tuple[float, float]:
    return totals.get(f"{name}_sum", 0.0), totals.get(f"{name}_count", 0.0)


def _mean_ttft_s(good: Sequence[Answer]) -> float | None:
    return statistics.fmean(map(figures.ttft_s, good)) if good else None


def _mean_tpot_s(good: Sequence[Answer]) -> float | None:
    num = sum(figures.num_after_first(answer) for answer in good)
    return sum(answer.last_ns - answer.first_ns for answer in good) / 1e9 / num if num else None


def _foreign(first: Histogram | None, answers: Sequence[Answer]) -> Reason | None:
    if first is None or first.num <= len(answers):
        return None
    text = f"the server answered {first.num} requests while {len(answers)} of ours were under way: it has other clients"
    return Reason(code=OTHER_CLIENTS, text=text)


def _contradiction(name: str, client_s: float | None, server_s: float | None, slack_s: float) -> Reason | None:
    if client_s is None or server_s is None:
        return None
    low, high = sorted((client_s, server_s))
    if high <= limits.MAX_SERVER_FACTOR * low + slack_s:
        return None
    text = (
        f"mean {name} is {client_s * 1e3:.2f} ms for the client and {server_s * 1e3:.2f} ms by the server's own count"
    )
    return Reason(code=CODE, text=text)
