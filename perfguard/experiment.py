"""The main story, readable top to bottom: plan, measure block after block, judge after each, conclude.

Joins the edges (git, processes, machine, database) with the pure decisions. Holds no formula and no output.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from math import ceil, inf
from statistics import median
from typing import Any, Protocol

from perfguard.comparable import refuse_other_conditions
from perfguard.conditions.assessment import links_of
from perfguard.conditions.readings import start_temperatures
from perfguard.conditions.trial_gates import gated
from perfguard.conditions.waits import cooldown_s
from perfguard.errors import UsageError
from perfguard.holding import InHand, in_hand
from perfguard.judging import Judgement, judge, last_attempts, may_retry, verdict_json
from perfguard.launching import Launcher, launching
from perfguard.machine.hold import Holder, hold_machine
from perfguard.machine_history import remember, with_links
from perfguard.modes import with_one_build
from perfguard.policy import Policy, stored_policy
from perfguard.pricing import calibrated_clock_mhz
from perfguard.records import Arm, BlockPlan, Campaign, Decision, Extension, Trial
from perfguard.scopes import is_one_launch
from perfguard.stats.extension import current_policy
from perfguard.stats.plan import build_order, builds_of, plan_block
from perfguard.store import Store
from perfguard.subject.repository import Repository
from perfguard.subject.workspace import open_workspace, sweep_leftovers
from perfguard.unfinished import marked_if_interrupted, resume_command

# Blocks planned beyond the longest comparison, to replace void ones.
SPARE_SHARE = 0.5
# A launch that takes longer is not made only to tell what else is wrong.
DEAR_S = 60.0


class Observer(Protocol):
    """Who watches: a progress display, or nobody."""

    def note(self, text: str) -> None: ...
    def say(self, text: str) -> None: ...
    def trial_ended(self, trial: Trial, cost_s: float) -> None: ...
    def block_ended(
        self, plan: BlockPlan, trials: Sequence[Trial], decision: Decision, least_blocks: int, most_blocks: int
    ) -> None: ...


def compare(campaign: Campaign, repository: Repository, store: Store, observer: Observer) -> dict[str, Any]:
    """Base against head, to a verdict: the JSON of a comparison, stored too. See `campaign.plan_campaign`."""
    campaign = with_links(campaign, store)
    store.add_campaign(campaign)
    store.add_blocks(campaign.id, planned_blocks(campaign))
    return measure_to_verdict(campaign, repository, store, observer)


def resume(campaign_id: str, repository: Repository, store: Store, observer: Observer) -> dict[str, Any]:
    """Go on where a campaign was interrupted, with the orders that were drawn then."""
    campaign = store.campaign(campaign_id)
    if campaign.kind != "compare":
        raise UsageError(f"{campaign.id} is a {campaign.kind}, not a comparison", "perfguard runs")
    refuse_other_conditions(campaign)
    return measure_to_verdict(campaign, repository, store, observer)


def planned_blocks(campaign: Campaign) -> list[BlockPlan]:
    """Every block of both stages with its spares, drawn from the seed before anything runs."""
    sizes = {1: campaign.policy["max_blocks"], 2: campaign.policy["max_confirm_blocks"]}
    places = [(stage, index) for stage, size in sizes.items() for index in range(with_spares(size))]
    builds = campaign.policy["confirm_builds"]
    return with_one_build(campaign, [plan_block(campaign.seed, stage, index, builds) for stage, index in places])


def with_spares(size: int) -> int:
    return size + ceil(size * SPARE_SHARE)


@dataclass(kw_only=True)
class Session:
    """One process measuring one campaign. `trials` mirrors what is stored, in the order it ran. `budget_s`: None for
    the policy's, 0 for none."""
    campaign: Campaign
    plans: list[BlockPlan]
    trials: list[Trial]
    store: Store
    launcher: Launcher
    observer: Observer
    extensions: Sequence[Extension] = ()
    budget_s: float | None = None
    started_s: float = field(default_factory=time.monotonic)

    @property
    def policy(self) -> Policy:
        """Of the part that is being measured: the original or the latest extension."""
        return current_policy(stored_policy(self.campaign.policy), self.extensions)

    def judge(self) -> Judgement:
        return judge(self.campaign, self.plans, self.trials, self.extensions)

    def run(self, launch: Callable[[int], Trial], pause_s: float = 0.0, attempt: int = 0) -> Trial:
        """One slot to its last attempt."""
        return self.run_together(lambda number: (launch(number),), pause_s, attempt)[-1]

    def run_together(
        self, launch: Callable[[int], Sequence[Trial]], pause_s: float = 0.0, attempt: int = 0
    ) -> Sequence[Trial]:
        """The slots of one launch to its last attempt. Each trial is stored at once, so that nothing can lose it."""
        while True:
            started_s = time.monotonic()
            time.sleep(pause_s)
            self._cool_down()
            trials = self._gated(launch(attempt))
            cost_s = (time.monotonic() - started_s) / len(trials)
            for trial in trials:
                self.store.add_trial(self.campaign.id, trial)
                self.trials.append(trial)
                self.observer.trial_ended(trial, cost_s)
            if not any(may_retry(trial, self.policy) for trial in trials):
                return trials
            attempt += 1

    def _cool_down(self) -> None:
        """Wait, for a time that has an end, until the cards are as earlier trials found them. Looks at no value."""
        starts = [start for trial in self.trials if trial.stage > 0 and (start := start_temperatures(trial))]
        if not starts:
            return
        began_s = time.monotonic()
        while wait_s := cooldown_s(self.policy.gates, self.launcher.temperatures(), starts, time.monotonic() - began_s):
            self.observer.note("waiting for the GPU to cool down")
            time.sleep(wait_s)

    def _gated(self, trials: Sequence[Trial]) -> list[Trial]:
        """What the machine was like decides now whether a trial counts; its value is not looked at."""
        return [gated(self.policy.gates, trial, self.trials, links_of(self.campaign)) for trial in trials]


