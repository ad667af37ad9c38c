"""A/A launches and their control -> the JSON of a calibration (schema perfguard/calibration@1). Pure.

Must not measure and not judge code: the A/A and the control arrive judged by the engine that judges comparisons.
"""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from math import log1p
from statistics import median
from typing import Any

from perfguard.commands import what_words
from perfguard.comparison import arm_json, reason_json, trials_json, workload_json
from perfguard.errors import EXIT_CODES
from perfguard.policy import Policy
from perfguard.records import BlockValues, Campaign, Metric, Outcome, Reason, Trial
from perfguard.stats.calibration import Advice, Iterations, MetricCalibration, advise, calibrate_metric
from perfguard.stats.design import rules_of
from perfguard.stats.effects import as_ratio
from perfguard.stats.power import smallest_reported
from perfguard.stats.prices import LaunchCost, PriceList, price_list

SCHEMA = "perfguard/calibration@1"
# Primary metric of a built-in runner -> the samples it is made of.
ITERATIONS = {"plain_throughput": "plain_token_s", "eagle3_throughput": "eagle3_cycle_s"}
FOUND = (Outcome.SUSPECT, Outcome.REGRESSION)


@dataclass(frozen=True, kw_only=True)
class Findings:
    """What the launches say. `policy` is the one asked for, its margin raised to the advised one where that is larger;
    `prices` and `mde` (smallest slowdown reported in 9 of 10 cases, above 1) follow from it."""

    metrics: tuple[MetricCalibration, ...]
    advice: Advice
    policy: Policy
    cost: LaunchCost
    prices: PriceList
    mde: float | None

    @property
    def noisiest(self) -> MetricCalibration:
        return max(self.metrics, key=lambda one: one.noise.sd)


@dataclass(frozen=True, kw_only=True)
class Control:
    """A planted slowdown and what the verdict engine made of it. `how`: measured, computed, or why it was not run;
    `slowdowns` by metric; `is_found` None if it was not run."""

    how: str
    planted: float
    is_found: bool | None = None
    slowdowns: Mapping[str, float | None]
    num_launches: int = 0
    id: str = ""


def primaries_of(metrics: Sequence[Metric]) -> list[Metric]:
    """The metrics a calibration is about: primary ones with noise, so no exact ones."""
    return [metric for metric in metrics if metric.primary and not metric.exact]


def findings_of(
    asked: Policy, metrics: Sequence[Metric], blocks: Sequence[BlockValues], trials: Sequence[Trial], aa: Outcome
) -> Findings:
    """`asked`: the policy of comparisons here. `blocks`: A/A blocks of stage one, at least two; `trials` with records;
    `aa`: what the A/A ended with."""
    primaries = primaries_of(metrics)
    ran = [trial for trial in trials if trial.stage > 0 and trial.status == "ok"]
    load_s, measured_s = median(t.wall_s - t.measured_s for t in ran), median(t.measured_s for t in ran)
    margin = log1p(asked.margin)
    found = tuple(
        calibrate_metric(metric, blocks, iterations_of(metric, ran), load_s=load_s, margin=margin)
        for metric in primaries
    )
    advice = advise(asked, primaries, blocks, aa)
    policy = replace(asked, margin=max(asked.margin, advice.margin))
    sd = max(one.noise.sd for one in found)
    cost = LaunchCost(load_s=load_s, measured_s=measured_s)
    mde = smallest_reported(rules_of(policy, len(primaries)), log1p(sd), policy.max_blocks + policy.max_confirm_blocks)
    return Findings(
        metrics=found,
        advice=advice,
        policy=policy,
        cost=cost,
        prices=price_list(policy, len(primaries), cost, sd=sd, slow_rate=policy.slow_rate),
        mde=None if mde is None else as_ratio(mde),
    )


