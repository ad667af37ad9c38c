"""Two short stories on one arm: `run` (values, no verdict) and `recheck` (does this commit give that number now?)."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import Any

from perfguard.campaign import Request, plan_campaign
from perfguard.claims import Claim, judge_claim
from perfguard.comparison import arm_json, reason_json, trials_json, workload_json
from perfguard.errors import EXIT_CODES, EXIT_INVALID, EXIT_OK
from perfguard.experiment import Observer, Session, clear_leftovers, waiting_for_machine
from perfguard.explain import explain_claim
from perfguard.judging import cached_builds
from perfguard.launching import Launcher
from perfguard.pricing import calibrated_clock_mhz
from perfguard.records import BlockPlan, Campaign, Metric, Trial
from perfguard.store import Store
from perfguard.subject.repository import Repository
from perfguard.subject.workspace import open_workspace
from perfguard.unfinished import marked_if_interrupted

RUN_SCHEMA = "perfguard/run@1"
RECHECK_SCHEMA = "perfguard/recheck@1"
SLOTS = 4
# A claim is retired by at most this many launches.
RECHECK_LAUNCHES = 2
# A tolerance beyond which a number that came out again is told with a warning.
COARSE = 0.1
TOO_NOISY = "Launches vary so much here that only a number further off could have been retired."


def run(request: Request, num_trials: int, repository: Repository, store: Store, observer: Observer) -> dict[str, Any]:
    """`num_trials` launches of one revision, stored; values and no verdict."""
    campaign = _plan(request, repository, store, num_trials)
    trials = _measure(campaign, num_trials, None, repository, store, observer)
    return _finish(campaign, trials, store, _run_json(campaign, trials))


def recheck(
    request: Request, metric: Metric, repository: Repository, store: Store, observer: Observer
) -> dict[str, Any]:
    """One launch, and a second if the first does not give the claimed number."""
    campaign = _plan(request, repository, store, RECHECK_LAUNCHES)
    question = Question(metric=metric, claimed=request.claimed or 0.0, noise=_noise(campaign, metric, store))
    trials = _measure(campaign, RECHECK_LAUNCHES, question, repository, store, observer)
    found = _recheck_json(campaign, trials, question)
    # Also with a number that came out again: what was the same then is as good to know.
    found["explanation"] = explain_claim(store, campaign, trials, metric, question.claimed)
    return _finish(campaign, trials, store, found)


@dataclass(frozen=True, kw_only=True)
class Question:
    """A claimed value of a metric. `noise`: launch noise from this machine's history of the workload, if any."""

    metric: Metric
    claimed: float
    noise: float | None


