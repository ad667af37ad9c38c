"""The story of `bisect`, readable top to bottom: read, confirm, go inside a blamed merge, conclude.

Joins the edges with the pure decisions (state.py, verdict.py). Holds no formula and prints nothing itself.
"""

import time
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from perfguard import experiment
from perfguard.bisection.builds import ANCHOR, Workshop
from perfguard.bisection.loading import is_open, load
from perfguard.bisection.plan import PlannedBisect, inner_campaign, plan_further, plan_inside, sides_of_merge
from perfguard.bisection.readings import Search, read_next
from perfguard.bisection.state import (
    PAIR,
    Standing,
    Stored,
    confirmation,
    lost_confirmation,
    search_state,
    setup_of,
    standing,
)
from perfguard.bisection.verdict import bisect_json, reading_json
from perfguard.comparable import refuse_other_conditions
from perfguard.errors import Interrupted, StoreError, UsageError
from perfguard.launching import Launcher
from perfguard.policy import stored_policy
from perfguard.pricing import calibrated_clock_mhz
from perfguard.records import Outcome, Revision, Trial
from perfguard.stats.culprit_links import next_searches
from perfguard.store import BisectLink, Store
from perfguard.store.bisects import Role
from perfguard.subject.repository import Repository
from perfguard.subject.workspace import open_workspace
from perfguard.unfinished import marked_if_interrupted

# Launches of the shortest confirmation: two blocks, three on fresh builds, and the first run of each build.
LEAST_CONFIRMATION = 30


class Watcher(experiment.Observer, Protocol):
    """Who watches: a progress display, or nobody."""

    def reading_ended(self, reading: Mapping[str, Any]) -> None: ...


@dataclass(kw_only=True)
class Job:
    """One process at one bisect. `budget_s` counts from `started_s`; 0 means none."""

    id: str
    repository: Repository
    store: Store
    watcher: Watcher
    budget_s: float = 0.0
    started_s: float = field(default_factory=time.monotonic)

    @property
    def resume_command(self) -> str:
        return f"perfguard bisect --resume {self.id} --db {self.store.path}"


def bisect(planned: PlannedBisect, repository: Repository, store: Store, watcher: Watcher) -> dict[str, Any]:
    """The commit that changed performance, or PHANTOM: the JSON of a bisect, stored too."""
    register(planned, store)
    budget_s = stored_policy(planned.campaign.policy).budget_s
    return _to_verdict(
        Job(id=planned.campaign.id, repository=repository, store=store, watcher=watcher, budget_s=budget_s)
    )


def resume(
    wanted: str, repository: Repository, store: Store, watcher: Watcher, budget_s: float | None = None
) -> dict[str, Any]:
    """Go on where a bisect was interrupted or ran out of budget; whole readings are not made again."""
    campaign = store.campaign(wanted)
    if campaign.kind != "bisect":
        raise UsageError(f"{campaign.id} is a {campaign.kind}, not a bisect", "perfguard runs")
    refuse_other_conditions(campaign)
    store.set_status(campaign.id, "running")
    own_s = stored_policy(campaign.policy).budget_s
    job = Job(
        id=campaign.id,
        repository=repository,
        store=store,
        watcher=watcher,
        budget_s=own_s if budget_s is None else budget_s,
    )
    return _to_verdict(job)


def register(planned: PlannedBisect, store: Store) -> None:
    """Everything that was asked for, stored before anything runs."""
    store.add_campaign(planned.campaign)
    store.add_bisect(planned.campaign.id, planned.search)


def _to_verdict(job: Job) -> dict[str, Any]:
    """Whatever ends it early leaves it marked, also where a part of it or what lies between two parts was interrupted:
    the whole is what goes on."""
    try:
        return _searched(job)
    except (Interrupted, KeyboardInterrupt) as error:
        job.store.set_status(job.id, "interrupted")
        raise Interrupted(str(error) or "interrupted", job.resume_command) from None
    except BaseException:  # a commit is gone, nobody reads what it says any more: the error tells
        with suppress(StoreError):  # it may be the very reason
            job.store.set_status(job.id, "interrupted")
        raise