def iterations_of(metric: Metric, trials: Sequence[Trial]) -> list[Iterations]:
    """Iterations that the runner recorded for this metric, one entry a launch; none for a command."""
    series, mode = ITERATIONS.get(metric.name, ""), metric.name.partition("_")[0]
    return [
        Iterations(
            times_s=trial.record["samples"][series],
            discarded=int(trial.record["warmup"][mode]["discarded"]),
            is_steady=bool(trial.record["warmup"][mode]["found"]),
        )
        for trial in trials
        if trial.record.get("samples", {}).get(series) and mode in trial.record.get("warmup", {})
    ]


def outcome_of(aa: Outcome, control: Control | None) -> str:
    """CALIBRATED only if the A/A ended EQUIVALENT and the control was found."""
    if aa in (Outcome.INVALID, Outcome.REGRESSION, Outcome.IMPROVEMENT):
        return "INVALID"
    return "CALIBRATED" if aa is Outcome.EQUIVALENT and control is not None and control.is_found else "INCONCLUSIVE"


def calibration_json(
    campaign: Campaign,
    aa: Mapping[str, Any],
    trials: Sequence[Trial],
    findings: Findings | None,
    control: Control | None,
) -> dict[str, Any]:
    """The whole calibration, ready for `json.dumps`. `aa`: the A/A as perfguard/comparison@1. `findings` is None
    where too little was measured."""
    aa_outcome = Outcome(aa["outcome"])
    outcome = outcome_of(aa_outcome, control)
    reasons = (
        *([Reason(code=r["code"], text=r["text"]) for r in aa["reasons"]] if outcome == "INVALID" else []),
        *(reasons_of(aa_outcome, float(aa["margin"]), findings) if findings is not None else too_little(aa)),
        *(control_reasons(control) if control is not None else ()),
    )
    return {
        "schema": SCHEMA,
        "id": campaign.id,
        "kind": campaign.kind,
        "created_at": campaign.created_at,
        "outcome": outcome,
        "exit_code": EXIT_CODES[outcome],
        "sentence": sentence_of(findings),
        "scope": campaign.scope,
        "base": arm_json(campaign.arms[0]),
        "workload": workload_json(campaign),
        "seed": campaign.seed,
        "margin": aa["margin"],
        **(_findings_json(findings) if findings is not None else {"metrics": []}),
        "control": None if control is None else asdict(control),
        "aa": dict(aa),
        "trials": trials_json(trials),
        "reasons": [reason_json(reason) for reason in reasons],
        "next": next_step(campaign, outcome, findings),
        "stopped": aa["stopped"],
        "machine": dict(campaign.machine),
        "method": {key: item for key, item in campaign.method.items() if key != "repo_modules"},
    }


def _findings_json(found: Findings) -> dict[str, Any]:
    prices = found.prices
    return {
        "noise": found.noisiest.noise.sd,
        "recommended": asdict(found.advice),
        "mde": {"margin": found.policy.margin, "slowdown": found.mde},
        "load_s": found.cost.load_s,
        "measured_s": found.cost.measured_s,
        "prices": {
            "block_s": prices.block_s,
            "likely_equivalent": prices.likely_equivalent,
            "earliest": [{"outcome": str(m.outcome), "blocks": m.blocks, "wall_s": m.wall_s} for m in prices.earliest],
        },
        "metrics": [_metric_json(one) for one in found.metrics],
    }


def _metric_json(one: MetricCalibration) -> dict[str, Any]:
    metric = one.metric
    named = {"name": metric.name, "unit": metric.unit, "better": metric.better}
    return named | {key: item for key, item in asdict(one).items() if key != "metric"}


def too_little(aa: Mapping[str, Any]) -> tuple[Reason, ...]:
    used = int(aa["blocks"]["used"])
    return (Reason(code="TOO_LITTLE", text=f"{used} whole blocks of the A/A were measured; a spread needs two"),)


