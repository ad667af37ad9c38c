"""What part of a speculative mode's slowdown is accept length, and what is cycle time. Pure, over stored trials.

Describes a comparison that others judged: changes no outcome. A mode is speculative where its workload declares
MODE_accept_length beside MODE_throughput or, of an engine, MODE_output_throughput; ln(token/s) = ln(accept length) -
ln(cycle time). An engine's cycles also hold its share of prefill, and of waiting where several requests run at once.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp, log
from statistics import fmean
from typing import Any, Literal

from perfguard.records import BlockValues, Campaign, Metric, Side, Trial
from perfguard.stats.economics import Speculation, decompose
from perfguard.stats.exact import metric_equality
from perfguard.stats.prompts import prompt_p

Finding = Literal["equal", "changed", "shorter", "not_shown", "not_tested"]
# A prompt's difference is head against two base launches, which differ by what is credited.
LEAST_LAUNCHES: Mapping[Side, int] = {"base": 2, "head": 1}


@dataclass(frozen=True, kw_only=True)
class AcceptLength:
    """Tokens a cycle of each side (geometric mean of launches), and what comparing them found.

    "equal" and "changed": the same in every launch of a side. Else by prompt: `p` of "head is no shorter" over
    `num_prompts`; "shorter" at the comparison's alpha, "not_shown" above it, "not_tested" without counts by prompt.
    """

    base: float
    head: float
    finding: Finding
    p: float | None = None
    num_prompts: int | None = None


@dataclass(frozen=True, kw_only=True)
class ModeSpeculation:
    """One speculative mode. Ratios above 1 are slower; `slowdown` is the product of the other two. All blocks count,
    with one weight, so it may differ a little from the verdict's own estimate."""

    mode: str
    accept_length: AcceptLength
    slowdown: float
    by_accept_length: float
    by_cycle: float


@dataclass(frozen=True, kw_only=True)
class PromptCounts:
    """What one launch emitted, and in how many cycles, by prompt."""

    emitted: tuple[int, ...]
    cycles: tuple[int, ...]


def speculation(
    campaign: Campaign, blocks: Sequence[BlockValues], trials: Sequence[Trial]
) -> tuple[ModeSpeculation, ...]:
    """One entry for each speculative mode measured. `trials`: those of these blocks, in the order they ran."""
    metrics = {metric.name: metric for metric in campaign.workload.metrics}
    found = []
    for mode in campaign.workload.modes if blocks else ():
        lengths = metrics.get(f"{mode}_accept_length")
        rates = metrics.get(f"{mode}_throughput") or metrics.get(f"{mode}_output_throughput")
        if lengths is None or rates is None or not _are_positive(blocks, lengths.name):
            continue
        arms = {side: _arm(blocks, side, lengths.name, rates.name) for side in LEAST_LAUNCHES}
        compared = _accept_length(campaign, lengths, blocks, _counts(mode, trials), arms)
        found.append(_decomposed(mode, compared, arms))
    return tuple(found)


def _are_positive(blocks: Sequence[BlockValues], name: str) -> bool:
    """A count that decides nothing may be 0, and has no logarithm then."""
    return all(value > 0 for block in blocks for value in block.values[name])


def _arm(blocks: Sequence[BlockValues], side: Side, lengths: str, rates: str) -> Speculation:
    """Both sides have two launches in every block, so that levels of blocks cancel. Parts of a cycle are not told
    apart: the whole of it stands as `verify_s`."""
    length, rate = (_geometric_mean(blocks, side, name) for name in (lengths, rates))
    return Speculation(accept_length=length, draft_s=0.0, verify_s=length / rate)


def _geometric_mean(blocks: Sequence[BlockValues], side: Side, name: str) -> float:
    arm = "A" if side == "base" else "B"
    logs = [
        log(value)
        for block in blocks
        for slot, value in zip(block.order, block.values[name], strict=True)
        if slot == arm
    ]
    return exp(fmean(logs))


