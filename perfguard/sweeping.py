"""The story of `sweep`: settings of environment and parameters, measured in rounds until the best is told.

One checkout serves all settings, so that nothing but the settings differs. Holds no formula and no output.
"""

import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from functools import partial
from statistics import median
from typing import Any

from perfguard.campaign import Request, plan_campaign
from perfguard.comparable import refuse_other_conditions
from perfguard.errors import BuildError, UsageError
from perfguard.experiment import (
    Observer,
    Session,
    clear_leftovers,
    longest_pause_s,
    waiting_for_machine,
    with_spares,
)
from perfguard.judging import WARM_STAGE, last_attempts
from perfguard.launching import Launcher
from perfguard.pricing import calibrated_clock_mhz
from perfguard.records import BlockPlan, Campaign, Reason, Trial
from perfguard.settings import Setting, label
from perfguard.stats.plan import LETTERS, plan_round
from perfguard.store import Store
from perfguard.subject.repository import Repository
from perfguard.subject.workspace import open_workspace
from perfguard.sweep_judging import (
    SweepState,
    rules_of_sweep,
    setting_arm,
    settings_of,
    survey_sweep,
    sweep_json,
    trials_of_round,
)
from perfguard.unfinished import marked_if_interrupted
from perfguard.workloads import with_params


def plan_sweep(request: Request, settings: Sequence[Setting], repository: Repository) -> Campaign:
    """Everything known before the first launch. Raises UsageError, also where so few rounds can tell nothing."""
    for setting in settings:
        with_params(request.workload, setting.params)
    campaign = plan_campaign(request, repository)
    campaign = replace(campaign, method={**campaign.method, "settings": [asdict(setting) for setting in settings]})
    rules = rules_of_sweep(campaign)
    if not rules.of_all and not rules.of_pair:
        text = f"{rules.max_rounds} rounds of {len(settings)} settings cannot tell any of them from the best"
        raise UsageError(text, "give more --max-rounds, or fewer settings")
    return campaign


def planned_rounds(campaign: Campaign) -> list[BlockPlan]:
    """Every round with its spares, drawn from the seed before anything runs."""
    num_settings = len(campaign.method["settings"])
    return [plan_round(campaign.seed, k, num_settings) for k in range(with_spares(campaign.policy["max_rounds"]))]


def sweep(campaign: Campaign, repository: Repository, store: Store, observer: Observer) -> dict[str, Any]:
    """The ranking, stored too. Raises Interrupted with the command that resumes."""
    store.add_campaign(campaign)
    store.add_blocks(campaign.id, planned_rounds(campaign))
    return _measure(campaign, repository, store, observer)


def resume_sweep(campaign_id: str, repository: Repository, store: Store, observer: Observer) -> dict[str, Any]:
    """Go on where a sweep was interrupted, with the orders that were drawn then."""
    campaign = store.campaign(campaign_id)
    if campaign.kind != "sweep":
        raise UsageError(f"{campaign.id} is a {campaign.kind}, not a sweep", "perfguard runs")
    refuse_other_conditions(campaign)
    return _measure(campaign, repository, store, observer)


def _measure(campaign: Campaign, repository: Repository, store: Store, observer: Observer) -> dict[str, Any]:
    clear_leftovers(observer)
    plans, trials = store.blocks(campaign.id), store.trials(campaign.id)
    next_step = f"perfguard sweep --resume {campaign.id} --db {store.path}"
    with (
        marked_if_interrupted(campaign, trials, store, next_step),
        waiting_for_machine(campaign, observer, sm_mhz=calibrated_clock_mhz(campaign, store)) as machine,
        open_workspace() as workspace,
    ):
        launcher = Launcher(campaign=campaign, repository=repository, workspace=workspace, machine=machine)
        session = Session(
            campaign=campaign, plans=plans, trials=trials, store=store, launcher=launcher, observer=observer
        )
        stopped = _measure_rounds(session)
    result = sweep_json(campaign, plans, trials, stopped=stopped)
    store.add_verdict(campaign.id, result)
    store.set_status(campaign.id, "finished")
    return result