def _plan(request: Request, repository: Repository, store: Store, num_trials: int) -> Campaign:
    campaign = plan_campaign(request, repository)
    store.add_campaign(campaign)
    store.add_blocks(campaign.id, [_plain_block(index) for index in range(-(-num_trials // SLOTS))])
    return campaign


def _plain_block(index: int) -> BlockPlan:
    """One arm needs no order drawn: all slots are base."""
    return BlockPlan(stage=1, index=index, order="AAAA", builds="1111", pauses=(0.0, 0.0, 0.0, 0.0))


def _measure(
    campaign: Campaign,
    num_trials: int,
    question: Question | None,
    repository: Repository,
    store: Store,
    observer: Observer,
) -> list[Trial]:
    clear_leftovers(observer)
    trials: list[Trial] = []
    (arm,) = campaign.arms
    with (
        marked_if_interrupted(campaign, trials, store, f"perfguard show {campaign.id} --db {store.path}"),
        waiting_for_machine(campaign, observer, sm_mhz=calibrated_clock_mhz(campaign, store)) as machine,
        open_workspace() as workspace,
    ):
        launcher = Launcher(campaign=campaign, repository=repository, workspace=workspace, machine=machine)
        session = Session(campaign=campaign, plans=[], trials=trials, store=store, launcher=launcher, observer=observer)
        for line in launcher.make_build(arm, 1):
            observer.say(line)
        session.run(partial(launcher.first_run, arm, 1))
        for number in range(num_trials):
            if question is not None and _claim(campaign, trials, question).is_reproduced:
                break
            plan, slot = _plain_block(number // SLOTS), number % SLOTS
            session.run(partial(launcher.measure, plan, slot))
    return trials


def _finish(campaign: Campaign, trials: Sequence[Trial], store: Store, result: dict[str, Any]) -> dict[str, Any]:
    store.add_verdict(campaign.id, result)
    store.set_status(campaign.id, "finished")
    return result


def _noise(campaign: Campaign, metric: Metric, store: Store) -> float | None:
    """Median launch noise of this metric over stored campaigns of this workload on this machine."""
    found = [
        c.noise[metric.name]
        for c in store.trial_costs(campaign.workload.name, campaign.machine)
        if metric.name in c.noise
    ]
    return median(found) if found else None


def _values(trials: Sequence[Trial], metric: Metric) -> list[float]:
    return [t.values[metric.name] for t in trials if t.stage > 0 and t.status == "ok" and metric.name in t.values]


def _claim(campaign: Campaign, trials: Sequence[Trial], question: Question) -> Claim:
    values = _values(trials, question.metric)
    return judge_claim(values, question.claimed, noise=question.noise, margin=campaign.policy["margin"])


def _run_json(campaign: Campaign, trials: Sequence[Trial]) -> dict[str, Any]:
    metrics = []
    for metric in campaign.workload.metrics:
        values = _values(trials, metric)
        middle = median(values) if values else None
        metrics.append(
            {"name": metric.name, "unit": metric.unit, "better": metric.better, "median": middle, "values": values}
        )
    measured = any(metric["values"] for metric in metrics)
    return {
        "schema": RUN_SCHEMA,
        "outcome": "MEASURED" if measured else "INVALID",
        "exit_code": EXIT_OK if measured else EXIT_INVALID,
        "metrics": metrics,
        **_common_json(campaign, trials),
    }


def _common_json(campaign: Campaign, trials: Sequence[Trial]) -> dict[str, Any]:
    return {
        "id": campaign.id,
        "kind": campaign.kind,
        "created_at": campaign.created_at,
        "scope": campaign.scope,
        "base": arm_json(campaign.arms[0]),
        "workload": workload_json(campaign),
        "trials": trials_json(trials),
        "cached_builds": cached_builds(trials),
        "reasons": [reason_json(reason) for trial in trials for reason in trial.reasons],
        "machine": dict(campaign.machine),
        "method": dict(campaign.method),
    }


def _recheck_json(campaign: Campaign, trials: Sequence[Trial], question: Question) -> dict[str, Any]:
    values = _values(trials, question.metric)
    claim = _claim(campaign, trials, question)
    outcome = "INVALID" if not values else "REPRODUCED" if claim.is_reproduced else "NOT_REPRODUCED"
    return {
        "schema": RECHECK_SCHEMA,
        "outcome": outcome,
        "exit_code": EXIT_CODES[outcome],
        "sentence": _recheck_sentence(question, claim, values),
        "metric": {"name": question.metric.name, "unit": question.metric.unit, "better": question.metric.better},
        "claimed": question.claimed,
        "values": values,
        "noise": question.noise,
        "tolerance": claim.tolerance,
        **_common_json(campaign, trials),
    }


def _recheck_sentence(question: Question, claim: Claim, values: Sequence[float]) -> str:
    unit = question.metric.unit
    if not values:
        return "No launch gave a value, so the claimed number was not tested."
    shown = " and ".join(f"{value:.4g} {unit}".rstrip() for value in values)
    claimed = f"{question.claimed:g} {unit}".rstrip()
    noise = "unknown here" if claim.noise is None else f"{100 * claim.noise:.2g} %"
    basis = f"tolerance {100 * claim.tolerance:.2g} %, launch noise {noise}"
    if claim.is_reproduced:
        told = f"Reproduced: claimed {claimed}, measured {shown} now ({basis})."
        return f"{told} {TOO_NOISY}" if claim.noise and claim.tolerance > COARSE else told
    launches = "1 launch" if len(values) == 1 else f"any of {len(values)} launches"
    return (
        f"Not reproduced: claimed {claimed}, measured {shown} now, not in {launches} ({basis}). "
        "This retires the number; it accuses no commit."
    )
