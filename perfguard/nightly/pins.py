"""`perfguard pin`: which commit head is measured against. Resolves and stores; measures nothing."""

from datetime import datetime

from perfguard.errors import UsageError
from perfguard.nightly.plan import current_pin
from perfguard.store import Pin, Store
from perfguard.subject.repository import Repository


def set_pin(revision: str, workload: str, repository: Repository, store: Store, now: datetime) -> tuple[Pin, bool]:
    """The pin as it is now, and whether it is a new one. `workload` "" pins for all. Raises RevisionError."""
    found = repository.resolve(revision)
    if found.is_dirty:
        raise UsageError(f"{revision} is uncommitted work; a reference is a commit", "perfguard pin HEAD")
    current = current_pin(store.nights.pins(), workload)
    if current is not None and (current.commit_sha, current.workload) == (found.commit, workload):
        return current, False
    pinned_at = now.isoformat(timespec="seconds")
    pin = Pin(workload=workload, commit_sha=found.commit, revision=revision, pinned_at=pinned_at)
    store.nights.add_pin(pin)
    return pin, True


def shown_pins(store: Store) -> list[Pin]:
    """The newest of each workload, that of all workloads first."""
    newest = {pin.workload: pin for pin in store.nights.pins()}
    return [newest[workload] for workload in sorted(newest)]


def follow_file(reference: str, repository: Repository, store: Store, now: datetime) -> None:
    """Where perfguard.toml names the reference, a change there, or of the tag that it names, is a new pin."""
    if reference:
        set_pin(reference, "", repository, store, now)