def _measure_rounds(session: Session) -> str:
    """Returns why it stopped before the end: "budget", or ""."""
    (arm,) = session.campaign.arms
    for line in session.launcher.make_build(arm, 1):
        session.observer.say(line)
    state = survey_sweep(session.campaign, session.plans, session.trials)
    _first_runs(session, state)
    state = survey_sweep(session.campaign, session.plans, session.trials)
    while (plan := state.next_round) is not None:
        if _is_over_budget(session, state):
            return "budget"
        _run_round(session, plan, state)
        before, state = state, survey_sweep(session.campaign, session.plans, session.trials)
        _tell(session, before, state)
    return ""


def _first_runs(session: Session, state: SweepState) -> None:
    """Every live setting once, unmeasured: it fills caches, and shows which settings do not run at all."""
    for k in state.standing.live:
        session.run(partial(_first_run, session, k))


def _first_run(session: Session, setting: int, attempt: int) -> Trial:
    arm = setting_arm(session.campaign, settings_of(session.campaign)[setting])
    where: dict[str, Any] = {"stage": WARM_STAGE, "block": 1, "slot": setting, "attempt": attempt}
    started = datetime.now(UTC)
    try:
        return session.launcher.measure_setting(arm, **where)
    except BuildError as error:  # this setting cannot be measured, the others may
        return Trial(
            id=f"{session.campaign.id}-s0b1t{setting}a{attempt}-{started:%H%M%S%f}",
            side=arm.side,
            build=1,
            status="crashed",
            started_at=started.isoformat(),
            wall_s=(datetime.now(UTC) - started).total_seconds(),
            measured_s=0.0,
            values={},
            reasons=(Reason(code="unbuildable", text=str(error)),),
            **where,
        )


def _run_round(session: Session, plan: BlockPlan, state: SweepState) -> None:
    """The live settings in the order drawn, without what an interruption left measured; ends where one fails."""
    counted = last_attempts(session.trials)
    before = trials_of_round(plan, counted, state.standing.live)
    for slot, letter in enumerate(plan.order):
        k = LETTERS.index(letter)
        earlier = before.get(k)
        if k not in state.standing.live or (earlier is not None and earlier.status == "ok"):
            continue
        arm = setting_arm(session.campaign, settings_of(session.campaign)[k])
        launch = partial(_launch, session, plan, slot, k, arm)
        attempt = 0 if earlier is None else earlier.attempt + 1
        trial = session.run(launch, plan.pauses[slot] * longest_pause_s(session), attempt)
        if trial.status != "ok":
            return


def _launch(session: Session, plan: BlockPlan, slot: int, setting: int, arm: Any, attempt: int) -> Trial:
    return session.launcher.measure_setting(arm, stage=plan.stage, block=plan.index, slot=slot, attempt=attempt)


def _is_over_budget(session: Session, state: SweepState) -> bool:
    """No round is begun that would end beyond the budget, judged by the launches so far."""
    budget_s = session.policy.budget_s
    if not budget_s:
        return False
    launch_s = median([trial.wall_s for trial in session.trials]) + longest_pause_s(session) / 2
    return time.monotonic() - session.started_s + len(state.standing.live) * launch_s > budget_s


def _tell(session: Session, before: SweepState, after: SweepState) -> None:
    names = settings_of(session.campaign)
    for drop in after.standing.drops[len(before.standing.drops) :]:
        session.observer.say(f"round {drop.rounds}: {label(names[drop.setting])} is slower than the best: dropped")
    for k in after.broken.keys() - before.broken.keys():
        session.observer.say(f"{label(names[k])} does not run: {after.broken[k][0].text}")
    session.observer.note(f"round {len(after.rows)}: {len(after.standing.live)} settings left")
