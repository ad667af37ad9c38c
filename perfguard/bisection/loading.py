"""All that lies in the database of one bisect, as `state.py` takes it. Only reads, and judges nothing."""

from collections.abc import Mapping
from datetime import datetime
from math import fsum
from typing import Any

from perfguard.bisection.state import Stored
from perfguard.errors import UsageError
from perfguard.records import Outcome
from perfguard.store import Store


def load(wanted: str, store: Store, until: str = "") -> Stored:
    """All that lies in the database of one search. `until`: confirmations as they were judged at that time (UTC)."""
    campaign, search = store.campaign(wanted), store.bisect(wanted)
    if search is None:
        raise UsageError(f"{campaign.id} is a {campaign.kind}, not a bisect", "perfguard runs")
    return Stored(
        campaign=campaign,
        search=search,
        pairs=tuple(store.pairs(wanted)),
        trials=tuple(store.trials(wanted)),
        builds=tuple(store.candidate_builds(wanted)),
        confirmations=_confirmations(wanted, store, until),
    )


def _confirmations(wanted: str, store: Store, until: str) -> Mapping[int, Mapping[str, Any]]:
    """Those that came to a verdict, with what they took. One may have been extended since `until`.

    Where an INVALID one was done again the later one counts, and both were paid for.
    """
    found: dict[int, Mapping[str, Any]] = {}
    for link in store.bisect_links(wanted):
        verdicts = [one for one in store.verdicts(link.other) if _is_by(one.created_at, until)]
        if link.role == "confirmation" and verdicts and not is_open(verdicts[-1].document):
            ran = [t for t in store.trials(link.other, with_record=False) if _is_by(t.started_at, until)]
            num_builds = len({(trial.side, trial.build) for trial in ran})
            took = {"builds": num_builds, "launches_s": fsum(trial.wall_s for trial in ran)}
            found[link.after] = {**verdicts[-1].document, **took, **_with_lost(took, found.get(link.after))}
    return found


def is_open(comparison: Mapping[str, Any]) -> bool:
    """It ended for the budget of the bisect, not by what it saw: it goes on with the bisect. An extension has a budget
    of its own.
    """
    return comparison.get("stopped") == "budget" and not comparison.get("extensions")


def _with_lost(took: Mapping[str, Any], before: Mapping[str, Any] | None) -> Mapping[str, Any]:
    if before is None or before["outcome"] != Outcome.INVALID:
        return {}
    num_lost = before["trials"]["ok"] + before.get("lost_trials", 0)
    return {**{key: took[key] + before[key] for key in took}, "lost_trials": num_lost}


def _is_by(moment: str, until: str) -> bool:
    return not until or datetime.fromisoformat(moment) <= datetime.fromisoformat(until)
