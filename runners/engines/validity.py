"""Why a load's numbers must not be used: failed, short and uncountable answers, a growing queue, a client in the way.

Pure; blind to whether the numbers are good or bad. The thresholds are those of limits.py.
"""

import math
import statistics
from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence

from runners.engines import limits
from runners.engines.answers import UNCOUNTABLE
from runners.engines.figures import e2e_s, tpot_s, ttft_s
from runners.engines.records import Answer, Exchange, Load, Reason
from runners.engines.starvation import CODE as STARVED


def find_reasons(answers: Sequence[Answer], sent: Sequence[Exchange], load: Load) -> tuple[Reason, ...]:
    """All reasons that answers and their sending give; () if the load was served as asked."""
    found = [*_failed(answers), _short(answers, load), _all_at_once(answers)]
    if load.rate_per_s > 0:
        found += [_late(sent), _saturated(answers, sent)]
    return tuple(reason for reason in found if reason is not None)


def count_errors(answers: Sequence[Answer]) -> dict[str, int]:
    """Failed requests by kind (answers.ERRORS)."""
    return dict(Counter(kind_of(answer) for answer in answers if answer.error))


def kind_of(answer: Answer) -> str:
    return answer.error.partition(":")[0]


def _failed(answers: Sequence[Answer]) -> list[Reason]:
    uncounted = [answer for answer in answers if kind_of(answer) == UNCOUNTABLE]
    failed = [answer for answer in answers if answer.error and kind_of(answer) != UNCOUNTABLE]
    reasons = []
    for code, bad in (("requests_failed", failed), ("tokens_uncounted", uncounted)):
        if len(bad) > limits.MAX_FAILED_SHARE * len(answers):
            text = f"{len(bad)} of {len(answers)} requests: {bad[0].error}"
            reasons.append(Reason(code=code, text=text))
    return reasons


def num_short(answers: Sequence[Answer], load: Load) -> int:
    """Answered requests of another length than asked."""
    return sum(not answer.error and answer.num_tokens != load.num_tokens for answer in answers)


def _short(answers: Sequence[Answer], load: Load) -> Reason | None:
    num = num_short(answers, load)
    if not load.ignore_eos or num <= limits.MAX_SHORT_SHARE * len(answers):
        return None
    other = next(answer for answer in answers if not answer.error and answer.num_tokens != load.num_tokens)
    text = (
        f"{num} of {len(answers)} answers have another length than the {load.num_tokens} tokens asked for"
        f" (the first: {other.num_tokens}, finish {other.finish!r}); ignore_eos=false accepts ends of the model's own"
    )
    return Reason(code="short_answers", text=text)


def _all_at_once(answers: Sequence[Answer]) -> Reason | None:
    good = [answer for answer in answers if not answer.error]
    num = sum(came_at_once(answer) for answer in good)
    if num <= limits.MAX_SHAPE_SHARE * len(good):
        return None
    text = (
        f"{num} of {len(good)} answers came whole at their end (below {limits.MIN_TPOT_S * 1e3:g} ms a token):"
        " the client was not running when tokens came, or something before it holds the stream back"
    )
    return Reason(code=STARVED, text=text)


def came_at_once(answer: Answer) -> bool:
    """A shape that no engine makes: the first token near the end, and all others in less than 0.1 ms each."""
    if (answer.num_tokens or 0) < limits.MIN_SHAPE_TOKENS:
        return False
    each_s = tpot_s(answer)
    is_late = ttft_s(answer) > limits.LATE_FIRST_SHARE * e2e_s(answer)
    return is_late and (each_s is None or each_s < limits.MIN_TPOT_S)


def _late(sent: Sequence[Exchange]) -> Reason | None:
    num = sum(late_s(exchange) > limits.LATE_SEND_S for exchange in sent)
    if num <= limits.MAX_LATE_SHARE * len(sent):
        return None
    worst_s = max(map(late_s, sent))
    text = (
        f"{num} of {len(sent)} requests were sent more than {limits.LATE_SEND_S * 1e3:g} ms late"
        f" (at most {worst_s * 1e3:.0f} ms)"
    )
    return Reason(code=STARVED, text=text)


def late_s(exchange: Exchange) -> float:
    return (exchange.sent_ns - exchange.scheduled_ns) / 1e9 if exchange.sent_ns else 0.0


def _saturated(answers: Sequence[Answer], sent: Sequence[Exchange]) -> Reason | None:
    times = [e2e_s(answer) for answer in answers if not answer.error]
    if len(times) < limits.MIN_OPEN_REQUESTS or len(sent) < limits.MIN_OPEN_REQUESTS:
        return None  # too few are left to tell, and so many failed that the trial is invalid
    first, _, last = map(statistics.median, _thirds(times))
    if last > limits.MAX_GROWTH_FACTOR * first:
        text = f"requests took {first:.3g} s in the first third, {last:.3g} s in the last: arrivals outran the server"
        return Reason(code="saturated", text=text)
    pending = unfinished(sent)
    _, middle, late = map(statistics.fmean, _thirds(pending))
    span_s = (sent[-1].scheduled_ns - sent[0].scheduled_ns) / 1e9
    if late - middle > limits.MAX_GROWTH_SIGMA * steady_deviation(pending, statistics.fmean(times), span_s):
        text = f"unfinished requests grew from {middle:.1f} to {late:.1f}: arrivals outran the server"
        return Reason(code="saturated", text=text)
    return None


def unfinished(sent: Sequence[Exchange]) -> list[int]:
    """How many requests were under way when each was due, itself not counted."""
    ends = sorted(exchange.ended_ns for exchange in sent)
    return [place - bisect_right(ends, exchange.scheduled_ns) for place, exchange in enumerate(sent)]


def steady_deviation(pending: Sequence[int], mean_s: float, span_s: float) -> float:
    """Standard deviation of the difference between the means of two thirds of a steady queue.

    With n requests under way on average, their number varies by n (Poisson) and stays alike for the time W that one
    takes: the mean over T/3 varies by 2 n W / (T/3), the difference of two by twice that. (D. R. Cox and V. Isham,
    "Point Processes", 1980, on M/G/infinity; the correlation is taken as exponential.) At least one request.
    """
    mean = statistics.fmean(pending)
    return max(1.0, math.sqrt(12 * mean * mean_s / span_s)) if span_s > 0 else math.inf


def _thirds(numbers: Sequence[float]) -> tuple[Sequence[float], Sequence[float], Sequence[float]]:
    third = len(numbers) // 3
    return numbers[:third], numbers[third : 2 * third], numbers[-third:]
