"""Answers of a search by experiment -> its JSON (schema perfguard/search@1) and its words. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from perfguard.comparison import arm_json, workload_json
from perfguard.errors import EXIT_CODES
from perfguard.factors import Factor, shown_value
from perfguard.records import Arm, Campaign, Outcome
from perfguard.stats.search import Configuration, End, Question, next_step

SCHEMA = "perfguard/search@1"


@dataclass(frozen=True, kw_only=True)
class Answered:
    """A question with the campaign that answered it. `comparison` is empty where it could not be measured at all."""

    question: Question
    id: str
    outcome: Outcome
    comparison: Mapping[str, Any]
    why: str = ""


def factors_of(campaign: Campaign) -> tuple[Factor, ...]:
    """All that differ, in their order; positions of a search count only those that can be set."""
    return tuple(Factor(**one) for one in campaign.method["factors"])


def settable(factors: Sequence[Factor]) -> tuple[Factor, ...]:
    return tuple(factor for factor in factors if factor.can_be_set)


def step_of(campaign: Campaign, answered: Sequence[Answered]) -> Question | End:
    outcomes = {one.question: one.outcome for one in answered}
    return next_step(len(settable(factors_of(campaign))), outcomes)


def search_json(campaign: Campaign, answered: Sequence[Answered], *, stopped: str = "") -> dict[str, Any]:
    """The search as it stands. `stopped`: why it ended early ("budget"); then nothing is concluded."""
    step = step_of(campaign, answered)
    end = step if isinstance(step, End) else End(outcome="INCONCLUSIVE", why=_stopped(stopped))
    toggled = settable(factors_of(campaign))
    found = tuple(toggled[k] for k in end.found)
    effect = _effect(answered)
    is_turned = bool(answered) and answered[0].outcome is Outcome.IMPROVEMENT
    unseen = _unseen(len(toggled), is_turned=is_turned)
    return {
        "schema": SCHEMA,
        "id": campaign.id,
        "kind": campaign.kind,
        "created_at": campaign.created_at,
        "outcome": end.outcome,
        "exit_code": EXIT_CODES[end.outcome],
        "sentence": _sentence(campaign, end, found, effect, is_turned=is_turned),
        "why": end.why,
        "of": list(campaign.method["of"]),
        "a": _side(campaign.arms[0]),
        "b": _side(campaign.arms[1]),
        "workload": workload_json(campaign),
        "metric": campaign.method["metric"],
        "alpha": campaign.policy["search_alpha"],
        "margin": campaign.policy["margin"],
        "seed": campaign.seed,
        "found": [factor.name for factor in found] if end.outcome == "EXPLAINED" else [],
        "candidates": [factor.name for factor in found] if end.outcome == "INCONCLUSIVE" else [],
        **effect,
        "factors": [_factor(factor, end, found, unseen) for factor in factors_of(campaign)],
        "not_toggled": list(campaign.method["not_toggled"]),
        "questions": [_question(one, toggled) for one in answered],
        "trials": sum(sum(one.comparison.get("trials", {}).values()) for one in answered),
        "stopped": stopped if not isinstance(step, End) else "",
        "next": _next(campaign, end, stopped if not isinstance(step, End) else ""),
    }


def _side(arm: Arm) -> dict[str, Any]:
    return arm_json(arm)


def _stopped(stopped: str) -> str:
    return "the budget was used up" if stopped == "budget" else stopped or "it is not finished"


def _effect(answered: Sequence[Answered]) -> dict[str, float | None]:
    """Slowdown of B against A, from the first comparison."""
    metrics = answered[0].comparison.get("metrics", ()) if answered else ()
    primary: Mapping[str, Any] = next((m for m in metrics if m["primary"]), {})
    return {name: primary.get(name) for name in ("slowdown", "ci_low", "ci_high")}


def _unseen(num_toggled: int, *, is_turned: bool) -> str:
    """Of factors that made no difference together: of several, one may take back what another does."""
    if is_turned:
        return "open"
    return "makes none now" if num_toggled == 1 else "none of them together"


def _factor(factor: Factor, end: End, found: Sequence[Factor], unseen: str) -> dict[str, Any]:
    return {
        "name": factor.name,
        "kind": factor.kind,
        "a": shown_value(factor, factor.value_a),
        "b": shown_value(factor, factor.value_b),
        "can_be_set": factor.can_be_set,
        "why_not": factor.why_not,
        "verdict": _verdict(factor, end, found, unseen),
    }


def _verdict(factor: Factor, end: End, found: Sequence[Factor], unseen: str) -> str:
    """`unseen`: where nothing was seen of it."""
    if not factor.can_be_set:
        return "not toggled"
    if end.outcome == "EXPLAINED":
        return "makes the difference" if factor in found else "not needed for it"
    if end.outcome == "NOT_REPRODUCIBLE":
        return unseen
    return "candidate" if factor in found else "open"


def _question(one: Answered, toggled: Sequence[Factor]) -> dict[str, Any]:
    """Which factors were as in A on each side; the rest was as in B."""

    def names(configuration: Configuration) -> list[str]:
        return [toggled[k].name for k in sorted(configuration)]

    metrics = [m for m in one.comparison.get("metrics", ()) if m["primary"]]
    return {
        "id": one.id,
        "kind": "check" if one.question.is_check else "step",
        "base_as_in_a": names(one.question.base),
        "head_as_in_a": names(one.question.head),
        "outcome": str(one.outcome),
        "slowdown": metrics[0]["slowdown"] if metrics else None,
        "trials": sum(one.comparison.get("trials", {}).values()),
        "why": one.why,
    }


def _sentence(
    campaign: Campaign, end: End, found: Sequence[Factor], effect: Mapping[str, float | None], *, is_turned: bool
) -> str:
    stuck = [factor.name for factor in factors_of(campaign) if not factor.can_be_set]
    stuck += [one["name"] for one in campaign.method["not_toggled"]]
    rest = f" Not toggled, so neither blamed nor acquitted: {', '.join(stuck)}." if stuck else ""
    if end.outcome == "NOT_REPRODUCIBLE":
        rests = "What makes it so was not searched." if is_turned else "The earlier number stands alone."
        return f"Not reproducible: {end.why}. {rests}{rest}"
    if end.outcome == "INCONCLUSIVE":
        so_far = f" So far: {', '.join(factor.name for factor in found)}." if found else ""
        return f"Not settled: {end.why}.{so_far}{rest}"
    named = " with ".join(
        f"{f.name} ({shown_value(f, f.value_a)} in A, {shown_value(f, f.value_b)} in B)" for f in found
    )
    slowdown = effect["slowdown"] or 1.0
    odds = f"a wrong set is named in at most {100 * campaign.policy['search_alpha']:g} %"
    return f"{named} makes B slower by {100 * (slowdown - 1):.1f} %; {odds}.{rest}"


def _next(campaign: Campaign, end: End, stopped: str) -> str:
    if stopped:
        return f"perfguard explain --experiment --resume {campaign.id}"
    if end.outcome == "INCONCLUSIVE" and end.unsettled is not None:
        return f"perfguard show {campaign.id}, then extend the question that was not settled"
    return ""