def measure_to_verdict(
    campaign: Campaign, repository: Repository, store: Store, observer: Observer, budget_s: float | None = None
) -> dict[str, Any]:
    """Measure until the verdict stands, for `budget_s` in place of the policy's. Raises Interrupted: how to resume."""
    clear_leftovers(observer)
    trials: list[Trial] = []
    if not store.blocks(campaign.id):  # it ended before its blocks were written; drawn again they are the same
        store.add_blocks(campaign.id, planned_blocks(campaign))
    with (
        marked_if_interrupted(campaign, trials, store, resume_command(campaign, store)),
        waiting_for_machine(campaign, observer, sm_mhz=calibrated_clock_mhz(campaign, store)) as machine,
        open_workspace() as workspace,
        launching(campaign, repository, workspace, machine) as launcher,
    ):
        trials += store.trials(campaign.id)  # now: another process may have gone on with it while we waited
        session = Session(
            campaign=campaign,
            plans=store.blocks(campaign.id),
            trials=trials,
            store=store,
            launcher=launcher,
            observer=observer,
            extensions=store.extensions(campaign.id),
            budget_s=budget_s,
        )
        stopped = _measure_until_decided(session)
    return conclude(session, stopped)


def clear_leftovers(observer: Observer) -> None:
    """What a killed perfguard could not remove is removed by the next one, and said."""
    for folder in sweep_leftovers():
        observer.say(f"removed what an earlier run left in {folder}")


@contextmanager
def waiting_for_machine(campaign: Campaign, observer: Observer, *, sm_mhz: int = 0) -> Iterator[InHand]:
    """One measuring job a machine: a second one waits, and says once for whom. Then clocks and telemetry are set up.

    `sm_mhz`: what a calibration found to hold here; the campaign's own wish goes before it.
    """
    told: list[Holder] = []

    def tell(holder: Holder, waited_s: float) -> None:
        if holder not in told:
            told.append(holder)
            observer.say(f"waiting: this machine is being measured on by {holder}")

    command = f"perfguard {campaign.kind} {campaign.id}"
    with (
        hold_machine(command, wait_s=inf, on_wait=tell) as descriptor,
        in_hand(campaign, descriptor, command, observer.say, sm_mhz=sm_mhz) as machine,
    ):
        yield machine


def conclude(session: Session, stopped: str) -> dict[str, Any]:
    """The verdict on what was measured, stored beside it."""
    campaign, store = session.campaign, session.store
    verdict = verdict_json(campaign, session.plans, session.trials, extensions=session.extensions, stopped=stopped)
    verdict["machine_moved"] = remember(campaign, session.trials, store)
    store.add_verdict(campaign.id, verdict)
    store.set_status(campaign.id, "finished")
    session.observer.note("")  # what is printed next stands on a line of its own
    return verdict