def reasons_of(aa: Outcome, margin: float, found: Findings) -> list[Reason]:
    """What a person must know about this machine before comparing on it, the worst first."""
    reasons = []
    advised = f"--margin {percent(found.advice.margin)} or more here (floor {percent(found.advice.floor)})"
    if aa in (Outcome.REGRESSION, Outcome.IMPROVEMENT):
        text = f"THE SAME CODE AGAINST ITSELF WAS REPORTED AS {aa}: trust no comparison here until the cause is found"
        reasons.append(Reason(code="AA_CHANGED", text=text))
    elif aa is not Outcome.EQUIVALENT:
        text = f"THE SAME CODE AGAINST ITSELF ENDED {aa} at a margin of {percent(margin)}: compare with {advised}"
        reasons.append(Reason(code="AA_NOT_EQUIVALENT", text=text))
    elif margin < found.advice.margin:
        text = f"a margin of {percent(margin)} is less than twice the launch noise: compare with {advised}"
        reasons.append(Reason(code="MARGIN_TOO_SMALL", text=text))
    return reasons + [reason for one in found.metrics for reason in _metric_reasons(one)]


def _metric_reasons(one: MetricCalibration) -> list[Reason]:
    name, reasons = one.metric.name, []
    if one.modes is not None:
        gap, counts = percent(as_ratio(one.modes.gap) - 1.0), f"{one.modes.num_slow} of {one.modes.num_launches}"
        text = f"{name}: {counts} launches are slower by {gap}, without any change of code"
        reasons.append(Reason(code="LOTTERY", text=text))
    if one.is_autocorrelated and one.lag_one is not None:
        text = f"{name}: a launch resembles the one before it (lag-1 autocorrelation {one.lag_one:+.2f}): slow drift"
        reasons.append(Reason(code="AUTOCORRELATED", text=text))
    if one.warmup is not None and one.warmup.num_steady < one.warmup.num_launches:
        unsteady = one.warmup.num_launches - one.warmup.num_steady
        text = f"{name}: {unsteady} of {one.warmup.num_launches} launches never became steady: more iterations a launch"
        reasons.append(Reason(code="NOT_STEADY", text=text))
    return reasons


def control_reasons(control: Control) -> tuple[Reason, ...]:
    planted = f"a planted slowdown of {percent(control.planted - 1.0)}"
    if control.is_found is None:
        return (Reason(code="CONTROL_NOT_RUN", text=f"{planted} was not tried: {control.how}"),)
    if control.is_found:
        return ()
    launches = f"{control.num_launches} launches, {control.how}"
    text = f"{planted.upper()} WAS NOT FOUND ({launches}): do not rely on EQUIVALENT here"
    return (Reason(code="CONTROL_NOT_FOUND", text=text),)


def sentence_of(found: Findings | None) -> str:
    if found is None:
        return "Too little was measured to say how noisy this machine is."
    noise = found.noisiest.noise
    spread = f"launch noise {percent(noise.sd)} (95 %: {percent(noise.low)} to {percent(noise.high)})"
    mde = "no slowdown" if found.mde is None else f"a slowdown of {percent(found.mde - 1.0)}"
    at = f"at {percent(found.policy.margin)} {mde} is reported in 9 of 10 cases"
    return f"{spread}; margins from {percent(found.advice.margin)} on; {at}."


def next_step(campaign: Campaign, outcome: str, found: Findings | None) -> str:
    if outcome == "INVALID" or found is None:
        return "remove the cause named above, then calibrate again"
    if found.advice.margin >= 1:  # no comparison takes it
        return "perfguard doctor, then calibrate again on a quieter machine: no margin is wide enough for this noise"
    primary = [asdict(metric) for metric in campaign.workload.metrics if metric.primary]
    margin = percent(found.policy.margin).replace(" ", "")
    measured = what_words(workload_json(campaign), primary)
    return f"perfguard compare HEAD~1 HEAD --margin {margin} {shlex.join(measured)}"


def percent(ratio: float) -> str:
    """Two significant digits: 0.0041 is "0.41 %"."""
    return f"{100.0 * ratio:.2g} %" if ratio < 1.0 else f"{100.0 * ratio:.0f} %"
