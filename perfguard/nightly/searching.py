"""A suspicion of some night -> a bisect, begun or gone on with. Decides nothing about commits."""

from dataclasses import dataclass, replace
from typing import Any, Protocol

from perfguard.bisection import story
from perfguard.bisection.plan import PlannedBisect, Wanted, plan_bisect, plan_from_comparison
from perfguard.campaign import Request, Wish
from perfguard.errors import HarnessError, NotComparableError, StoreError, UsageError
from perfguard.nightly.suspecting import CHANGE_POINT
from perfguard.policy import Policy, stored_policy
from perfguard.records import Campaign, Workload
from perfguard.store import Store, Suspicion
from perfguard.subject.repository import Repository


class Watcher(story.Watcher, Protocol):
    """Who watches a night."""


@dataclass(frozen=True, kw_only=True)
class Searcher:
    """What every search of a night needs."""

    repository: Repository
    store: Store
    watcher: Watcher
    policy: Policy

    def search(self, suspicion: Suspicion, workload: Workload, budget_s: float) -> dict[str, Any] | None:
        """The bisect's JSON; None where there is nothing left to search, which is then said and stored.

        A search that ran out of time, or met a failure, stays open: the next night goes on with it.
        """
        words = f"{suspicion.workload}: searching {suspicion.good[:12]}..{suspicion.bad[:12]} ({suspicion.cause})"
        self.watcher.say(words)
        try:
            found = self._begun(suspicion, budget_s) or self._new(suspicion, workload, budget_s)
        except UsageError as error:  # rewritten history, a metric that is gone
            self.watcher.say(f"{suspicion.workload}: cannot be searched: {error}")
            if self.repository.location.is_shallow:  # a deeper clone can
                return None
            self.store.nights.update_suspicion(replace(suspicion, status="answered", answer="IMPOSSIBLE"))
            return None
        except StoreError:
            raise
        except HarnessError as error:
            self.watcher.say(f"{suspicion.workload}: the search failed and stays filed: {error}")
            return None
        if not found["stopped"]:
            answered = replace(suspicion, status="answered", bisect=found["id"], answer=str(found["outcome"]))
            self.store.nights.update_suspicion(answered)
        return found

    def _begun(self, suspicion: Suspicion, budget_s: float) -> dict[str, Any] | None:
        """None where none was begun, the machine is another one now, or it was pruned."""
        if not suspicion.bisect:
            return None
        try:
            return story.resume(suspicion.bisect, self.repository, self.store, self.watcher, budget_s)
        except (NotComparableError, UsageError) as error:
            self.watcher.say(f"{error}: searching anew")
            return None

    def _new(self, suspicion: Suspicion, workload: Workload, budget_s: float) -> dict[str, Any]:
        planned = self._planned(suspicion, workload, budget_s)
        self.store.nights.update_suspicion(replace(suspicion, bisect=planned.campaign.id))
        return story.bisect(planned, self.repository, self.store, self.watcher)

    def _planned(self, suspicion: Suspicion, workload: Workload, budget_s: float) -> PlannedBisect:
        """A window that begins at the reference starts from the night's own launches, which are not made again."""
        wanted = Wanted(metric=suspicion.metric)
        if suspicion.cause != CHANGE_POINT and suspicion.campaign:
            stored = self.store.campaign(suspicion.campaign)
            base, head = (arm.revision.commit for arm in stored.arms)
            if (base, head) == (suspicion.good, suspicion.bad):
                try:
                    return plan_from_comparison(
                        stored.id, lambda of: self._like(of, budget_s), wanted, self.repository, self.store
                    )
                except NotComparableError as error:
                    self.watcher.say(f"{error}: its launches are not used")
        ends = (Wish(side="base", revision=suspicion.good), Wish(side="head", revision=suspicion.bad))
        policy = replace(self.policy, is_confirmed=True, budget_s=budget_s)
        request = Request(wishes=ends, workload=workload, policy=policy, kind="bisect")
        return plan_bisect(request, wanted, self.repository, self.store)

    def _like(self, stored: Campaign, budget_s: float) -> Request:
        ends = tuple(Wish(side=arm.side, revision=arm.revision.commit) for arm in stored.arms)
        policy = replace(stored_policy(stored.policy), is_confirmed=True, budget_s=budget_s)
        return Request(wishes=ends, workload=stored.workload, policy=policy, kind="bisect")
