"""The story of `extend`: an undecided comparison goes on with fresh orders and the alpha kept back for it.

Holds no formula (stats/extension.py) and measures nothing itself (experiment.py).
"""

import secrets
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from perfguard.comparable import refuse_other_conditions
from perfguard.errors import UsageError
from perfguard.experiment import Observer, measure_to_verdict, with_spares
from perfguard.judging import judge
from perfguard.modes import with_one_build
from perfguard.policy import Policy, stored_policy
from perfguard.records import BlockPlan, Campaign, Extension, Outcome
from perfguard.stats.design import choose_design
from perfguard.stats.extension import extension_policy, suspicion_stage
from perfguard.stats.plan import plan_block
from perfguard.store import Store
from perfguard.subject.repository import Repository

MAY_GO_ON = (Outcome.INCONCLUSIVE, Outcome.SUSPECT)


@dataclass(frozen=True, kw_only=True)
class PlannedExtension:
    """What will be registered: nothing is stored yet. `policy` is the extension's own."""

    campaign: Campaign
    extension: Extension
    policy: Policy
    plans: tuple[BlockPlan, ...]

    @property
    def can_report(self) -> bool:
        """False where so few blocks cannot be beyond luck at the extension's alpha: EQUIVALENT is all it can end in."""
        num_primaries = sum(metric.primary for metric in self.campaign.workload.metrics)
        return bool(choose_design(self.policy, num_primaries).looks)


def plan_extension(
    wanted: str, store: Store, *, max_blocks: int | None, budget_s: float, seed: int | None = None
) -> PlannedExtension:
    """The next extension of a stored comparison. Raises UsageError where it may not be extended, NotComparableError on
    another machine or with another version of the runner."""
    campaign = store.campaign(wanted)
    _refuse_decided(campaign, store)
    refuse_other_conditions(campaign)
    policy, extensions = stored_policy(campaign.policy), store.extensions(campaign.id)
    size = max(Policy().max_blocks, policy.max_blocks) if max_blocks is None else max_blocks
    extension = Extension(
        number=len(extensions) + 1,
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
        seed=secrets.randbits(31) if seed is None else seed,
        max_blocks=size,
        max_confirm_blocks=max(2, size),
        budget_s=budget_s,
    )
    planned = PlannedExtension(
        campaign=campaign,
        extension=extension,
        policy=extension_policy(policy, extension),
        plans=tuple(with_one_build(campaign, planned_blocks(extension, policy.confirm_builds))),
    )
    plans = (*store.blocks(campaign.id), *planned.plans)
    if judge(campaign, plans, store.trials(campaign.id), (*extensions, extension)).next_plan is None:
        raise UsageError(f"{campaign.id}: every primary metric is decided, nothing is left to measure", _show(campaign))
    return planned


def extend(planned: PlannedExtension, repository: Repository, store: Store, observer: Observer) -> dict[str, Any]:
    """Register the extension, then measure on, to a verdict that is stored beside the earlier ones."""
    store.add_extension(planned.campaign.id, planned.extension, planned.plans)
    return measure_to_verdict(planned.campaign, repository, store, observer)


def planned_blocks(extension: Extension, confirm_builds: int) -> list[BlockPlan]:
    """Both stages with their spares, drawn before anything runs. As in the original, suspicion uses build 1 only."""
    first = suspicion_stage(extension.number)
    sizes = {first: extension.max_blocks, first + 1: extension.max_confirm_blocks}
    drawn = [
        plan_block(extension.seed, stage, index, confirm_builds)
        for stage, size in sizes.items()
        for index in range(with_spares(size))
    ]
    return [replace(plan, builds="1111") if plan.stage == first else plan for plan in drawn]


def _refuse_decided(campaign: Campaign, store: Store) -> None:
    if campaign.kind != "compare":
        raise UsageError(f"{campaign.id} is a {campaign.kind}, not a comparison", "perfguard runs")
    verdict = store.latest_verdict(campaign.id)
    is_judged = verdict is not None and len(verdict.get("extensions", ())) == len(store.extensions(campaign.id))
    if verdict is None or not is_judged or store.status(campaign.id) != "finished":
        raise UsageError(f"{campaign.id} has not been measured to its end", f"perfguard compare --resume {campaign.id}")
    if verdict["outcome"] not in MAY_GO_ON:
        allowed = " or ".join(MAY_GO_ON)
        raise UsageError(f"{campaign.id} ended {verdict['outcome']}; only {allowed} can be extended", _show(campaign))
    if not stored_policy(campaign.policy).extension_share:
        text = f"{campaign.id} kept no share of alpha back for an extension (extension_share is 0)"
        raise UsageError(text, "start a new comparison")


def _show(campaign: Campaign) -> str:
    return f"perfguard show {campaign.id}"
