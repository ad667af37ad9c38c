"""When to look, and how little luck each look may owe a change to: alpha spent over both stages.

A false report needs stage one to accuse a metric in one direction AND stage two, on orders drawn afresh, to agree.
So per metric and direction its chance is at most (sum of stage one's alphas) x (sum of stage two's), and over both
directions and all primary metrics at most 2 x metrics x that product. Everything here keeps this within alpha less
the share that `extension.py` may spend later. That holds where what moves values goes by the launch. Stage one runs one
build of each arm, so that luck of a build as large as the margin makes it suspect nearly always. Where fresh builds are
seen to differ (`placebo.fresh_builds_differ`), and always with `confirms_alone`, stage two, in which every trial has
its own build, therefore keeps within alpha by itself: the sum of its own alphas over all primary metrics, once each,
since a metric is accused in one direction.

The rule (`benchmarks/verdicts/choose_design.py` simulates it beside others):
- The first looks sit where a perfect separation is enough: after q1 and q2 blocks, with alpha 6^-q. Their total
  q1 + q2 is the smallest that leaves ROOM for later looks; the smaller half comes first, so that a suspicion is
  cheap and its confirmation carries more blocks and more fresh builds.
- What is left of alpha is shared between the stages, a third (in logs) to stage one.
- Later looks are two blocks apart, wider in long comparisons; each takes half of what is left, the last all of it.
- Where stage two keeps alpha by itself it looks first as soon as a perfect separation is enough for that, and stage
  one looks as if it did not.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import log1p

from perfguard.policy import Policy

# Below 1.25 nothing is left for later looks and power at 1.5 margins falls; above, the earliest report comes later.
ROOM = 1.25
SHARE_OF_STAGE_ONE = 1 / 3
# A spread needs two blocks.
MIN_CONFIRM_BLOCKS = 2
STEP = 2
STEP_GROWTH = 3


@dataclass(frozen=True, kw_only=True)
class Design:
    """Alpha of each planned look, by number of blocks of that stage, per metric and direction.

    Empty where the longest comparison allowed cannot report any change at this alpha. `own_looks`: of stage two where
    it has to keep alpha by itself, some of its looks with at most the same alpha: to ask for them only withholds.
    """

    looks: Mapping[int, float]
    confirm_looks: Mapping[int, float]
    own_looks: Mapping[int, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Rules:
    """A policy made ready for one comparison. `margin` and `floor` are logs, `slow_rate` 0 asks for nothing,
    `clip_spreads` 0 clips nothing."""

    margin: float
    floor: float
    clip_spreads: float
    tost_alpha: float
    futility: float
    min_blocks: int
    max_blocks: int
    max_confirm_blocks: int
    is_confirmed: bool
    build_luck_alpha: float
    slow_rate: float
    design: Design


def rules_of(policy: Policy, num_primaries: int, slow_rate: float = 0.0) -> Rules:
    """The rules of a comparison with this many primary metrics (at least 1).

    `slow_rate` in (0, 1): EQUIVALENT only after enough clean head launches to exclude slow launches at this rate.
    """
    margin = log1p(policy.margin)
    return Rules(
        margin=margin,
        floor=policy.floor_share * margin,
        clip_spreads=policy.clip_spreads,
        tost_alpha=policy.tost_alpha,
        futility=policy.futility,
        min_blocks=policy.min_blocks,
        max_blocks=policy.max_blocks,
        max_confirm_blocks=policy.max_confirm_blocks,
        is_confirmed=policy.is_confirmed,
        build_luck_alpha=policy.build_luck_alpha,
        slow_rate=slow_rate,
        design=choose_design(policy, num_primaries),
    )


def choose_design(policy: Policy, num_primaries: int) -> Design:
    """Looks and alphas of both stages with 2 * num_primaries * sum * sum <= alpha * (1 - extension_share).

    With `confirms_alone` stage two's own are at most that for all metrics, whatever stage one lets through: a metric
    is accused in one direction, so that both directions together have no more chances than one. A policy that never
    confirms has no use for it.
    """
    bound = policy.alpha * (1 - policy.extension_share) / (2 * max(1, num_primaries))
    firsts = _first_looks(policy, bound)
    if firsts is None:
        return Design(looks={}, confirm_looks={})
    first, first_confirm = firsts
    room = bound * 6.0 ** (first + first_confirm)
    share = _share_of_stage_one(policy, firsts)
    looks = _spend(first, policy.max_blocks, 6.0**-first * room**share)
    if policy.confirms_alone and policy.is_confirmed:
        return _confirmed_alone(looks, policy.max_confirm_blocks, 2 * bound)
    confirm_looks = _spend(first_confirm, policy.max_confirm_blocks, 6.0**-first_confirm * room ** (1 - share))
    return Design(looks=looks, confirm_looks=confirm_looks, own_looks=_own_looks(confirm_looks, 2 * bound))


def _confirmed_alone(looks: Mapping[int, float], max_blocks: int, alpha: float) -> Design:
    """The first look of stage two is the first that a perfect separation passes; nothing is reported without."""
    first = next((q for q in range(MIN_CONFIRM_BLOCKS, max_blocks + 1) if 6.0**-q <= alpha), None)
    if first is None:
        return Design(looks={}, confirm_looks={})
    confirm_looks = _spend(first, max_blocks, alpha)
    return Design(looks=looks, confirm_looks=confirm_looks, own_looks=confirm_looks)


def _own_looks(confirm_looks: Mapping[int, float], alpha: float) -> dict[int, float]:
    """Those of the shared looks at which a perfect separation passes, none with more than its shared alpha."""
    own = _spend_over([look for look in confirm_looks if 6.0**-look <= alpha], alpha)
    return {look: min(share, confirm_looks[look]) for look, share in own.items()}


def _first_looks(policy: Policy, bound: float) -> tuple[int, int] | None:
    """Blocks before the first look of each stage, None if the stages are too short for any report."""
    least = max(1, policy.min_blocks)
    total = least + MIN_CONFIRM_BLOCKS
    while ROOM * 6.0**-total > bound:
        total += 1
    lowest = max(least, total - policy.max_confirm_blocks)
    first = min(max(lowest, total // 2), policy.max_blocks, total - MIN_CONFIRM_BLOCKS)
    return (first, total - first) if first >= lowest else None


def _share_of_stage_one(policy: Policy, firsts: tuple[int, int]) -> float:
    """A stage without a later look can use nothing beyond its first."""
    if policy.max_blocks == firsts[0]:
        return 0.0
    return 1.0 if policy.max_confirm_blocks == firsts[1] else SHARE_OF_STAGE_ONE


def _spend(first: int, last: int, alpha: float) -> dict[int, float]:
    """Spreads alpha over the looks of one stage; a look whose share no order can reach is left out."""
    return _spend_over([first, *_later_looks(first, last)], alpha)


def _spend_over(looks: Sequence[int], alpha: float) -> dict[int, float]:
    if not looks:
        return {}
    first, *later = looks
    spent = {first: 6.0**-first}
    rest = alpha - spent[first]
    for position, look in enumerate(later, start=1):
        share = rest * 0.5 ** min(position, len(later) - 1)
        if share >= 6.0**-look:
            spent[look] = share
    return spent


def _later_looks(first: int, last: int) -> list[int]:
    looks = [first]
    while looks[-1] < last:
        looks.append(min(last, looks[-1] + max(STEP, looks[-1] // STEP_GROWTH)))
    return looks[1:]


def false_report_bound(design: Design, num_primaries: int) -> float:
    """Upper bound of the chance to report any change where there is none, if what moves values goes by the launch."""
    return 2 * num_primaries * sum(design.looks.values()) * sum(design.confirm_looks.values())
