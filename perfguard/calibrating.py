"""The story of `calibrate`: one revision against itself in random blocks, then a slowdown that must be found.

Joins the edges with the pure parts. Holds no formula; what the numbers mean is stats/calibration.py.
"""

from dataclasses import asdict, replace
from datetime import UTC, datetime
from typing import Any

from perfguard.calibration import FOUND, Control, Findings, calibration_json, findings_of, primaries_of
from perfguard.campaign import Request, new_id, plan_campaign
from perfguard.clock_search import search_clock
from perfguard.errors import UsageError
from perfguard.experiment import (
    Observer,
    Session,
    clear_leftovers,
    conclude,
    is_over_budget,
    measure_block,
    planned_blocks,
    prepare,
    waiting_for_machine,
)
from perfguard.judging import Judgement, verdict_json
from perfguard.launching import Launcher
from perfguard.policy import Policy
from perfguard.records import BlockPlan, BlockValues, Outcome, Trial
from perfguard.stats.calibration import control_slowdown, slowed
from perfguard.stats.sequential import decide
from perfguard.store import Store
from perfguard.subject.repository import Repository
from perfguard.subject.workspace import open_workspace
from perfguard.unfinished import marked_if_interrupted

SLOTS = 4
# A spread between launches of one block needs two blocks to be more than a guess.
LEAST_BLOCKS = 2
# A control gets a second look where the A/A is short.
LEAST_CONTROL_BLOCKS = 4
# Runner -> the parameter that makes it slower by a factor. The others have none: their control is computed.
PLANTED = {"tp_moe": "planted_slowdown", "fake": "slowdown"}


