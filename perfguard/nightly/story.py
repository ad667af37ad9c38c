"""The story of a night, readable top to bottom: what is filed, what is new, what moved, what is suspected, searched.

Joins the edges with the pure decisions beside it. Holds no formula and prints nothing itself.
"""

import time
from dataclasses import replace
from datetime import datetime
from typing import Any

from perfguard.campaign import new_id
from perfguard.errors import EXIT_FAILURE, EXIT_OK, EXIT_UNDECIDED, Interrupted, PerfguardError, StoreError, UsageError
from perfguard.hooks import Hooks, tell_of_machine_change, tell_of_outcome
from perfguard.nightly import document, standing, suspecting
from perfguard.nightly.acks import accepted_by
from perfguard.nightly.choosing import Chosen, choose
from perfguard.nightly.night import Night, begin, marked_if_interrupted, only_one, tell
from perfguard.nightly.pins import follow_file
from perfguard.nightly.plan import WORST_FIRST, share_s
from perfguard.nightly.searching import Searcher, Watcher
from perfguard.nightly.tasks import Task, measure
from perfguard.nightly.wishes import Wishes
from perfguard.store import NightRun, Store, Suspicion
from perfguard.subject.repository import Repository

# Of a night's budget, for searches that earlier nights filed: the rest is tonight's own.
FILED_SHARE = 0.5


def nightly(
    wishes: Wishes,
    head: str,
    repository: Repository,
    store: Store,
    watcher: Watcher,
    hooks: Hooks,
    now: datetime,
) -> dict[str, Any]:
    """The JSON of a night, stored too. Raises BusyError while another night runs on this machine, Interrupted."""
    with only_one():
        follow_file(wishes.reference, repository, store, now)
        night = begin(wishes, head, repository, store, watcher, hooks, now)
        with marked_if_interrupted(night):
            chosen = [choose(night, workload) for workload in wishes.workloads]
            _search_filed(night)
            _measure_all(night, chosen)
            _look_at_machine(night, chosen)
            _search_new(night, chosen)
        return _conclude(night)


def _search_filed(night: Night) -> None:
    """What earlier nights could not search comes first, in at most its share of the budget."""
    limit_s = night.wishes.budget_s * FILED_SHARE
    for suspicion in night.store.nights.suspicions():
        if suspicion.status == "open":
            spent_s = time.monotonic() - night.started_s
            _search(night, suspicion, limit_s - spent_s if limit_s else None)


def _search(night: Night, suspicion: Suspicion, budget_s: float | None) -> None:
    """`budget_s` None: no limit. Without time left, or where nobody wants searches, it stays filed."""
    workload = next((one for one in night.wishes.workloads if one.name == suspicion.workload), None)
    if not night.wishes.is_searching or workload is None or (budget_s is not None and budget_s <= 0):
        return
    searcher = Searcher(
        repository=night.repository, store=night.store, watcher=night.watcher, policy=night.wishes.policy
    )
    found = searcher.search(suspicion, workload, budget_s or 0.0)
    if found is None:
        return
    entry = document.search_entry(suspicion, found, is_accepted=_is_accepted(night, suspicion))
    night.searches.append(entry)
    if entry["exit_code"] != EXIT_OK:
        tell(night, tell_of_outcome(night.hooks, found))


def _is_accepted(night: Night, suspicion: Suspicion) -> bool:
    comparison = night.store.latest_verdict(suspicion.campaign) if suspicion.campaign else None
    return comparison is not None and accepted_by(comparison, night.store, night.now) is not None


def _measure_all(night: Night, chosen: list[Chosen]) -> None:
    """Workload after workload, each with its share of what is left of the budget, by need."""
    todo = [one for one in chosen if not one.is_unchanged]
    needs_s = [task.need_s for one in todo for task in one.tasks]
    for one in chosen:
        if one.is_unchanged:
            text = f"{one.workload.name}: nothing that it loads changed since last night"
            night.entries.append(document.other_entry(one.workload.name, one.pin, "unchanged", text, EXIT_OK))
            continue
        for task in one.tasks:
            budget_s = share_s(night.left_s(), needs_s) if night.wishes.budget_s else 0.0
            needs_s.pop(0)
            _measure(night, one, task, budget_s)


