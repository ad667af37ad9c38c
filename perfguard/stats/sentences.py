"""One sentence a person can act on, for every outcome. Numbers come from the decision; nothing is decided here."""

from collections.abc import Sequence

from perfguard import changes
from perfguard.records import Decision, Metric, MetricResult, Outcome, Reason

# Reasons that come before any speed.
FIRST = ("OUTPUT_CHANGED", "EXACT_CHANGED")


def sentence(decision: Decision, *, margin: float, num_blocks: int) -> str:
    """The verdict in one sentence (two if the output changed). `margin` is a ratio: 0.02 is two percent."""
    before = "".join(_capital(r.text) + ". " for r in decision.reasons if r.code in FIRST)
    return before + _capital(_body(decision, margin, num_blocks)) + "."


def _body(decision: Decision, margin: float, num_blocks: int) -> str:
    primaries = [result for result in decision.metrics if result.metric.primary]
    decisive = [result for result in primaries if result.outcome is decision.outcome]
    match decision.outcome:
        case Outcome.REGRESSION | Outcome.IMPROVEMENT:
            return f"head is {_words(decisive)}: {_each(decisive)}; confirmed by fresh blocks"
        case Outcome.SUSPECT:
            return f"head may be {_words(decisive)}: {_each(decisive)}; {_text(decision.reasons, 'not confirmed')}"
        case Outcome.EQUIVALENT:
            return f"no change beyond {percent(margin)} %: slowdown of head {_each(primaries)}"
        case Outcome.INVALID:
            return f"nothing can be concluded: {_text(decision.reasons, 'the comparison is invalid')}"
    return f"undecided after {num_blocks} blocks{_so_far(decisive)}{_needed(decision.blocks_needed)}"


def _so_far(results: Sequence[MetricResult]) -> str:
    measured = [result for result in results if result.slowdown is not None]
    return f": slowdown of head {_each(measured)}" if measured else ""


def _needed(blocks: int | None) -> str:
    if blocks is None:
        return ""
    return f"; about {blocks:,} more block{'s are' if blocks != 1 else ' is'} needed"


def _words(results: Sequence[MetricResult]) -> str:
    said = [word(r.metric, 1 if r.slowdown >= 1 else -1) for r in results if r.slowdown is not None]
    return " and ".join(dict.fromkeys(said)) or "different"


def _each(results: Sequence[MetricResult]) -> str:
    return " and ".join(change(result) for result in results)


def change(result: MetricResult) -> str:
    """ "+3.1 % on decode_throughput (95 % interval +2.7 to +3.5 %)": head against base, as every table shows it."""
    if result.slowdown is None or result.ci_low is None or result.ci_high is None:
        return f"not measured on {result.metric.name}"
    interval = changes.interval(result.ci_low, result.ci_high)
    return f"{changes.signed(result.slowdown)} on {result.metric.name} (95 % interval {interval})"


def word(metric: Metric, sign: int) -> str:
    """Times and rates are slower or faster; anything else is worse or better."""
    is_speed = metric.unit in ("s", "ms", "us", "µs", "ns") or metric.unit.endswith("/s")
    if is_speed:
        return "slower" if sign > 0 else "faster"
    return "worse" if sign > 0 else "better"


def percent(ratio: float) -> str:
    """0.02 is "2", two significant digits."""
    return f"{100 * ratio:.2g}" if abs(ratio) < 0.1 else f"{100 * ratio:.0f}"


def _text(reasons: Sequence[Reason], otherwise: str) -> str:
    """Why it went no further comes before how it began."""
    ends = [r.text for r in reasons if r.code in ("NOT_CONFIRMED", "PLACEBO")]
    return next(iter([*ends, *(r.text for r in reasons if r.code not in FIRST)]), otherwise)


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
