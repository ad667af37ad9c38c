"""`prune`: room is made in results.db, and no verdict loses what it rests on.

First samples and ends of logs of old campaigns go, checked by deriving each verdict again without them; then old
comparisons that never said anything. What is old and what may go is decided by pure functions here.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from perfguard.errors import StoreError, UsageError
from perfguard.policy import PRUNE_MIN_AGE_S
from perfguard.replay import replay_one
from perfguard.store import Store, StoredAge, upkeep

SCHEMA = "perfguard/prune@1"
# Only a verdict that can be derived again can be shown to hold without samples.
REPLAYED_KINDS = ("compare", "bisect")


@dataclass(frozen=True, kw_only=True)
class Keep:
    """How much stays whole: campaigns touched within `age_s` seconds, or the newest `num_last`. One of them is set."""

    age_s: float | None = None
    num_last: int | None = None


def old(ages: Sequence[StoredAge], keep: Keep, now: datetime) -> list[StoredAge]:
    """Those beyond what is kept; `ages` newest first. What was touched within a day may be at work: never old."""
    least = keep.age_s if keep.age_s is not None else PRUNE_MIN_AGE_S
    before = now - timedelta(seconds=max(least, PRUNE_MIN_AGE_S))
    beyond = ages[keep.num_last :] if keep.num_last is not None else ages
    return [one for one in beyond if datetime.fromisoformat(one.touched_at) < before]


def is_removable(one: StoredAge) -> bool:
    """A comparison that never came to a conclusion and that nothing else in the file names."""
    return one.kind == "compare" and not one.is_decided and not one.is_named


def is_thinnable(one: StoredAge) -> bool:
    """Whether there is something to take that replay can then be asked about."""
    has_weight = one.may_have_telemetry or one.samples_bytes + one.log_bytes > 0
    return one.kind in REPLAYED_KINDS and not is_removable(one) and has_weight


def plan(store: Store, keep: Keep, now: datetime) -> dict[str, Any]:
    """What `prune` would do, as the JSON of a dry run. Reads only."""
    beyond = old(upkeep.ages(store), keep, now)
    thinned = [one for one in beyond if is_thinnable(one)]
    removed = [one.id for one in beyond if is_removable(one)]
    return {
        "schema": SCHEMA,
        "is_dry_run": True,
        "num_old": len(beyond),
        "thinned": [one.id for one in thinned],
        "thinned_bytes": sum(one.samples_bytes + one.log_bytes for one in thinned),
        "removed": removed,
        "removed_trials": upkeep.num_trials(store, removed),
        "left_whole": [],
        "freed_bytes": 0,
        "problem": "",
    }


def prune(store: Store, keep: Keep, now: datetime, holds: Callable[[Store, str], bool] | None = None) -> dict[str, Any]:
    """Do it. Each campaign is one transaction, so an interruption leaves a file that is whole.

    `holds`: whether a campaign's verdict comes out the same from what is stored (by default, replay).
    """
    planned = plan(store, keep, now)
    before_bytes = upkeep.size_bytes(store)
    taken = {one: _thinned(store, one, holds or _agrees) for one in planned["thinned"]}
    upkeep.remove(store, planned["removed"])
    problem = _compacted(store)
    return {
        **planned,
        "is_dry_run": False,
        "thinned": [one for one, (num_bytes, _) in taken.items() if num_bytes],
        "thinned_bytes": sum(num_bytes for num_bytes, _ in taken.values()),
        "left_whole": [one for one, (num_bytes, is_refused) in taken.items() if is_refused and not num_bytes],
        "freed_bytes": before_bytes - upkeep.size_bytes(store),
        "problem": problem,
    }


def _thinned(store: Store, campaign: str, holds: Callable[[Store, str], bool]) -> tuple[int, bool]:
    """Bytes taken, and whether the verdict needed something. Telemetry goes too, unless the verdict rests on it: on a
    trial that the machine's conditions made void.
    """
    found = partial(holds, store, campaign)
    num_bytes = upkeep.thin(store, campaign, found, with_telemetry=True)
    if num_bytes is not None:
        return num_bytes, False
    return upkeep.thin(store, campaign, found, with_telemetry=False) or 0, True


def _agrees(store: Store, campaign: str) -> bool:
    """False also where there is no verdict, a search still goes on, or an older version wrote what cannot be derived
    again: nothing shows then that no more is needed.
    """
    try:
        return bool(replay_one(store, campaign)["agrees"])
    except (UsageError, LookupError, TypeError, ValueError):
        return False


def _compacted(store: Store) -> str:
    """What kept the file from shrinking, "" if nothing did. Its rows are gone all the same."""
    try:
        upkeep.compact(store)
    except StoreError as error:
        return str(error)
    return ""