def _measure_until_decided(session: Session) -> str:
    """Returns why it stopped before a decision: "budget", or "" when decided."""
    prepare(session, session.plans[0])
    judgement = session.judge()
    while (plan := judgement.next_plan) is not None:
        if is_over_budget(session, plan):
            return "budget"
        judgement = measure_block(session, plan)
    return ""


def measure_block(session: Session, plan: BlockPlan) -> Judgement:
    """A block with the builds it needs, and what all trials say after it."""
    prepare(session, plan)
    _run_block(session, plan)
    session.launcher.drop_done(plan, session.plans)
    judgement = session.judge()
    ran = [t for t in session.trials if (t.stage, t.block) == (plan.stage, plan.index)]
    session.observer.block_ended(plan, ran, judgement.decision, *judgement.blocks_left)
    return judgement


def prepare(session: Session, plan: BlockPlan) -> None:
    """The builds a block needs and does not have, each with its unmeasured first run; judged as all that is stored."""
    launcher = session.launcher
    missing = _missing_builds(session, plan)
    if missing and plan.stage > 1:
        session.observer.say(f"confirmation: {len(missing)} fresh builds, each run once unmeasured")
    for arm, number in missing:
        session.observer.note(f"build {number} of {arm.side}: {arm.revision.name}")
        for line in launcher.make_build(arm, number):
            session.observer.say(line)
        trial = session.run(partial(launcher.first_run, arm, number))
        if trial.status != "ok" and trial.wall_s > DEAR_S:
            return  # nothing can be compared any more, and what ails the other side is not worth its minutes
    if launcher.pin_arguments(session.trials):  # head again, so that its caches are those of what is measured
        for arm, number in (one for one in missing if one[0].side == "head"):
            session.run(partial(launcher.first_run, arm, number))


def _missing_builds(session: Session, plan: BlockPlan) -> list[tuple[Arm, int]]:
    arms = dict(zip("AB", session.campaign.arms, strict=True))
    drawn = build_order(session.campaign.seed, plan.stage, sorted(set(builds_of(plan.builds))))
    needed = [(arms[letter], number) for letter, number in drawn]
    return [(arm, number) for arm, number in needed if (arm.side, number) not in session.launcher.builds]


def _run_block(session: Session, plan: BlockPlan) -> None:
    """The slots of a block that were not measured before an interruption; ends with the first trial that voids it."""
    before = last_attempts(session.trials)
    if is_one_launch(session.campaign, plan):
        _run_quad(session, plan, before)
        return
    for slot in range(4):
        earlier = before.get((plan.stage, plan.index, slot))
        if earlier is not None and earlier.status == "ok":
            continue
        pause_s = plan.pauses[slot] * longest_pause_s(session)
        attempt = 0 if earlier is None else earlier.attempt + 1
        trial = session.run(partial(session.launcher.measure, plan, slot), pause_s, attempt)
        if trial.status != "ok":
            return


def _run_quad(session: Session, plan: BlockPlan, before: Mapping[tuple[int, int, int], Trial]) -> None:
    """All slots of a block in one launch; where an interruption left only some of them, all are measured again."""
    attempts = [before[key].attempt + 1 for slot in range(4) if (key := (plan.stage, plan.index, slot)) in before]
    pause_s = plan.pauses[0] * longest_pause_s(session)
    session.run_together(partial(session.launcher.measure_quad, plan), pause_s, max(attempts, default=0))


def longest_pause_s(session: Session) -> float:
    """A share of what a trial measures, so that a neighbour with a period near the trial's cannot keep step."""
    measured_s = [trial.measured_s for trial in session.trials if trial.status == "ok"]
    policy = session.policy
    return min(policy.pause_share * median(measured_s), policy.pause_max_s) if measured_s else 0.0


def is_over_budget(session: Session, plan: BlockPlan) -> bool:
    """No block is begun whose cost, judged by the trials so far, would end beyond the budget.

    The unmeasured first runs of builds that it needs are part of its cost.
    """
    if not (budget_s := session.policy.budget_s if session.budget_s is None else session.budget_s):
        return False
    spent_s = time.monotonic() - session.started_s
    num_launches = 4 + len(_missing_builds(session, plan))
    block_s = num_launches * median([trial.wall_s for trial in session.trials]) + 4 * longest_pause_s(session) / 2
    return spent_s + block_s > budget_s
