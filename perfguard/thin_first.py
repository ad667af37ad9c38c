"""The story of `compare --thin`: a slice to its verdict, then one block of launches at full size.

Both are campaigns of their own, planned and stored before the first launch of either, so that each can be gone on
with and replayed by itself. Holds no formula (full_size.py) and measures nothing itself (experiment.py).
"""

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from perfguard.campaign import Request, campaign_of
from perfguard.comparable import refuse_other_conditions
from perfguard.experiment import Observer, measure_to_verdict, planned_blocks
from perfguard.full_size import ENDS_THERE, FULL_SIZE, NUM_LAUNCHES, block_policy, linked
from perfguard.machine_history import with_links
from perfguard.policy import stored_policy
from perfguard.pricing import basis_of
from perfguard.records import Campaign
from perfguard.stats.prices import duration
from perfguard.store import Store
from perfguard.subject.repository import Repository


def with_block(slice_: Campaign, full: Request, repository: Repository) -> tuple[Campaign, Campaign | None]:
    """The slice and its block at full size, which name each other. `full`: the same request without --thin.

    No block where that would be no full size either: few layers that a workload itself asks for.
    """
    wanted = replace(full, policy=block_policy(full.policy), seed=slice_.seed + 1)
    block = campaign_of(wanted, slice_.arms, repository)
    return linked(slice_, block) if block.scope == "full" else (slice_, None)


def block_price_line(block: Campaign, store: Store) -> str:
    cost = duration(block_cost_s(block, store))
    return (
        f"then one block at full size: {NUM_LAUNCHES} launches (2 unmeasured), about {cost}: SUSPECT with odds at most "
        "(--no-full-size leaves it out)"
    )


def block_cost_s(block: Campaign, store: Store) -> float:
    cost = basis_of(block, stored_policy(block.policy), store).cost
    return cost.setup_s + (NUM_LAUNCHES - 2) * (cost.load_s + cost.measured_s)


def measure_slice(
    slice_: Campaign, block: Campaign, repository: Repository, store: Store, observer: Observer
) -> dict[str, Any]:
    """Both are stored with their orders, then the slice is measured to its verdict."""
    for campaign in (slice_, block):
        campaign = with_links(campaign, store)
        store.add_campaign(campaign)
        store.add_blocks(campaign.id, planned_blocks(campaign))
    store.set_status(block.id, "interrupted")  # until its turn comes
    return measure_to_verdict(slice_, repository, store, observer)


def block_left(slice_id: str, store: Store) -> Campaign | None:
    """The block that belongs to a stored slice, where it has not been measured to its end."""
    wanted = store.campaign(slice_id).method.get(FULL_SIZE)
    return store.campaign(wanted) if wanted and store.status(wanted) != "finished" else None


def measure_block(
    of_slice: Mapping[str, Any],
    block: Campaign,
    repository: Repository,
    store: Store,
    observer: Observer,
    *,
    began_s: float,
) -> dict[str, Any] | None:
    """The block after the slice's verdict: its own verdict, None where it was not begun, which is said.

    `began_s`: when this start began (monotonic), which its budget counts from.
    """
    refuse_other_conditions(block)
    budget_s = stored_policy(block.policy).budget_s
    left_s = max(0.0, budget_s - (time.monotonic() - began_s)) if budget_s else None
    if why := _why_not(of_slice, block, store, left_s):
        observer.say(f"one block at full size was not begun, {why}: perfguard compare --resume {block.id}")
        return None
    observer.say(f"one block at full size: {block.id}")
    return measure_to_verdict(block, repository, store, observer, budget_s=left_s)


def _why_not(of_slice: Mapping[str, Any], block: Campaign, store: Store, left_s: float | None) -> str:
    if of_slice["outcome"] in ENDS_THERE:
        return f"as the slice ended {of_slice['outcome']}"
    if left_s is not None and left_s < (cost_s := block_cost_s(block, store)):
        return f"as it takes about {duration(cost_s)} and {duration(left_s)} of the budget are left"
    return ""
