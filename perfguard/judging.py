"""Stored plans and trials -> a verdict. Pure, so that `replay` re-derives every verdict from results.db alone.

Trials of stage 0 are the unmeasured first runs of each build: they fill caches and prove what was loaded.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from perfguard.comparison import comparison_json
from perfguard.conclusions import STARVED, conclusions, next_step
from perfguard.conditions.assessment import Assessment, assess, conditions_json, links_of
from perfguard.conditions.effects import with_findings
from perfguard.engine_facts import engine_json, engine_note
from perfguard.full_size import block_decision, block_sentence
from perfguard.modes import are_compared
from perfguard.origin import OriginJudgement, judge_origin
from perfguard.payoff import in_words, payoff
from perfguard.policy import Policy, stored_policy
from perfguard.records import (
    BlockPlan,
    BlockValues,
    Campaign,
    Decision,
    Extension,
    Metric,
    Outcome,
    Reason,
    Side,
    Trial,
)
from perfguard.scopes import promise_reasons, resident_reasons, scoped_decision, scoped_sentence
from perfguard.speculation import speculation
from perfguard.stats.extension import current_policy, suspicion_stage
from perfguard.stats.reasons import extended
from perfguard.stats.sentences import sentence
from perfguard.stats.verdict import verdict
from perfguard.step_times import step_times
from perfguard.withheld import withhold_change, withhold_equivalence

# What a busy machine does to an engine's client, and what the next launch may not meet.
PASSING = {STARVED, "server_disagrees"}
WARM_STAGE = 0


@dataclass(frozen=True, kw_only=True)
class Survey:
    """Where a campaign stands: complete blocks in the order they ran, void ones, and plans not yet complete."""

    blocks: tuple[BlockValues, ...]
    void: tuple[BlockPlan, ...]
    pending: tuple[BlockPlan, ...]


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """The decision so far. `next_plan` is the block to measure while it is not done; `blocks_left` least and most.

    `bare` is the decision without what the machine did to the arms, which is judged anew when measuring stops early.
    """

    decision: Decision
    bare: Decision
    assessment: Assessment
    survey: Survey
    next_plan: BlockPlan | None
    blocks_left: tuple[int, int]


def judge(
    campaign: Campaign, plans: Sequence[BlockPlan], trials: Sequence[Trial], extensions: Sequence[Extension] = ()
) -> Judgement:
    """What all trials so far say, and what to measure next. `extensions` registered so far, by number from 1."""
    policy = stored_policy(campaign.policy)
    survey = survey_blocks(campaign, plans, trials)
    origin = origin_judgements(campaign, trials)
    assessment = assess(policy.gates, trials, links_of(campaign))
    origins = (reason for o in origin for reason in o.reasons)
    lost = resident_reasons(campaign.scope, trials)
    invalid = (*first_run_reasons(policy, trials), *lost, *assessment.stops, *origins)
    decision = verdict(
        policy,
        campaign.workload.metrics,
        survey.blocks,
        trials,
        num_void=len(survey.void),
        seed=campaign.seed,
        slow_rate=policy.slow_rate,
        invalid=tuple(dict.fromkeys(invalid)),
        extensions=extensions,
    )
    if decision.outcome is Outcome.INVALID:
        failed = [r for r in failed_trial_reasons(trials) if r.code not in {stop.code for stop in assessment.stops}]
        decision = replace(decision, reasons=(*decision.reasons, *failed))
    if not all(o.is_proven for o in origin):
        decision = withhold_equivalence(decision, next(o.note for o in origin if not o.is_proven))
    decision = withhold_change(campaign, decision)
    bare, decision = decision, with_findings(decision, assessment.of_arms, policy.margin)
    first = suspicion_stage(len(extensions))
    stage = {"measure": first, "confirm": first + 1}.get(decision.state)
    return Judgement(
        decision=decision,
        bare=bare,
        assessment=assessment,
        survey=survey,
        next_plan=next((plan for plan in survey.pending if plan.stage == stage), None),
        blocks_left=_blocks_left(current_policy(policy, extensions), decision, survey.blocks, first),
    )


def _blocks_left(
    policy: Policy, decision: Decision, blocks: Sequence[BlockValues], first_stage: int
) -> tuple[int, int]:
    if decision.state == "done":
        return 0, 0
    most = policy.max_confirm_blocks if policy.is_confirmed else 0
    most -= sum(block.stage == first_stage + 1 for block in blocks)
    if decision.state == "measure":
        most += policy.max_blocks - sum(block.stage == first_stage for block in blocks)
    return 1, most


def last_attempts(trials: Sequence[Trial]) -> dict[tuple[int, int, int], Trial]:
    """(stage, block, slot) -> the trial that counts: the last attempt. Trials come in the order they ran."""
    return {(t.stage, t.block, t.slot): t for t in trials}


def may_retry(trial: Trial, policy: Policy) -> bool:
    """A launch that died before its measured window is started again in its slot, its order kept; an unmeasured first
    run, of which no value is used, also where the machine was too busy for its client."""
    if trial.attempt >= policy.max_retries:
        return False
    if trial.status == "crashed":
        return bool(trial.record.get("before_ready"))
    codes = {reason.code for reason in trial.reasons}
    return trial.stage == WARM_STAGE and trial.status == "invalid" and bool(codes) and codes <= PASSING


def survey_blocks(campaign: Campaign, plans: Sequence[BlockPlan], trials: Sequence[Trial]) -> Survey:
    """Sort planned blocks into complete, void and pending. Statuses decide, values never do."""
    counted = last_attempts(trials)
    policy = stored_policy(campaign.policy)
    blocks, void, pending = [], [], []
    for plan in sorted(plans, key=lambda p: (p.stage, p.index)):
        found = (counted.get((plan.stage, plan.index, slot)) for slot in range(4))
        ran = [trial for trial in found if trial is not None]
        if any(trial.status != "ok" and not may_retry(trial, policy) for trial in ran):
            void.append(plan)
        elif len(ran) == 4 and all(trial.status == "ok" for trial in ran):
            blocks.append(_block_values(plan, campaign.workload.metrics, ran))
        else:
            pending.append(plan)
    return Survey(blocks=tuple(blocks), void=tuple(void), pending=tuple(pending))


def _block_values(plan: BlockPlan, metrics: Sequence[Metric], ran: Sequence[Trial]) -> BlockValues:
    one, two, three, four = ran
    values = {m.name: tuple(t.values[m.name] for t in (one, two, three, four)) for m in metrics}
    return BlockValues(
        stage=plan.stage,
        index=plan.index,
        order=plan.order,
        builds=plan.builds,
        values=values,  # type: ignore[arg-type]  # four trials, four values
    )


def first_run_reasons(policy: Policy, trials: Sequence[Trial]) -> list[Reason]:
    """Why a side cannot be measured at all: its unmeasured first run did not work."""
    first_runs = [t for key, t in last_attempts(trials).items() if key[0] == WARM_STAGE]
    return [
        Reason(code=reason.code, text=f"first run of {trial.side}: {reason.text}")
        for trial in first_runs
        if trial.status != "ok" and not may_retry(trial, policy)
        for reason in trial.reasons
    ]


def failed_trial_reasons(trials: Sequence[Trial]) -> list[Reason]:
    """What went wrong in measured trials: how often by side and kind, and in the words of the first."""
    found: dict[tuple[Side, str], list[Reason]] = {}
    for trial in trials:
        if trial.stage > WARM_STAGE and trial.status != "ok":
            for reason in trial.reasons:
                found.setdefault((trial.side, reason.code), []).append(reason)
    return [
        Reason(code=code, text=f"{len(same)} launch{'es' if len(same) > 1 else ''} of {side}: {same[0].text}")
        for (side, code), same in found.items()
    ]


def origin_judgements(campaign: Campaign, trials: Sequence[Trial]) -> list[OriginJudgement]:
    """For each pair of builds, and for each launch that held both: did each side run its own commit's code?"""
    pairs: dict[int | str, dict[Side, Trial]] = {}
    for trial in last_attempts([t for t in trials if t.stage == WARM_STAGE]).values():
        pairs.setdefault(trial.build, {})[trial.side] = trial
    for trial in trials:
        if trial.status == "ok" and "launch" in trial.record:
            pairs.setdefault(trial.record["launch"], {})[trial.side] = trial
    return [_judge_pair(campaign, pair) for pair in pairs.values() if len(pair) == len(campaign.arms) == 2]