def _searched(job: Job) -> dict[str, Any]:
    """Read until one commit is named, confirm it, and so on until the answer stands."""
    experiment.clear_leftovers(job.watcher)
    lost = lost_confirmation(load(job.id, job.store), _num_invalid(job))
    stopped = "" if lost is None else _confirm(job, lost)
    while not stopped and (at := standing(load(job.id, job.store))).state != "done":
        stopped = _read(job) if at.state == "measure" else _confirm(job, at)
    verdict = bisect_json(load(job.id, job.store), stopped=stopped)
    if verdict["outcome"] == "CULPRIT":
        inside, further = _inside(job), _further(job)
        verdict = bisect_json(load(job.id, job.store), inside=inside, further=further)
    job.store.add_verdict(job.id, verdict)
    job.store.set_status(job.id, "finished")
    job.watcher.note("")  # what is printed next stands on a line of its own
    return verdict


def _read(job: Job) -> str:
    """Readings until something else is to be done. Returns why it stopped before that: "budget", or ""."""
    campaign, trials = job.store.campaign(job.id), list[Trial]()
    with (
        marked_if_interrupted(campaign, trials, job.store, job.resume_command),
        experiment.waiting_for_machine(
            campaign, job.watcher, sm_mhz=calibrated_clock_mhz(campaign, job.store)
        ) as machine,
        open_workspace() as workspace,
    ):
        stored = load(job.id, job.store)  # now, since another process may have gone on with it while we waited
        if standing(stored).state != "measure":
            return ""
        trials += stored.trials
        launcher = Launcher(campaign=campaign, repository=job.repository, workspace=workspace, machine=machine)
        session = experiment.Session(
            campaign=stored.campaign,
            plans=[],
            trials=trials,
            store=job.store,
            launcher=launcher,
            observer=job.watcher,
        )
        known = {build.position: build for build in stored.builds}
        workshop = Workshop(session=session, search=stored.search, repository=job.repository, known=known)
        return _read_on(job, Search(stored=stored, session=session, workshop=workshop))


def _read_on(job: Job, search: Search) -> str:
    """GOOD is built first: what that costs is known before the first choice."""
    search.workshop.prepare(ANCHOR)
    at = search.refresh()
    while at.state == "measure":
        assert at.decision is not None
        assert at.decision.position is not None
        if _is_over(job, search, PAIR + (at.decision.position not in search.workshop.ready)):
            return "budget"
        read_next(search, at.decision.position)
        at = search.refresh()
        job.watcher.reading_ended(reading_json(search.stored, at))
    return ""


def _is_over(job: Job, search: Search, num_launches: int) -> bool:
    costs_s = [trial.wall_s for trial in search.session.trials]
    return _would_end_late(job, num_launches * sum(costs_s) / max(1, len(costs_s)))


def _would_end_late(job: Job, cost_s: float) -> bool:
    """Nothing is begun that would end beyond the budget."""
    return bool(job.budget_s) and time.monotonic() - job.started_s + cost_s > job.budget_s


def _confirm(job: Job, at: Standing) -> str:
    """The named commit against the position before it, by an ordinary comparison on fresh builds of both."""
    assert at.decision is not None
    stored = load(job.id, job.store)
    before, after = at.decision.before or 0, at.decision.after or 0
    costs_s = [trial.wall_s for trial in stored.trials]
    if _would_end_late(job, LEAST_CONFIRMATION * sum(costs_s) / max(1, len(costs_s))):
        return "budget"
    job.watcher.say(f"confirming {_named(stored, after)} against {_named(stored, before)}, with fresh builds of both")
    link = _open_link(job.store, job.id, "confirmation", before, after)
    if link is None:
        again = sum(one.role == "confirmation" for one in job.store.bisect_links(job.id) if one.after == after)
        ends = (_revision(job, stored, before), _revision(job, stored, after))
        campaign = inner_campaign(stored.campaign, stored.search, ends, job.repository, kind="compare")
        campaign = replace(campaign, seed=(campaign.seed + again) % 2**31)  # one done again has orders of its own
        job.store.add_campaign(campaign)
        job.store.add_blocks(campaign.id, experiment.planned_blocks(campaign))
        job.store.add_bisect_link(
            job.id, BisectLink(role="confirmation", other=campaign.id, before=before, after=after)
        )
    else:
        campaign = job.store.campaign(link.other)
    left_s = job.budget_s - (time.monotonic() - job.started_s) if job.budget_s else None
    verdict = experiment.measure_to_verdict(campaign, job.repository, job.store, job.watcher, left_s)
    return "budget" if is_open(verdict) else ""