def _decomposed(mode: str, compared: AcceptLength, arms: Mapping[Side, Speculation]) -> ModeSpeculation:
    found = decompose(arms["base"], arms["head"])
    return ModeSpeculation(
        mode=mode,
        accept_length=compared,
        slowdown=exp(-found.throughput),
        by_accept_length=exp(-found.accept_length),
        by_cycle=exp(found.cycle),
    )


def _accept_length(
    campaign: Campaign,
    metric: Metric,
    blocks: Sequence[BlockValues],
    counts: Mapping[Side, Sequence[PromptCounts]],
    arms: Mapping[Side, Speculation],
) -> AcceptLength:
    base, head = arms["base"].accept_length, arms["head"].accept_length
    equality = metric_equality(metric, blocks) if metric.exact else "unstable"
    if equality != "unstable":
        return AcceptLength(base=base, head=head, finding=equality)
    p, num_prompts = prompt_test(counts, campaign.seed)
    if p is None:
        return AcceptLength(base=base, head=head, finding="not_tested")
    finding: Finding = "shorter" if p <= campaign.policy["alpha"] else "not_shown"
    return AcceptLength(base=base, head=head, finding=finding, p=p, num_prompts=num_prompts)


def prompt_test(counts: Mapping[Side, Sequence[PromptCounts]], seed: int) -> tuple[float | None, int | None]:
    """(p of "head's accept lengths are no shorter", prompts), (None, None) where launches cannot be paired by prompt.

    Base's launches in turn form two halves, which stand for two base launches; head's stand for one. A pool of more
    launches is less noisy, and the logarithm of a noisier one lies lower, so pooling head leans to "not shorter".
    """
    launches = [*counts["base"], *counts["head"]]
    num_prompts = {len(one.emitted) for one in launches} | {len(one.cycles) for one in launches}
    enough = all(len(counts[side]) >= least for side, least in LEAST_LAUNCHES.items())
    if not enough or len(num_prompts) != 1 or num_prompts == {0}:
        return None, None
    pools = (counts["base"][0::2], counts["base"][1::2], counts["head"])
    first, second, head = (_lengths_by_prompt(pool) for pool in pools)
    if not all(length > 0 for length in (*first, *second, *head)):
        return None, None
    return prompt_p(first, second, head, seed=seed), len(head)


def _lengths_by_prompt(pool: Sequence[PromptCounts]) -> list[float]:
    """Tokens a cycle of each prompt over these launches; 0 where no cycle ran."""
    emitted = [sum(column) for column in zip(*(one.emitted for one in pool), strict=True)]
    cycles = [sum(column) for column in zip(*(one.cycles for one in pool), strict=True)]
    return [tokens / ran if ran else 0.0 for tokens, ran in zip(emitted, cycles, strict=True)]


def _counts(mode: str, trials: Sequence[Trial]) -> dict[Side, list[PromptCounts]]:
    """Counts by prompt of each side's launches; a side lacks them as a whole if one of its launches does."""
    found: dict[Side, list[PromptCounts]] = {"base": [], "head": []}
    missing: set[Side] = set()
    for trial in trials:
        counts = _prompt_counts(trial.record.get("counts", {}).get(mode, {}))
        if counts is None:
            missing.add(trial.side)
        else:
            found[trial.side].append(counts)
    return {side: [] if side in missing else launches for side, launches in found.items()}


def _prompt_counts(counts: Mapping[str, Any]) -> PromptCounts | None:
    """None where the runner gives no such lists, which is its right, or no whole numbers in them."""
    emitted, cycles = counts.get("emitted_by_prompt"), counts.get("cycles_by_prompt")
    if not isinstance(emitted, list) or not isinstance(cycles, list):
        return None
    if not all(isinstance(count, int) and count >= 0 for count in (*emitted, *cycles)):
        return None
    return PromptCounts(emitted=tuple(emitted), cycles=tuple(cycles))