def _judge_pair(campaign: Campaign, pair: Mapping[Side, Trial]) -> OriginJudgement:
    return judge_origin(
        changed_files=campaign.method["changed_files"],
        repo_modules=campaign.method["repo_modules"],
        repo_root=campaign.repository,
        checkouts={side: str(trial.record["checkout"]) for side, trial in pair.items()},
        loaded_by_arm={side: trial.record.get("origin") for side, trial in pair.items()},
        command=campaign.workload.command,
        is_package=campaign.workload.runner == "engine",
    )


def verdict_json(
    campaign: Campaign,
    plans: Sequence[BlockPlan],
    trials: Sequence[Trial],
    *,
    extensions: Sequence[Extension] = (),
    stopped: str = "",
) -> dict[str, Any]:
    """The JSON of the comparison as it stands. `stopped`: why measuring ended before a decision ("budget")."""
    judgement = judge(campaign, plans, trials, extensions)
    gates = stored_policy(campaign.policy).gates
    stood = with_stop(judgement.bare, stopped)
    ended = with_extensions(with_findings(stood, judgement.assessment.of_arms, campaign.policy["margin"]), extensions)
    ended = replace(ended, reasons=(*promise_reasons(campaign), *ended.reasons))
    decision = block_decision(scoped_decision(ended, campaign.scope), campaign)
    num_blocks = len(judgement.survey.blocks)
    notes = [o.note for o in origin_judgements(campaign, trials) if o.note]
    said = sentence(decision, margin=campaign.policy["margin"], num_blocks=num_blocks)
    engine = engine_json(trials, is_pinned=bool(campaign.method.get("pinned_args")))
    comparison = comparison_json(
        campaign,
        decision,
        trials,
        used_blocks=num_blocks,
        void_blocks=len(judgement.survey.void),
        sentence=block_sentence(scoped_sentence(said, decision, campaign.scope), decision, campaign),
        conclusions=conclusions(
            campaign, decision, origin_note=notes[0] if notes else "", engine_note=engine_note(engine)
        ),
        next_step=next_step(campaign, decision),
        stopped=stopped,
    )
    if are_compared(campaign):
        told = payoff(campaign, judgement.survey.blocks, counted_trials(judgement.survey.blocks, trials), decision)
        comparison |= in_words(campaign, comparison, decision, said, told)
    more = {
        "extensions": [asdict(extension) for extension in extensions],
        "cached_builds": cached_builds(trials),
        **taken_apart(campaign, judgement.survey.blocks, trials, decision.outcome),
        "conditions": conditions_json(campaign, trials, gates, judgement.assessment),
        "engine": engine,
    }
    return {**comparison, **more}


