"""Stored rounds and trials of a sweep -> where it stands, and its JSON (schema perfguard/sweep@1). Pure.

So the ranking of a stored sweep can be derived again from results.db alone. Statuses decide what counts, values never.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

from perfguard.comparison import arm_json, reason_json, trials_json, workload_json
from perfguard.errors import EXIT_CODES
from perfguard.judging import WARM_STAGE, last_attempts, may_retry
from perfguard.policy import Policy, stored_policy
from perfguard.records import Arm, BlockPlan, Campaign, Metric, Reason, Trial
from perfguard.settings import Setting, label
from perfguard.stats.effects import as_ratio
from perfguard.stats.plan import LETTERS
from perfguard.stats.sweep import (
    Standing,
    SweepRules,
    after_round,
    logs_of,
    slowdown,
    sweep_rules,
    without,
)

SCHEMA = "perfguard/sweep@1"
# A setting that does not run in so many rounds one after the other leaves the sweep.
FAILURES_TO_LEAVE = 2
Row = tuple[float | None, ...]


@dataclass(frozen=True, kw_only=True)
class SweepState:
    """Where a sweep stands. `rows`: complete rounds; `next_round`: the plan to measure, None when done.

    `broken`: settings that do not run, with the reasons of the trial that settled it.
    """

    standing: Standing
    rows: tuple[Row, ...]
    num_void: int
    broken: Mapping[int, tuple[Reason, ...]]
    next_round: BlockPlan | None


def settings_of(campaign: Campaign) -> tuple[Setting, ...]:
    return tuple(Setting(env=one["env"], params=one["params"]) for one in campaign.method["settings"])


def metric_of(campaign: Campaign) -> Metric:
    """What a sweep ranks by: the first primary metric."""
    return next(metric for metric in campaign.workload.metrics if metric.primary)


def setting_arm(campaign: Campaign, setting: Setting) -> Arm:
    """The common arm with a setting on top."""
    (arm,) = campaign.arms
    return replace(arm, env={**arm.env, **setting.env}, params={**arm.params, **setting.params})


def rules_of_sweep(campaign: Campaign) -> SweepRules:
    return sweep_rules(stored_policy(campaign.policy), len(campaign.method["settings"]))


def survey_sweep(campaign: Campaign, plans: Sequence[BlockPlan], trials: Sequence[Trial]) -> SweepState:
    """Round after round: complete ones count, one with a trial that failed is void, the first unfinished is next."""
    rules, policy, metric = rules_of_sweep(campaign), stored_policy(campaign.policy), metric_of(campaign)
    counted = last_attempts(trials)
    broken = _never_ran(policy, counted, rules.num_settings)
    now = without(Standing(live=tuple(range(rules.num_settings))), broken)
    rows: list[Row] = []
    num_void, failures = 0, dict[int, int]()
    for plan in sorted(plans, key=lambda p: p.index):
        if now.done:
            break
        found = trials_of_round(plan, counted, now.live)
        failed = {k: t for k, t in found.items() if t.status != "ok" and not may_retry(t, policy)}
        if not failed and any(k not in found or found[k].status != "ok" for k in now.live):
            return SweepState(standing=now, rows=tuple(rows), num_void=num_void, broken=broken, next_round=plan)
        failures = {k: failures.get(k, 0) + 1 for k in failed}
        if failed:
            num_void += 1
            leaving = {k: failed[k].reasons for k, count in failures.items() if count >= FAILURES_TO_LEAVE}
            broken |= leaving
            now = without(now, leaving)
            continue
        values = {k: found[k].values[metric.name] for k in now.live}
        rows.append(tuple(values.get(k) for k in range(rules.num_settings)))
        now = after_round(rules, now, logs_of(metric, rows))
    if not now.done:
        now = replace(now, done="too many rounds were void")
    return SweepState(standing=now, rows=tuple(rows), num_void=num_void, broken=broken, next_round=None)


def trials_of_round(
    plan: BlockPlan, counted: Mapping[tuple[int, int, int], Trial], live: Sequence[int]
) -> dict[int, Trial]:
    """Setting -> its trial of this round, as far as it ran."""
    slots = {LETTERS.index(letter): slot for slot, letter in enumerate(plan.order)}
    found = {k: counted.get((plan.stage, plan.index, slots[k])) for k in live}
    return {k: trial for k, trial in found.items() if trial is not None}


def _never_ran(
    policy: Policy, counted: Mapping[tuple[int, int, int], Trial], num_settings: int
) -> dict[int, tuple[Reason, ...]]:
    """Settings whose unmeasured first run did not work."""
    firsts = {k: counted.get((WARM_STAGE, 1, k)) for k in range(num_settings)}
    return {
        k: trial.reasons
        for k, trial in firsts.items()
        if trial is not None and trial.status != "ok" and not may_retry(trial, policy)
    }


def sweep_json(
    campaign: Campaign, plans: Sequence[BlockPlan], trials: Sequence[Trial], *, stopped: str = ""
) -> dict[str, Any]:
    """The ranking as it stands. `stopped`: why measuring ended before the end ("budget")."""
    state = survey_sweep(campaign, plans, trials)
    outcome = _outcome(state)
    settings = _settings_json(campaign, state)
    return {
        "schema": SCHEMA,
        "id": campaign.id,
        "kind": campaign.kind,
        "created_at": campaign.created_at,
        "outcome": outcome,
        "exit_code": EXIT_CODES[outcome],
        "sentence": _sentence(campaign, state, settings),
        "base": arm_json(campaign.arms[0]),
        "workload": workload_json(campaign),
        "metric": {"name": metric_of(campaign).name, "unit": metric_of(campaign).unit},
        "seed": campaign.seed,
        "alpha": campaign.policy["sweep_alpha"],
        "margin": campaign.policy["margin"],
        "settings": settings,
        "rounds": {"used": len(state.rows), "void": state.num_void},
        "trials": trials_json(trials),
        "ended": state.standing.done or ("the budget was used up" if stopped == "budget" else stopped),
        "stopped": "" if state.standing.done else stopped,
        "reasons": [],  # those of settings stand beside them
        "machine": dict(campaign.machine),
        "method": {k: v for k, v in campaign.method.items() if k not in ("repo_modules", "settings")},
    }


def _outcome(state: SweepState) -> str:
    num_ran = len(state.standing.live) + len(state.standing.drops)
    if num_ran < 2 or not state.rows:
        return "INVALID"
    is_settled = len(state.standing.live) == 1 or "equal" in state.standing.done
    return "RANKED" if is_settled else "INCONCLUSIVE"


def _settings_json(campaign: Campaign, state: SweepState) -> list[dict[str, Any]]:
    """Fastest first: the group of the best, then the slower ones by their slowdown, then those that do not run."""
    metric, settings = metric_of(campaign), settings_of(campaign)
    logs_RK = logs_of(metric, state.rows)
    live, drops = state.standing.live, {drop.setting: drop for drop in state.standing.drops}
    rows: list[dict[str, Any]] = []
    for k in (*live, *drops, *state.broken):
        against = slowdown(logs_RK, k, live[0]) if live and k not in state.broken else None
        measured = [row[k] for row in state.rows if row[k] is not None]
        drop = drops.get(k)
        rows.append(
            {
                "setting": label(settings[k]),
                "env": dict(settings[k].env),
                "params": dict(settings[k].params),
                "status": "best" if k in live else "slower" if drop else "invalid",
                "median": median(measured) if measured else None,  # type: ignore[type-var]  # None is left out
                "slowdown": None if against is None else as_ratio(against.log),
                "ci_low": None if against is None or against.low is None else as_ratio(against.low),
                "ci_high": None if against is None or against.high is None else as_ratio(against.high),
                "rounds": len(measured),
                "p": drop.p if drop else None,
                "slower_than": label(settings[drop.than]) if drop and drop.than is not None else None,
                "reasons": [reason_json(reason) for reason in state.broken.get(k, ())],
            }
        )
    ranked = sorted(rows[len(live) : len(live) + len(drops)], key=lambda row: row["slowdown"] or 1.0)
    ordered = [*rows[: len(live)], *ranked, *rows[len(live) + len(drops) :]]
    return [{"rank": _rank(place, row, len(live)), **row} for place, row in enumerate(ordered, start=1)]


def _rank(place: int, row: Mapping[str, Any], num_best: int) -> int | None:
    """All of the best group share the first place; what did not run has none."""
    if row["status"] == "invalid":
        return None
    return 1 if place <= num_best else place


def _sentence(campaign: Campaign, state: SweepState, settings: Sequence[Mapping[str, Any]]) -> str:
    best = [row["setting"] for row in settings if row["status"] == "best"]
    slower = sum(row["status"] == "slower" for row in settings)
    invalid = sum(row["status"] == "invalid" for row in settings)
    if not state.rows or len(best) + slower < 2:
        return f"Nothing to rank: {invalid} of {len(settings)} settings do not run."
    odds = 100 * campaign.policy["sweep_alpha"]
    tail = f"; {slower} slower, {invalid} not running" if invalid else f"; {slower} slower"
    if len(best) == 1:
        said = f"{best[0]} is the fastest"
    else:
        said = f"{len(best)} settings cannot be told from the best, {best[0]} first"
    risk = f"the chance that a setting as fast as the best was dropped is at most {odds:g} %"
    return f"{said}{tail} ({len(state.rows)} rounds; {risk})."
