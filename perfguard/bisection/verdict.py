"""Where a search stands -> the JSON of a bisect (perfguard/bisect@1). Pure."""

from collections.abc import Mapping, Sequence
from math import exp, fsum
from typing import Any

from perfguard.bisection.listing import commits, posterior_list, readings_list, sha, why_unbuildable
from perfguard.bisection.machine import may_hide_a_change
from perfguard.bisection.state import (
    Standing,
    Stored,
    anchor_values,
    ends_read,
    reached,
    search_state,
    standing,
)
from perfguard.bisection.words import next_step, sentence
from perfguard.comparison import arm_json, reason_json, trials_json, workload_json
from perfguard.errors import EXIT_CODES
from perfguard.judging import cached_builds
from perfguard.records import Reason, Side
from perfguard.stats.culprit_records import SearchDecision

SCHEMA = "perfguard/bisect@1"
STOPPED = {"budget": "stopped when the budget was used up"}


def bisect_json(
    stored: Stored,
    *,
    stopped: str = "",
    inside: Mapping[str, Any] | None = None,
    further: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    """The answer as it stands. `inside`: the bisect of the branch that the blamed merge brought, once it is done;
    `further`: those for other culprits beside this one.

    `stopped`: why the search ended before it knew ("budget").
    """
    at = standing(stored)
    found = {**_answer(stored, at, stopped), **_numbers(stored, at)}
    if inside is not None:
        found |= _taken_over(found, inside)
    for other in further:
        found |= _costs(found, other)
    document = {
        "schema": SCHEMA,
        "id": stored.campaign.id,
        "kind": stored.campaign.kind,
        "created_at": stored.campaign.created_at,
        "outcome": found["outcome"],
        "exit_code": EXIT_CODES[found["outcome"]],
        **found,
        **_asked(stored),
        "claimed": _claimed(stored),
        "stopped": stopped,
        "inside": inside,
        "further": list(further),
    }
    return {**document, "sentence": sentence(document), "next": next_step(document)}


def reading_json(stored: Stored, at: Standing) -> dict[str, Any]:
    """What a person watching is told after a reading: the reading, and what is believed after it."""
    numbers = _numbers(stored, at)
    likeliest = max(numbers["posterior"], key=lambda entry: float(entry["probability"]), default=None)
    return {
        "reading": numbers["readings"][-1] if numbers["readings"] else None,
        "candidates": stored.last,
        "p_nothing_changed": numbers["p_nothing_changed"],
        "likeliest": likeliest,
        "trials": numbers["trials"],
        "expected_trials_left": numbers["expected_trials_left"],
        "posterior": numbers["posterior"],
    }


def _asked(stored: Stored) -> dict[str, Any]:
    campaign, search = stored.campaign, stored.search
    good, bad = campaign.arms
    return {
        "good": arm_json(good),
        "bad": arm_json(bad),
        "metric": {"name": stored.metric.name, "unit": stored.metric.unit, "better": stored.metric.better},
        "look_for": search.look_for,
        "margin": stored.policy.margin,
        "workload": workload_json(campaign),
        "seed": campaign.seed,
        "scope": campaign.scope,
        "paths": list(search.paths),
        "merge": search.merge or None,
        "seeded_by": search.seeded_by or None,
        "commits": search.num_commits,
        "candidates": stored.last,
        "machine": dict(campaign.machine),
        "method": {key: value for key, value in campaign.method.items() if key != "repo_modules"},
    }


def _answer(stored: Stored, at: Standing, stopped: str) -> dict[str, Any]:
    """Outcome, and whom it names."""
    if at.invalid:
        return _named("INVALID", reasons=at.invalid)
    if at.decision is None:
        text = "no file that the workload runs differs between GOOD and BAD"
        return _named("PHANTOM", reasons=(Reason(code="SAME_CODE", text=text),))
    if at.is_known_phantom:
        text = f"comparison {stored.search.seeded_by} of GOOD and BAD ended EQUIVALENT; nothing was measured again"
        return _named("PHANTOM", reasons=(Reason(code="KNOWN", text=text),))
    decision = at.decision
    if decision.state != "done":
        text = STOPPED.get(stopped, f"stopped: {stopped}" if stopped else "not measured to its end")
        return _named(
            "INCONCLUSIVE", range_=commits(stored, decision.range), reasons=(Reason(code="STOPPED", text=text),)
        )
    if decision.outcome == "PHANTOM" and (unseen := _unseen(stored)):
        return _named("INCONCLUSIVE", reasons=(unseen,))
    if decision.outcome == "PHANTOM" and (limits := _limits(stored)):
        return _named("INCONCLUSIVE", reasons=limits)
    culprit = None if decision.culprit is None else sha(stored, decision.culprit)
    range_ = commits(stored, decision.range)
    return _named(str(decision.outcome), culprit=culprit, range_=range_, reasons=_reasons(decision))


def _reasons(decision: SearchDecision) -> tuple[Reason, ...]:
    found = []
    if decision.outcome == "INCONCLUSIVE":
        found.append(Reason(code="GRADUAL" if decision.is_gradual else "UNDECIDED", text=decision.reason))
    if decision.is_lottery:
        rate = decision.posterior.slow_rate
        text = f"not every launch is slow from there on, about {100 * rate:.0f} % of them are"
        found.append(Reason(code="LOTTERY", text=text))
    return tuple(found)


def _unseen(stored: Stored) -> Reason | None:
    """Two equal numbers of code that nobody saw may be one code measured twice."""
    bad = next((build for build in stored.builds if build.position == stored.last), None)
    if bad is None or bad.is_proven:
        return None
    return Reason(code="CODE_UNKNOWN", text=f"{bad.note}; PHANTOM is withheld (python -E and -I hide what is loaded)")


def _limits(stored: Stored) -> tuple[Reason, ...]:
    """Behind a limit that met one end alone a change may be hidden."""
    found = may_hide_a_change(stored.campaign, stored.metric, ends_read(stored))
    why = Reason(code="ONE_SIDED", text="GOOD (base) and BAD (head) were not limited alike; PHANTOM is withheld")
    return (why, *found) if found else ()


def _named(
    outcome: str, *, culprit: str | None = None, range_: Sequence[str] = (), reasons: Sequence[Reason] = ()
) -> dict[str, Any]:
    return {
        "outcome": outcome,
        "culprit": culprit,
        "range": list(range_) if culprit is None else [culprit],
        "reasons": [reason_json(reason) for reason in reasons],
    }


def _numbers(stored: Stored, at: Standing) -> dict[str, Any]:
    """What was measured and at what cost, and what is believed after it."""
    decision = at.decision
    posterior = None if decision is None else decision.posterior
    last = _last_confirmation(stored, at)
    trials = trials_json(stored.trials)
    confirming = sum(c["trials"]["ok"] + c.get("lost_trials", 0) for c in stored.confirmations.values())
    by = {"search": trials["ok"], "confirmation": confirming}
    probabilities = () if posterior is None else posterior.p_change
    return {
        "probability": _probability(at),
        "p_nothing_changed": 1.0 if posterior is None and not at.invalid else getattr(posterior, "p_none", None),
        "slowdown": _slowdown(stored, at, last),
        "noise": None if posterior is None else posterior.noise,
        "is_gradual": decision is not None and decision.is_gradual,
        "is_lottery": decision is not None and decision.is_lottery,
        "trials": sum(by.values()),
        "trials_by": {**by, **{k: v for k, v in trials.items() if k != "ok"}, "unmeasured": _num_first_runs(stored)},
        "builds": _num_builds(stored),
        "cached_builds": _cached(stored),
        "launches_s": fsum(t.wall_s for t in stored.trials)
        + fsum(c["launches_s"] for c in stored.confirmations.values()),
        "expected_trials_left": 0.0 if decision is None else decision.expected_trials_left,
        "unbuildable": commits(stored, sorted(why_unbuildable(stored))),
        "unbuildable_because": {sha(stored, place): text for place, text in sorted(why_unbuildable(stored).items())},
        "posterior": posterior_list(stored, probabilities),
        "readings": readings_list(stored),
        "confirmation": last,
        "confirmations": [comparison["id"] for comparison in stored.confirmations.values()],
    }


def _probability(at: Standing) -> float | None:
    """Of the one that is named: a group that cannot be told apart counts as one."""
    if at.decision is None:
        return None
    changes = at.decision.posterior.p_change
    if at.decision.after is not None:
        return fsum(changes[place - 1] for place in at.decision.range)
    return max(changes, default=None)


def _slowdown(stored: Stored, at: Standing, confirmed: Mapping[str, Any] | None) -> float | None:
    """Of the confirmation, which chose nothing for being slow; else what the search expects, or saw of BAD."""
    if confirmed is not None:
        return next((m["slowdown"] for m in confirmed["metrics"] if m["name"] == stored.search.metric), None)
    if at.decision is None:
        return None
    seen = [r.log_slowdown for r in search_state(stored).readings if r.position == stored.last]
    if at.decision.posterior.p_none > 0.5 or at.is_known_phantom:
        return exp(fsum(seen) / len(seen)) if seen else None
    return exp(at.decision.posterior.log_slowdown)


def _last_confirmation(stored: Stored, at: Standing) -> Mapping[str, Any] | None:
    """That of the named candidate, if one is named."""
    if at.decision is None or at.decision.after is None:
        return None
    return stored.confirmations.get(at.decision.after)


def _num_builds(stored: Stored) -> int:
    """Made by the search and by its confirmations: each ran once unmeasured."""
    return _num_first_runs(stored) + sum(int(c["builds"]) for c in stored.confirmations.values())


def _cached(stored: Stored) -> list[dict[str, Any]]:
    """Builds of the search that an earlier campaign made, GOOD first; a confirmation names its own."""
    places = sorted({(trial.side, trial.build) for trial in stored.trials})
    return [
        {"commit": _commit(stored, side, number), "end": _end(stored, side, number), **cached}
        for side, number in places
        for cached in cached_builds([t for t in stored.trials if (t.side, t.build) == (side, number)])
    ]


def _commit(stored: Stored, side: Side, number: int) -> str:
    return stored.campaign.arms[0].revision.commit if side == "base" else sha(stored, number)


def _end(stored: Stored, side: Side, number: int) -> str | None:
    return "GOOD" if side == "base" else "BAD" if number == stored.last else None


def _num_first_runs(stored: Stored) -> int:
    return sum(trial.stage == 0 and trial.status == "ok" for trial in stored.trials)


def _claimed(stored: Stored) -> dict[str, Any]:
    """The number that was believed, and whether GOOD comes up to it now."""
    if "claimed" not in stored.campaign.method:
        return {}
    values = anchor_values(stored)
    return {"value": stored.campaign.method["claimed"], "reached": reached(stored, values), "launches": len(values)}


def _taken_over(found: Mapping[str, Any], inside: Mapping[str, Any]) -> dict[str, Any]:
    """The blamed merge gives way to the commit found on its branch; the cost of both counts."""
    both = _costs(found, inside)
    if inside["outcome"] != "CULPRIT":
        return both
    named = {key: inside[key] for key in ("culprit", "range", "probability", "slowdown", "confirmation")}
    own = (found["confirmation"] or {}).get("id")
    return {**both, **named, "merged_by": found["culprit"], "merge_confirmation": own}


def _costs(found: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    whole = {key: found[key] + other[key] for key in ("trials", "builds", "launches_s")}
    parts = (found["trials_by"], other["trials_by"])
    return {**whole, "trials_by": {key: sum(part.get(key, 0) for part in parts) for key in {**parts[0], **parts[1]}}}