def calibrate(
    request: Request, num_launches: int, repository: Repository, store: Store, observer: Observer
) -> dict[str, Any]:
    """A/A over `num_launches` (in whole blocks) of the request's two equal sides, then the control.

    Returns the calibration (perfguard/calibration@1), stored too. Raises what a comparison raises.
    """
    if not primaries_of(request.workload.metrics):
        raise UsageError(f"{request.workload.name} has no primary metric with noise", "perfguard workloads")
    num_blocks = max(LEAST_BLOCKS, -(-num_launches // SLOTS))
    campaign = plan_campaign(replace(request, policy=_with_blocks(request.policy, num_blocks)), repository)
    store.add_campaign(campaign)
    store.add_blocks(campaign.id, planned_blocks(campaign))
    clear_leftovers(observer)
    trials: list[Trial] = []
    with (
        marked_if_interrupted(campaign, trials, store, f"perfguard show {campaign.id} --db {store.path}"),
        waiting_for_machine(campaign, observer) as machine,
        open_workspace() as workspace,
    ):
        launcher = Launcher(campaign=campaign, repository=repository, workspace=workspace, machine=machine)
        plans = store.blocks(campaign.id)
        session = Session(
            campaign=campaign, plans=plans, trials=trials, store=store, launcher=launcher, observer=observer
        )
        prepare(session, session.plans[0])
        clocks = search_clock(session)
        stopped = _measure_aa(session, num_blocks)
        aa = verdict_json(campaign, plans, trials, stopped=stopped)
        findings = _findings(session, request.policy, Outcome(aa["outcome"]))
        control = None if findings is None else _control(session, findings)
    calibration = {**calibration_json(campaign, aa, trials, findings, control), "clocks": clocks}
    store.add_verdict(campaign.id, calibration)
    store.set_status(campaign.id, "finished")
    return calibration


def _with_blocks(policy: Policy, num_blocks: int) -> Policy:
    """Confirmation keeps its length: where it is too short for alpha, nothing would even be suspected."""
    return replace(policy, max_blocks=num_blocks, max_confirm_blocks=max(policy.max_confirm_blocks, num_blocks))


def _measure_aa(session: Session, num_blocks: int) -> str:
    """All of the A/A, whatever is decided meanwhile; where it looks like a change, confirmation as for any comparison.

    Returns why it stopped before its end: "budget", or "".
    """
    judgement = session.judge()
    while (plan := _next_of_aa(judgement, num_blocks)) is not None:
        if is_over_budget(session, plan):
            return "budget"
        judgement = measure_block(session, plan)
    return ""


def _next_of_aa(judgement: Judgement, num_blocks: int) -> BlockPlan | None:
    if judgement.decision.outcome is Outcome.INVALID:
        return None
    if len(_stage_one(judgement)) < num_blocks:
        return next((plan for plan in judgement.survey.pending if plan.stage == 1), None)
    return judgement.next_plan if judgement.decision.state == "confirm" else None


def _stage_one(judgement: Judgement) -> list[BlockValues]:
    return [block for block in judgement.survey.blocks if block.stage == 1]


def _findings(session: Session, asked: Policy, aa: Outcome) -> Findings | None:
    """None where there are too few whole blocks."""
    blocks = _stage_one(session.judge())
    if len(blocks) < LEAST_BLOCKS:
        return None
    return findings_of(asked, session.campaign.workload.metrics, blocks, session.trials, aa)


def _control(session: Session, findings: Findings) -> Control:
    """The positive control: a planted slowdown of head, by the same engine, at the margin to be used here."""
    planted = control_slowdown(findings.policy.margin)
    if session.judge().decision.outcome is Outcome.INVALID:
        return Control(how="the A/A is invalid", planted=planted, slowdowns={})
    if session.campaign.workload.runner not in PLANTED:
        return _computed_control(session, findings, planted)
    if is_over_budget(session, session.plans[0]):
        return Control(how="the budget was used up", planted=planted, slowdowns={})
    session.observer.say(f"control: head slowed by {100 * (planted - 1):.3g} %, which must be found")
    return _measured_control(session, findings, planted)


def _computed_control(session: Session, findings: Findings, planted: float) -> Control:
    """Neither a command nor an engine can be slowed from outside: head's values of the A/A are multiplied, and judged
    again.
    """
    what = "a command" if session.campaign.workload.runner == "command" else "an engine"
    metrics = [metric for metric in session.campaign.workload.metrics if not metric.exact]
    blocks = slowed(_stage_one(session.judge()), metrics, planted)
    decision = decide(_with_blocks(findings.policy, len(blocks)), metrics, blocks, seed=session.campaign.seed)
    slowdowns = {result.metric.name: result.slowdown for result in decision.metrics if result.metric.primary}
    return Control(
        how=f"computed from the A/A launches, not measured: {what} cannot be slowed from outside",
        planted=planted,
        is_found=all(result.outcome in FOUND for result in decision.metrics if result.metric.primary),
        slowdowns=slowdowns,
        num_launches=SLOTS * len(blocks),
    )


def _measured_control(session: Session, findings: Findings, planted: float) -> Control:
    """Until it is suspected, with the builds of the A/A; a confirmation would add nothing."""
    control = _control_session(session, findings, planted)
    campaign, stopped = control.campaign, "a control is not confirmed"
    with marked_if_interrupted(campaign, control.trials, control.store, f"perfguard show {campaign.id}"):
        judgement = control.judge()
        while judgement.decision.state == "measure" and judgement.next_plan is not None:
            if is_over_budget(control if control.trials else session, judgement.next_plan):
                stopped = "budget"
                break
            judgement = measure_block(control, judgement.next_plan)
    comparison = conclude(control, stopped)
    names = {metric.name for metric in primaries_of(campaign.workload.metrics)}
    results = [result for result in comparison["metrics"] if result["name"] in names]
    return Control(
        how="measured",
        planted=planted,
        is_found=all(result["outcome"] in FOUND for result in results),
        slowdowns={result["name"]: result["slowdown"] for result in results},
        num_launches=len(control.trials),
        id=campaign.id,
    )


def _control_session(session: Session, findings: Findings, planted: float) -> Session:
    """A campaign of its own, so that no planted slowness is ever taken for a measurement of this revision."""
    aa = session.campaign
    base, head = aa.arms
    name = PLANTED[aa.workload.runner]
    own = float(head.params.get(name, aa.workload.params.get(name, 1.0)))
    campaign = replace(
        aa,
        id=new_id(),
        kind="control",
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
        arms=(base, replace(head, params={**head.params, name: own * planted})),
        policy=asdict(_with_blocks(findings.policy, max(LEAST_CONTROL_BLOCKS, aa.policy["max_blocks"]))),
        seed=aa.seed + 1,
        method={**aa.method, "control_of": aa.id},
    )
    session.store.add_campaign(campaign)
    session.store.add_blocks(campaign.id, planned_blocks(campaign))
    return replace(
        session,
        campaign=campaign,
        plans=session.store.blocks(campaign.id),
        trials=[],
        launcher=replace(session.launcher, campaign=campaign),
    )
