"""What a comparison will cost before anything runs: the earliest moment of each outcome, what budgets buy.

Forecasts from the plan, the launch times of this workload's history and this machine's A/A noise; decides nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import log1p, sqrt

from perfguard.policy import Policy
from perfguard.records import Outcome
from perfguard.stats.design import Rules, rules_of
from perfguard.stats.effects import as_ratio
from perfguard.stats.equivalence import t_quantile
from perfguard.stats.lottery import launches_to_exclude
from perfguard.stats.power import smallest_reported

# What a person spends on a question: a break, an afternoon, a night.
BUDGETS_S = {"1 hour": 3600.0, "4 hours": 4 * 3600.0, "a night": 12 * 3600.0}
TRIALS_A_BLOCK = 4


@dataclass(frozen=True, kw_only=True)
class LaunchCost:
    """Seconds of one launch by part, of everything before the first block, and of stage two's fresh builds."""

    load_s: float
    measured_s: float
    setup_s: float = 0.0
    rebuild_s: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Moment:
    """The earliest moment an outcome can come: after so many blocks and seconds."""

    outcome: Outcome
    blocks: int
    wall_s: float


@dataclass(frozen=True, kw_only=True)
class Offer:
    """What a budget buys: blocks, outcomes within reach, smallest slowdown reported in 9 of 10 cases (above 1)."""

    name: str
    budget_s: float
    blocks: int
    outcomes: tuple[Outcome, ...]
    mde: float | None


@dataclass(frozen=True, kw_only=True)
class PriceList:
    """`block_s`: four launches with their pauses. `likely_equivalent`: blocks an unchanged head usually takes."""

    cost: LaunchCost
    block_s: float
    earliest: tuple[Moment, ...]
    likely_equivalent: int | None
    offers: tuple[Offer, ...]


def price_list(
    policy: Policy, num_primaries: int, cost: LaunchCost, *, sd: float | None, slow_rate: float = 0.0
) -> PriceList:
    """Prices of a comparison. `sd`: relative standard deviation of launches of one arm here (0.01 is one percent),
    None if this machine was never calibrated. A budget in the policy is offered first."""
    rules = rules_of(policy, num_primaries, slow_rate)
    block_s = TRIALS_A_BLOCK * (cost.load_s + cost.measured_s + _mean_pause_s(policy, cost.measured_s))
    earliest = tuple(
        Moment(outcome=outcome, blocks=blocks, wall_s=_wall_s(rules, cost, block_s, outcome, blocks))
        for outcome, blocks in _earliest_blocks(rules).items()
    )
    wanted = {"this budget": policy.budget_s} if policy.budget_s else {}
    offers = tuple(_offer(rules, cost, block_s, earliest, name, s, sd) for name, s in (wanted | BUDGETS_S).items())
    likely = None if sd is None else _likely_equivalent(rules, log1p(sd))
    return PriceList(cost=cost, block_s=block_s, earliest=earliest, likely_equivalent=likely, offers=offers)


def _mean_pause_s(policy: Policy, measured_s: float) -> float:
    return min(policy.pause_share * measured_s, policy.pause_max_s) / 2


def _earliest_blocks(rules: Rules) -> dict[Outcome, int]:
    """Blocks before each outcome can come at all; an outcome out of reach is absent."""
    clean = -(-launches_to_exclude(rules.slow_rate) // 2)
    earliest: dict[Outcome, int] = {}
    if max(rules.min_blocks, clean) <= rules.max_blocks:
        earliest[Outcome.EQUIVALENT] = max(rules.min_blocks, clean)
    if rules.design.looks:
        first = min(rules.design.looks)
        earliest[Outcome.SUSPECT] = first
        if rules.is_confirmed:
            total = first + min(rules.design.confirm_looks)
            earliest |= {Outcome.REGRESSION: total, Outcome.IMPROVEMENT: total}
    return earliest


def _wall_s(rules: Rules, cost: LaunchCost, block_s: float, outcome: Outcome, blocks: int) -> float:
    needs_rebuild = outcome in (Outcome.REGRESSION, Outcome.IMPROVEMENT)
    return cost.setup_s + blocks * block_s + (cost.rebuild_s if needs_rebuild else 0.0)


def _offer(
    rules: Rules,
    cost: LaunchCost,
    block_s: float,
    earliest: Sequence[Moment],
    name: str,
    budget_s: float,
    sd: float | None,
) -> Offer:
    outcomes = tuple(moment.outcome for moment in earliest if moment.wall_s <= budget_s)
    paid = _blocks_within(rules, block_s, budget_s - cost.setup_s - cost.rebuild_s)
    log_mde = None if sd is None else smallest_reported(rules, log1p(sd), paid)
    return Offer(
        name=name,
        budget_s=budget_s,
        blocks=_blocks_within(rules, block_s, budget_s - cost.setup_s),
        outcomes=outcomes,
        mde=None if log_mde is None else as_ratio(log_mde),
    )


def _blocks_within(rules: Rules, block_s: float, seconds: float) -> int:
    longest = rules.max_blocks + (rules.max_confirm_blocks if rules.is_confirmed else 0)
    return min(longest, max(0, int(seconds // block_s)))


def _likely_equivalent(rules: Rules, sd: float) -> int | None:
    """Blocks after which an unchanged head passes in an even case: t s / sqrt(q) within the margin, one sd spare."""
    for q in range(rules.min_blocks, rules.max_blocks + 1):
        if (t_quantile(rules.tost_alpha, 3 * q - 1) + 0.67) * sd / sqrt(q) <= rules.margin:
            return q
    return None


def price_lines(prices: PriceList) -> tuple[str, ...]:
    """The price list as lines for people, the hopeless budget named first."""
    launch = f"{duration(prices.cost.load_s)} to load, {duration(prices.cost.measured_s)} measured"
    hopeless = [offer for offer in prices.offers if not offer.outcomes]
    lines = [f"{offer.name} ({duration(offer.budget_s)}) cannot reach any verdict" for offer in hopeless]
    lines.append(f"a launch: {launch}; a block of four: {duration(prices.block_s)}")
    lines += [f"earliest {m.outcome}: {m.blocks} blocks, {duration(m.wall_s)}" for m in prices.earliest]
    useful = [offer for offer in prices.offers if offer.outcomes]
    more = [after for before, after in pairwise(useful) if after.blocks > before.blocks]
    lines += [_offer_line(offer) for offer in [*useful[:1], *more]]
    return tuple(lines)


def _offer_line(offer: Offer) -> str:
    found = "" if offer.mde is None else f", finds a slowdown of {100 * (offer.mde - 1):.2g} % in 9 of 10 cases"
    return f"{offer.name}: {offer.blocks} blocks{found}"


def duration(seconds: float) -> str:
    """For people: 75 s, 12 min, 2.4 h."""
    if seconds < 90:
        return f"{seconds:.3g} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
