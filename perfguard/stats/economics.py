"""Economics of speculative decoding: what accept length and cycle time make of tokens a second. Arithmetic only.

One cycle drafts, verifies and emits `accept_length` tokens (bonus included): token/s = accept length / cycle time.
"""

from dataclasses import dataclass, replace
from math import log


@dataclass(frozen=True, kw_only=True)
class Speculation:
    """One arm's speculation: tokens emitted a verify cycle, and the seconds of a cycle's two parts."""

    accept_length: float
    draft_s: float
    verify_s: float

    @property
    def cycle_s(self) -> float:
        return self.draft_s + self.verify_s

    @property
    def throughput(self) -> float:
        """Tokens a second."""
        return self.accept_length / self.cycle_s


@dataclass(frozen=True, kw_only=True)
class Decomposition:
    """Log changes of head against base; `throughput` = `accept_length` - `cycle`. Above 0 is more of each."""

    throughput: float
    accept_length: float
    cycle: float


def decompose(base: Speculation, head: Speculation) -> Decomposition:
    """ln(token/s) = ln(accept length) - ln(cycle time). A shift of the first part is a change of function."""
    accept_length = log(head.accept_length / base.accept_length)
    cycle = log(head.cycle_s / base.cycle_s)
    return Decomposition(throughput=accept_length - cycle, accept_length=accept_length, cycle=cycle)


def break_even_accept_length(speculation: Speculation, plain_token_s: float) -> float:
    """Accept length at which speculation is as fast as plain decoding: cycle time / seconds of a plain token."""
    return speculation.cycle_s / plain_token_s


def gain(speculation: Speculation, plain_token_s: float) -> float:
    """Speculative throughput against plain, less 1: -0.27 is 27 % below plain decoding."""
    return speculation.throughput * plain_token_s - 1.0


@dataclass(frozen=True, kw_only=True)
class Lever:
    """One thing to improve, and the gain over plain decoding it would bring by itself."""

    name: str
    now: float
    then: float
    gain: float


def levers(
    speculation: Speculation, plain_token_s: float, *, accept_length: float, verify_s: float, draft_s: float = 0.0
) -> tuple[Lever, ...]:
    """What each lever alone would give, best first: a longer accept length, a faster verify, a cheaper draft."""
    wished = {"accept_length": accept_length, "verify_s": verify_s, "draft_s": draft_s}
    found = []
    for name, then in wished.items():
        improved = replace(speculation, **{name: then})
        now: float = getattr(speculation, name)
        found.append(Lever(name=name, now=now, then=then, gain=gain(improved, plain_token_s)))
    return tuple(sorted(found, key=lambda lever: -lever.gain))
