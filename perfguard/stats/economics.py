"""Economics of speculative decoding: what accept length and cycle time make of tokens a second. Arithmetic only.

One cycle drafts, verifies and emits `accept_length` tokens (bonus included): token/s = accept length / cycle time.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import exp, log, sqrt
from statistics import fmean, stdev

from perfguard.stats.acceptance import accept_length as length_of
from perfguard.stats.equivalence import t_quantile

# Verify times beside the measured one in a table of gains: what a better or worse verify would make of it.
VERIFY_FACTORS = (0.6, 0.8, 1.0, 1.2)
# Numbers of drafted tokens that are predicted; engines seldom draft more in a chain.
MOST_DRAFTED = 4


@dataclass(frozen=True, kw_only=True)
class Speculation:
    """One arm's speculation: tokens emitted a verify cycle, and the seconds of a cycle's parts."""

    accept_length: float
    draft_s: float
    verify_s: float
    accept_s: float = 0.0

    @property
    def cycle_s(self) -> float:
        return self.draft_s + self.verify_s + self.accept_s

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


def mean_ratio(ratios: Sequence[float]) -> tuple[float, float | None, float | None]:
    """Geometric mean of positive ratios, one a block, and its 95 % interval (Student's t); None from fewer than 2."""
    logs = [log(ratio) for ratio in ratios]
    middle = fmean(logs)
    if len(logs) < 2:
        return exp(middle), None, None
    reach = t_quantile(0.025, len(logs) - 1) * stdev(logs) / sqrt(len(logs))
    return exp(middle), exp(middle - reach), exp(middle + reach)


def gain_table(
    speculation: Speculation, plain_token_s: float, lengths: Sequence[float]
) -> list[tuple[float, tuple[float, ...]]]:
    """(accept length, gain over plain decoding at each of VERIFY_FACTORS times the verify time) for each length."""
    return [
        (
            length,
            tuple(
                gain(replace(speculation, accept_length=length, verify_s=factor * speculation.verify_s), plain_token_s)
                for factor in VERIFY_FACTORS
            ),
        )
        for length in lengths
    ]


def table_lengths(num_drafted: int) -> list[float]:
    """Accept lengths from 1 (nothing accepted) to all of K + 1, in steps of a half."""
    return [1 + step / 2 for step in range(2 * num_drafted + 1)]


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """What another number of drafted tokens would give. `is_extended`: beyond what was drafted, rates were assumed."""

    num_drafted: int
    accept_length: float
    cycle_s: float
    gain: float
    is_extended: bool


def predictions(
    rates: Sequence[float], measured: Speculation, plain_token_s: float, *, extend_s: float | None = None
) -> list[Prediction]:
    """1 to 4 drafted tokens (or as many as were drafted), from one number K that was measured.

    `rates` by position, given that those before were accepted; beyond K the last one goes on. `extend_s`: first draft
    pass where it is known apart, else all passes take the same. A verify pass grows evenly with its rows, from the
    plain step (one row) to the measured pass (K + 1).
    """
    num_measured = len(rates)
    first_s = measured.draft_s / num_measured if extend_s is None else extend_s
    later_s = (measured.draft_s - first_s) / (num_measured - 1) if num_measured > 1 else first_s
    row_s = (measured.verify_s - plain_token_s) / num_measured
    found = []
    for number in range(1, max(MOST_DRAFTED, num_measured) + 1):
        known = [*rates[:number], *[rates[-1]] * (number - num_measured)]
        planned = Speculation(
            accept_length=length_of(known),
            draft_s=first_s + (number - 1) * later_s,
            verify_s=plain_token_s + number * row_s,
            accept_s=measured.accept_s,
        )
        found.append(
            Prediction(
                num_drafted=number,
                accept_length=planned.accept_length,
                cycle_s=planned.cycle_s,
                gain=gain(planned, plain_token_s),
                is_extended=number > num_measured,
            )
        )
    return found


def expected_distinct_experts(num_experts: int, top_k: int, num_tokens: int) -> float:
    """E (1 - (1 - k/E)^t): experts that t tokens, each routed to k of E alike and by itself, read together."""
    return num_experts * (1 - (1 - top_k / num_experts) ** num_tokens)


def weight_bytes(config: Mapping[str, int], element_bytes: int, distinct_experts: float) -> float:
    """Bytes of weights that one forward pass reads, all ranks together: attention, router, experts, head. Keys, values
    and activations are left out. `config` by the names of the built-in model."""
    hidden = config["hidden_size"]
    heads = 2 * (config["num_heads"] + config["num_kv_heads"]) * config["head_dim"]  # q and o, k and v
    experts = distinct_experts * config["expert_size"] + config.get("shared_size", 0)
    layer = hidden * (heads + config["num_experts"] + 3 * experts)
    return element_bytes * (config["num_layers"] * layer + config["vocab_size"] * hidden)
