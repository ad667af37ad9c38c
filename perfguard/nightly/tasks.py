"""One comparison of a night: planned with its price, then measured, gone on with, or left out. Holds no decision."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from perfguard import experiment
from perfguard.bundle import runner_fingerprint
from perfguard.campaign import Request, Wish, plan_campaign
from perfguard.comparable import refuse_other_conditions
from perfguard.errors import NotComparableError
from perfguard.policy import stored_policy
from perfguard.pricing import basis_of
from perfguard.records import Campaign, Revision, Workload
from perfguard.stats.prices import price_list
from perfguard.store import NightRun, Store
from perfguard.store.codec import digest
from perfguard.subject.repository import Repository
from perfguard.workloads import built_in_paths


@dataclass(frozen=True, kw_only=True)
class Task:
    """`need_s`: what it will probably take. `run` is what the night stores of it; `begun` that it is stored already."""

    campaign: Campaign
    run: NightRun
    need_s: float
    begun: bool = False


def plan_task(
    workload: Workload, pin: str, head: Revision, request: Request, repository: Repository, *, is_link: bool
) -> Campaign:
    """Head against `pin`; a link only needs numbers, so that it confirms nothing."""
    wishes = (Wish(side="base", revision=pin), Wish(side="head", revision=head.commit))
    policy = replace(request.policy, is_confirmed=False) if is_link else request.policy
    return plan_campaign(replace(request, workload=workload, wishes=wishes, policy=policy), repository)


def price_s(campaign: Campaign, store: Store) -> float:
    """Seconds to the likely end: an unchanged head found equivalent, else all blocks of stage one."""
    policy = stored_policy(campaign.policy)
    basis = basis_of(campaign, policy, store)
    num_primaries = max(1, sum(metric.primary for metric in campaign.workload.metrics))
    prices = price_list(policy, num_primaries, basis.cost, sd=basis.noise, slow_rate=policy.slow_rate)
    return prices.cost.setup_s + (prices.likely_equivalent or policy.max_blocks) * prices.block_s


def code_of(workload: Workload, head: Revision, repository: Repository) -> str:
    """What the workload loads of a commit, and what measures it how; equal where measuring again tells nothing new."""
    paths = () if workload.setup else built_in_paths(workload)
    program = "" if workload.runner == "command" else runner_fingerprint()
    what = [repository.code(head, paths), asdict(workload), program]
    return hashlib.sha256(json.dumps(what, sort_keys=True, default=str).encode()).hexdigest()


def machine_of(campaign: Campaign) -> str:
    """The fingerprint under which the database keeps this campaign's machine."""
    return digest(campaign.machine)


def measure(
    task: Task, budget_s: float, repository: Repository, store: Store, observer: experiment.Observer
) -> Mapping[str, Any]:
    """The comparison's JSON. What was begun goes on; where the machine has changed since, it cannot and starts anew."""
    if task.begun:
        verdict = store.latest_verdict(task.campaign.id)
        return verdict if verdict is not None else experiment.resume(task.campaign.id, repository, store, observer)
    campaign = replace(task.campaign, policy={**task.campaign.policy, "budget_s": budget_s})
    store.add_campaign(campaign)
    store.add_blocks(campaign.id, experiment.planned_blocks(campaign))
    store.nights.add_run(task.run)
    return experiment.measure_to_verdict(campaign, repository, store, observer)


def begun_run(runs: Sequence[NightRun], workload: str, pin: str, store: Store) -> NightRun | None:
    """What an interrupted night has of this task, if it can still go on."""
    found = next((run for run in reversed(runs) if (run.workload, run.pin) == (workload, pin)), None)
    if found is None or found.outcome or store.latest_verdict(found.campaign) is not None:
        return found
    try:
        refuse_other_conditions(store.campaign(found.campaign))
    except NotComparableError:
        return None
    return found