def _measure(night: Night, one: Chosen, task: Task, budget_s: float) -> None:
    """One comparison; what fails is an entry of its own, and the night goes on."""
    name = one.workload.name
    if night.is_over and not task.begun:
        if not task.run.is_link:
            text = f"{name}: no time was left in this night's budget"
            night.entries.append(document.other_entry(name, one.pin, "not measured", text, EXIT_UNDECIDED))
        return
    night.watcher.say(f"{name}: {night.head.name} against {task.run.pin[:12]}" + " (to link)" * task.run.is_link)
    try:
        comparison = measure(task, budget_s, night.repository, night.store, night.watcher)
    except (Interrupted, StoreError):
        raise
    except PerfguardError as error:
        code = error.exit_code if error.exit_code in WORST_FIRST else EXIT_FAILURE
        night.entries.append(document.other_entry(name, one.pin, "failed", f"{name}: {error}", code))
        return
    night.notices += comparison.get("machine_moved", ())
    if not task.run.is_link:
        ack = accepted_by(comparison, night.store, night.now)
        entry = document.measured_entry(name, one.pin, comparison, ack)
        night.entries.append(entry)
        night.comparisons.append(comparison)
        # What had its outcome when the night was interrupted was told then: it is stored after the telling.
        if entry["acked"] is None and not task.run.outcome:
            tell(night, tell_of_outcome(night.hooks, comparison))
    values = standing.night_values(comparison)
    night.store.nights.add_values(comparison["id"], str(comparison["outcome"]), values)


def _look_at_machine(night: Night, chosen: list[Chosen]) -> None:
    """Another machine than in the last night, beside what comparisons told of this one's history: never red."""
    for one in chosen:
        runs = night.store.nights.runs_of_workload(one.workload.name)
        earlier = [run for run in runs if run.night != night.stored.id]
        if earlier and earlier[-1].machine != one.tasks[0].run.machine:
            night.notices.append({"code": "MACHINE_MOVED", "text": _what_moved(night, earlier[-1], one.tasks[0])})
    night.notices = list({notice["text"]: notice for notice in night.notices}.values())


def _what_moved(night: Night, earlier: NightRun, tonight: Task) -> str:
    try:
        then = night.store.campaign(earlier.campaign).machine
    except UsageError:  # pruned
        return f"{standing.MOVED}: another machine than in the night of {earlier.started_at}; a new series begins"
    return standing.other_machine(then, tonight.campaign.machine, earlier.started_at)


def _search_new(night: Night, chosen: list[Chosen]) -> None:
    """What is suspected tonight and was not before is filed, and searched in what is left of the budget."""
    for suspicion in [new for one in chosen for new in _suspicions(night, one)]:
        night.store.nights.add_suspicion(suspicion)
        _search(night, suspicion, night.left_s() if night.wishes.budget_s else None)


def _suspicions(night: Night, one: Chosen) -> list[Suspicion]:
    """Of one workload: its verdict's window, then those of change points in its series."""
    known = [other for other in night.store.nights.suspicions() if other.workload == one.workload.name]
    runs = night.store.nights.runs_of_workload(one.workload.name)
    earlier = [run for run in runs if run.night != night.stored.id]
    windows: list[suspecting.Window] = []
    run = one.tasks[0].run
    comparison = next((c for c in night.comparisons if c["id"] == run.campaign), None)
    if comparison is not None:
        resting = [(other, night.store.latest_verdict(other.campaign)) for other in known if other.campaign]
        window = suspecting.verdict_window(comparison, run, earlier, [(o, c) for o, c in resting if c is not None])
        windows += [window] if window is not None else []
    series = standing.all_series(night.store, one.workload.name)
    tonight = [s for s in series if s.machine == run.machine]
    windows += [w for w in suspecting.change_windows(tonight, known) if not windows]
    return [_filed(night, one.workload.name, window, run.campaign) for window in windows]


def _filed(night: Night, workload: str, window: suspecting.Window, campaign: str) -> Suspicion:
    return Suspicion(
        id=new_id(),
        filed_at=night.now.isoformat(timespec="seconds"),
        workload=workload,
        metric=window.metric,
        cause=window.cause,
        good=window.good,
        bad=window.bad,
        since=window.since,
        campaign=campaign if window.cause != suspecting.CHANGE_POINT else "",
    )


def _conclude(night: Night) -> dict[str, Any]:
    """Stored first, told then."""
    waiting = [one for one in night.store.nights.suspicions() if one.status == "open"]
    result = document.night_json(night.stored, night.head, night.entries, night.searches, waiting, night.notices)
    night.store.nights.put(replace(night.stored, status="finished", document=result))
    tell(night, tell_of_machine_change(night.hooks, result["notices"]))
    by_id = {comparison["id"]: comparison for comparison in night.comparisons}
    for entry in result["workloads"]:
        entry["comparison"] = by_id.get(entry["campaign"])
    return result
