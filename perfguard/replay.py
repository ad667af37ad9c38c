"""A stored verdict derived again from stored data alone, and compared with the one that was given."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from perfguard.bisection.loading import load
from perfguard.bisection.verdict import bisect_json
from perfguard.errors import StoreError, UsageError
from perfguard.judging import verdict_json
from perfguard.records import Campaign
from perfguard.store import Store
from perfguard.sweep_judging import sweep_json

# Words may be put better by a later version; outcomes, counts and numbers may not change.
KEYS = ("outcome", "exit_code", "scope", "seed", "margin", "alpha", "blocks", "trials", "stopped")
METRIC_KEYS = (
    "name",
    "outcome",
    "slowdown",
    "ci_low",
    "ci_high",
    "base_median",
    "head_median",
    "p_order",
    "decided_at",
)
BISECT_KEYS = (
    "outcome",
    "exit_code",
    "culprit",
    "range",
    "probability",
    "p_nothing_changed",
    "slowdown",
    "commits",
    "candidates",
    "trials",
    "builds",
    "unbuildable",
    "readings",
    "claimed",
    "stopped",
)
SWEEP_KEYS = ("outcome", "exit_code", "seed", "margin", "alpha", "settings", "rounds", "trials", "stopped")
WORDS = ("sentence", "conclusions", "next", "reasons")
TOLERANCE = 1e-12
# What damaged or foreign content of a database ends in.
UNREADABLE = (StoreError, LookupError, TypeError, ValueError, AttributeError)


def replay_one(store: Store, wanted: str) -> dict[str, Any]:
    """{"id", "outcome", "agrees", "differences"}. Raises UsageError for what is no comparison, bisect or sweep, or has
    no verdict."""
    campaign, stored = store.campaign(wanted), store.latest_verdict(wanted)
    if campaign.kind == "bisect" and stored is not None:
        return _replayed(campaign.id, stored, bisect_again(store, wanted, stored), BISECT_KEYS)
    if campaign.kind == "sweep" and stored is not None:
        again = sweep_json(campaign, store.blocks(wanted), store.trials(wanted), stopped=str(stored["stopped"]))
        return _replayed(campaign.id, stored, again, SWEEP_KEYS)
    if campaign.kind != "compare" or stored is None:
        raise UsageError(f"{campaign.id} holds no verdict on a comparison", "perfguard runs")
    return _replayed(campaign.id, stored, _judged_again(store, campaign, stored), KEYS)


def _judged_again(store: Store, campaign: Campaign, stored: Mapping[str, Any]) -> dict[str, Any]:
    return verdict_json(
        campaign,
        store.blocks(campaign.id),
        store.trials(campaign.id),
        extensions=store.extensions(campaign.id),
        stopped=str(stored.get("stopped", "")),
    )


def reworded(store: Store, campaign: Campaign, stored: Mapping[str, Any]) -> Mapping[str, Any]:
    """The verdict of a stored comparison in the words of this version, so that every report speaks alike.

    As it is stored where it cannot be derived again, or would come out differently: that is for `replay` to say.
    """
    try:
        again = _judged_again(store, campaign, stored)
        if differing(stored, again):
            return stored
    except UNREADABLE:
        return stored
    pairs = zip(stored["metrics"], again["metrics"], strict=True)
    metrics = [{**before, "reasons": after["reasons"]} for before, after in pairs]
    return {**stored, **{key: again[key] for key in WORDS}, "metrics": metrics}


def bisect_again(store: Store, wanted: str, stored: Mapping[str, Any]) -> dict[str, Any]:
    """The answer of a bisect from its stored readings; the search inside a merge is replayed by its own id.

    Raises UsageError where it has been gone on with since, and not to its end.
    """
    if store.status(wanted) != "finished":
        raise UsageError(f"{wanted} is being searched further", f"perfguard bisect --resume {wanted}")
    judged_at = store.verdicts(wanted)[-1].created_at
    at = load(wanted, store, judged_at)
    stopped = str(stored["stopped"])
    return bisect_json(at, stopped=stopped, inside=stored["inside"], further=stored.get("further", ()))


def replayable(store: Store) -> list[str]:
    """Ids of all comparisons, bisects and sweeps that hold a verdict on what is stored, newest first."""
    rows = store.campaigns(1_000_000)
    compared = {row.id for row in rows if row.kind == "compare" and row.outcome}
    searched = {row.id for row in rows if row.kind in ("bisect", "sweep") and row.outcome and row.status == "finished"}
    return [row.id for row in rows if row.id in compared | searched]


def replayed(store: Store, wanted: str) -> dict[str, Any]:
    """The same where something stored cannot be read: that is its difference, so that others are replayed as well."""
    try:
        return replay_one(store, wanted)
    except UNREADABLE as error:
        said = str(error) if isinstance(error, StoreError) else f"what is stored is no verdict of this kind: {error!r}"
        return {"id": wanted, "outcome": "", "agrees": False, "differences": [said]}


def check_incoming(mine: Store, other: Store) -> None:
    """Raises StoreError where a verdict that would be merged does not follow from its trials.

    Only the latest of each, which reports show; not where trials were added since, which no verdict knows yet.
    """
    stored, ids = mine.verdict_stamps(), set(replayable(other))
    for wanted, stamp in other.verdict_stamps().items():
        if wanted not in ids or stored.get(wanted) == stamp or _has_newer_trials(other, wanted):
            continue
        again = replayed(other, wanted)
        if not again["agrees"]:
            raise StoreError(
                f"campaign {wanted}: its verdict does not follow from its trials, it differs in "
                f"{', '.join(again['differences'])}; nothing was merged",
                f"perfguard replay {wanted} --db {other.path}",
            )


def _has_newer_trials(store: Store, wanted: str) -> bool:
    """Ids of trials are no times; both stamps are UTC in ISO format."""
    judged_at = store.verdicts(wanted)[-1].created_at
    return any(trial.started_at > judged_at for trial in store.trials(wanted, with_record=False))


def _replayed(
    campaign_id: str, stored: Mapping[str, Any], again: Mapping[str, Any], keys: Sequence[str]
) -> dict[str, Any]:
    differences = differing(stored, again, keys)
    return {"id": campaign_id, "outcome": again["outcome"], "agrees": not differences, "differences": differences}


def differing(stored: Mapping[str, Any], again: Mapping[str, Any], keys: Sequence[str] = KEYS) -> list[str]:
    """Names of what came out differently, "metric.key" for a metric's number."""
    found = [key for key in keys if not same(stored.get(key), again.get(key))]
    # One stored before modes and steps were taken apart does not hold them.
    found += [name for name in ("speculation", "steps") if name in stored and not same(stored[name], again[name])]
    found += [f"reasons {code}" for code in sorted(_codes(stored) ^ _codes(again))]
    for before, after in zip(stored.get("metrics", ()), again.get("metrics", ()), strict=True):
        found += [f"{before['name']}.{key}" for key in METRIC_KEYS if not same(before.get(key), after.get(key))]
    return found


def _codes(comparison: Mapping[str, Any]) -> set[str]:
    return {reason["code"] for reason in comparison["reasons"]}


def same(one: Any, other: Any) -> bool:
    """Equal, floats to 1e-12 of their size."""
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, Sequence) and isinstance(other, Sequence) and not isinstance(one, str):
        return len(one) == len(other) and all(same(a, b) for a, b in zip(one, other, strict=True))
    return bool(one == other)