def _num_invalid(job: Job) -> dict[int, int]:
    """Position -> how many of its confirmations ended INVALID."""
    links = [link for link in job.store.bisect_links(job.id) if link.role == "confirmation"]
    verdicts = [(link.after, job.store.latest_verdict(link.other)) for link in links]
    return Counter(after for after, verdict in verdicts if verdict and verdict["outcome"] == Outcome.INVALID)


def _open_link(store: Store, wanted: str, role: str, before: int, after: int) -> BisectLink | None:
    """One that was begun and has no verdict yet, or none but that the budget was used up."""
    for link in store.bisect_links(wanted):
        if (link.role, link.before, link.after) == (role, before, after):
            verdict = store.latest_verdict(link.other)
            if verdict is None or is_open(verdict):
                return link
    return None


def _inside(job: Job) -> dict[str, Any] | None:
    """The search on the branch of a blamed merge: the first branch with a culprit, else the last one searched."""
    stored = load(job.id, job.store)
    decision = standing(stored).decision
    if decision is None or decision.culprit is None or stored.search.all_parents:
        return None
    found = None
    for side in sides_of_merge(stored, decision.before or 0, decision.culprit, job.repository):
        merge = stored.search.candidates[decision.culprit - 1].revision.commit
        planned = plan_inside(stored, side, merge, job.repository)
        if planned is not None:
            found = _search_inside(job, planned, decision.before or 0, decision.culprit)
            if found["outcome"] == "CULPRIT":
                break
    return found


def _search_inside(job: Job, planned: PlannedBisect, before: int, after: int) -> dict[str, Any]:
    tip = planned.campaign.arms[1].revision.commit
    job.watcher.say(f"{planned.search.merge[:12]} is a merge: searching the branch it brought, {tip[:12]}")
    return _search_part(job, planned, "inside", before, after)


def _further(job: Job) -> list[dict[str, Any]]:
    """Where the culprit does not explain all of BAD's slowdown: the searches before it and behind it."""
    stored = load(job.id, job.store)
    decision = standing(stored).decision
    if decision is None or decision.culprit is None:
        return []
    found = confirmation(stored, stored.confirmations[decision.culprit])
    parts = next_searches(setup_of(stored), search_state(stored).readings, decision.culprit, found)
    if parts:
        job.watcher.say("the readings leave room for a further change: searching before the culprit and behind it")
    results = []
    for part in parts:
        end = part.start + part.setup.num_candidates
        ends = _revision(job, stored, part.start), _revision(job, stored, end)
        planned = plan_further(stored, part, ends, job.repository)
        results.append(_search_part(job, planned, "further", part.start, end))
    return results


def _search_part(job: Job, planned: PlannedBisect, role: Role, before: int, after: int) -> dict[str, Any]:
    """Once a part: a search that was begun goes on, one that is done measures nothing again."""
    tip = planned.campaign.arms[1].revision.commit
    for link in job.store.bisect_links(job.id):
        if link.role == role and job.store.campaign(link.other).arms[1].revision.commit == tip:
            break
    else:
        register(planned, job.store)
        link = BisectLink(role=role, other=planned.campaign.id, before=before, after=after)
        job.store.add_bisect_link(job.id, link)
    return _to_verdict(replace(job, id=link.other))


def _revision(job: Job, stored: Stored, position: int) -> Revision:
    """As git has it; what is put on top of every commit comes later."""
    if position == 0:
        good = stored.campaign.arms[0].revision
        return replace(job.repository.resolve(good.commit), name=good.name)
    return stored.search.candidates[position - 1].revision


def _named(stored: Stored, position: int) -> str:
    revision = stored.search.candidates[position - 1].revision if position else stored.campaign.arms[0].revision
    return f"{revision.commit[:12]} {revision.subject}".strip()
