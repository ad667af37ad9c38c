"""What a workload wants accepted where weights are random, and whether that is what the run did. Pure.

An accept length that was asked for and missed would price speculation wrongly, so such a trial is invalid.
"""

from collections.abc import Mapping
from typing import Any

from runners.contract import InvalidError, ParamsError

TOLERANCE = 0.01  # of the wanted accept length
# Where 1 % is less than this, coins that are spread evenly still meet a rate between 0 and 1 to so many tokens:
# at most 4.4 off in simulated runs of 1 to 32 prompts, batches of 1 to 32 and 306 rates.
TOKENS_PER_FRACTION = 5


def wanted_rates(accept_length: float, accept_rates: str, num_draft_tokens: int) -> list[float]:
    """How often each drafted token is wanted accepted, over all cycles; [] where the models decide.

    `accept_length` counts the token that comes free with each cycle; 0: not wanted. `accept_rates`: numbers with
    commas between them. Raises ValueError.
    """
    if accept_length and accept_rates:
        raise ParamsError("params: accept_length and accept_rates say the same thing: leave one out")
    if accept_rates:
        return _parse(accept_rates)
    return rates_of_length(accept_length, num_draft_tokens) if accept_length else []


def rates_of_length(accept_length: float, num_draft_tokens: int) -> list[float]:
    """Rates whose mean accept length is the wanted one, with the least spread: ones, one fraction, zeros."""
    if not 1 <= accept_length <= num_draft_tokens + 1:
        raise ParamsError(f"params: accept_length is {accept_length}, not within 1..{num_draft_tokens + 1}")
    return [min(1.0, max(0.0, accept_length - 1 - place)) for place in range(num_draft_tokens)]


def check(rates: list[float], counts: Mapping[str, Any]) -> None:
    """Raises InvalidError if the accept length is off by more than 1 %. `counts`: of mode eagle3.

    A rate between 0 and 1 cannot be met to 1 % in a run of few cycles: what coins may leave is let pass.
    """
    if not rates:
        return
    cycles, emitted = counts["cycles"], counts["emitted"]
    wanted = cycles * (1 + sum(rates))
    num_fractions = sum(0 < rate < 1 for rate in rates)
    if abs(emitted - wanted) > max(TOLERANCE * wanted, TOKENS_PER_FRACTION * num_fractions):
        raise InvalidError(
            f"accept length {emitted / cycles:.3f} in {cycles} cycles, but {1 + sum(rates):.3f} was asked for"
        )


def _parse(accept_rates: str) -> list[float]:
    try:
        return [float(rate) for rate in accept_rates.split(",")]
    except ValueError:
        raise ParamsError(f"params: accept_rates is {accept_rates!r}, expected numbers like 0.8,0.5") from None