def cached_builds(trials: Sequence[Trial]) -> list[dict[str, str]]:
    """First builds that an earlier campaign made: side, when, and key. A resumed campaign may have several."""
    first_runs = [t for t in trials if t.stage == WARM_STAGE and t.record.get("built", {}).get("from_cache")]
    found = [(t.side, str(t.record["built"]["at"]), str(t.record["built"]["key"])) for t in first_runs]
    return [{"side": side, "built_at": at, "key": key} for side, at, key in dict.fromkeys(found)]


def taken_apart(
    campaign: Campaign, blocks: Sequence[BlockValues], trials: Sequence[Trial], outcome: Outcome
) -> dict[str, list[dict[str, Any]]]:
    """By mode: what lies in accept length and what in cycle time; parts of a step. Nothing where nothing compares."""
    if outcome is Outcome.INVALID:
        return {"speculation": [], "steps": []}
    counted = counted_trials(blocks, trials)
    steps = () if are_compared(campaign) else step_times(campaign.workload.modes, counted)
    found: dict[str, Sequence[Any]] = {"speculation": speculation(campaign, blocks, counted), "steps": steps}
    return {name: [asdict(one) for one in several] for name, several in found.items()}


def counted_trials(blocks: Sequence[BlockValues], trials: Sequence[Trial]) -> list[Trial]:
    """The trials that these blocks consist of, in the order they ran."""
    whole = {(block.stage, block.index) for block in blocks}
    return [trial for trial in last_attempts(trials).values() if (trial.stage, trial.block) in whole]


def with_extensions(decision: Decision, extensions: Sequence[Extension]) -> Decision:
    """Says last that the comparison was extended: what it found rests on more looks than it was planned with."""
    found = tuple(extended(extension) for extension in extensions)
    return replace(decision, reasons=(*decision.reasons, *found))


def with_stop(decision: Decision, stopped: str) -> Decision:
    """A decision that did not come in time: what it is now, with the reason it went no further."""
    if decision.state == "done" or not stopped:
        return decision
    text = "stopped when the budget was used up" if stopped == "budget" else f"stopped: {stopped}"
    outcome = Outcome.SUSPECT if decision.state == "confirm" else decision.outcome
    reasons = (Reason(code="STOPPED", text=text), *decision.reasons)
    return replace(decision, state="done", outcome=outcome, reasons=reasons)
