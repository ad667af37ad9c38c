"""One process at one night: begun or gone on with, alone on its machine, marked if it is interrupted. No decision."""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from perfguard.campaign import new_id
from perfguard.errors import BusyError, Interrupted, StoreError, UsageError
from perfguard.hooks import Hooks
from perfguard.machine.hold import hold_machine, lock_folder
from perfguard.nightly.plan import unfinished
from perfguard.nightly.searching import Watcher
from perfguard.nightly.wishes import Wishes
from perfguard.records import Revision
from perfguard.store import Store, StoredNight
from perfguard.subject.repository import Repository


@dataclass(kw_only=True)
class Night:
    """One process at one night. `comparisons` and `entries` grow as workloads are measured."""

    stored: StoredNight
    head: Revision
    wishes: Wishes
    repository: Repository
    store: Store
    watcher: Watcher
    hooks: Hooks
    now: datetime
    entries: list[dict[str, Any]] = field(default_factory=list)
    comparisons: list[Mapping[str, Any]] = field(default_factory=list)
    searches: list[dict[str, Any]] = field(default_factory=list)
    notices: list[dict[str, Any]] = field(default_factory=list)
    started_s: float = field(default_factory=time.monotonic)

    def left_s(self) -> float:
        """Of the budget; 0 where it is used up. Only asked where there is one."""
        return max(0.0, self.wishes.budget_s - (time.monotonic() - self.started_s))

    @property
    def is_over(self) -> bool:
        return bool(self.wishes.budget_s) and self.left_s() <= 0


@contextmanager
def only_one() -> Iterator[None]:
    """Each comparison holds the machine for itself; this keeps a second night from being woven into the first."""
    try:
        with hold_machine("perfguard nightly", folder=lock_folder() / "nightly"):
            yield
    except BusyError as error:
        if "nightly" not in str(error):
            raise
        raise BusyError(f"another night is running: {error}", error.next_step) from error


def begin(
    wishes: Wishes,
    head: str,
    repository: Repository,
    store: Store,
    watcher: Watcher,
    hooks: Hooks,
    now: datetime,
) -> Night:
    """A new night, or the one that was interrupted; one that cannot go on is given up."""
    revision = repository.resolve(head)
    if revision.is_dirty:
        raise UsageError(f"{head} is uncommitted work; a night measures a commit", "perfguard nightly --head HEAD")
    newest = store.nights.newest(1)
    old = unfinished(newest, revision.commit, now)
    if old is None and newest and newest[0].status in ("running", "interrupted"):
        store.nights.put(replace(newest[0], status="given up"))
    if old is not None:
        watcher.say(f"going on with the night of {old.started_at}")
    started_at = now.isoformat(timespec="seconds")
    new = StoredNight(id=new_id(), started_at=started_at, status="running", commit_sha=revision.commit)
    stored = replace(old, status="running") if old is not None else new
    store.nights.put(stored)
    return Night(
        stored=stored,
        head=revision,
        wishes=wishes,
        repository=repository,
        store=store,
        watcher=watcher,
        hooks=hooks,
        now=now,
    )


@contextmanager
def marked_if_interrupted(night: Night) -> Iterator[None]:
    try:
        yield
    except BaseException as error:
        with suppress(StoreError):  # it may be the very reason
            night.store.nights.put(replace(night.stored, status="interrupted"))
        if isinstance(error, Interrupted | KeyboardInterrupt):
            raise Interrupted(f"{error or 'interrupted'}", "perfguard nightly, which goes on with this night") from None
        raise


def tell(night: Night, problem: str) -> None:
    """What went wrong with a hook."""
    if problem:
        night.watcher.say(problem)
