"""What a night measures and for how long, and what its exit code is. Pure: stored rows in, decisions out."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from perfguard.errors import EXIT_FAILURE, EXIT_INVALID, EXIT_OK, EXIT_REGRESSION, EXIT_UNDECIDED
from perfguard.store import NightRun, Pin, StoredNight

# A new reference is measured beside the old one for so many nights, so that their series link.
OVERLAP_NIGHTS = 3
# An unfinished night younger than this goes on if head is still the same commit.
MAX_RESUME_AGE = timedelta(hours=20)
# What code was shown to be as fast as before.
GOOD = frozenset({"EQUIVALENT", "IMPROVEMENT"})
# The worst first. A regression is certain; a failure or INVALID says that a workload was not looked at at all.
WORST_FIRST = (EXIT_REGRESSION, EXIT_FAILURE, EXIT_INVALID, EXIT_UNDECIDED, EXIT_OK)


def current_pin(pins: Sequence[Pin], workload: str) -> Pin | None:
    """The newest that is meant for this workload; None where nobody pinned a reference. `pins`: oldest first."""
    return next((pin for pin in reversed(pins) if pin.workload in ("", workload)), None)


def linking_pin(pins: Sequence[Pin], runs: Sequence[NightRun], workload: str) -> Pin | None:
    """The reference before the current one while too few nights have measured both; None when they are linked.

    A reference that no night measured needs no link.
    """
    own = [pin for pin in pins if pin.workload in ("", workload)]
    if not own:
        return None
    current = own[-1].commit_sha
    before = next((pin for pin in reversed(own) if pin.commit_sha != current), None)
    if before is None:
        return None
    old, new = ({run.night for run in runs if run.pin == c and run.outcome} for c in (before.commit_sha, current))
    return before if old and len(old & new) < OVERLAP_NIGHTS else None


def is_unchanged(runs: Sequence[NightRun], pin: str, code: str, machine: str) -> bool:
    """Was this code measured last, on this machine against this reference, and found good?

    What was not found good is measured again: silence must not turn a night green. `runs`: oldest first.
    """
    judged = [run for run in runs if not run.is_link]
    if not judged:
        return False
    last = judged[-1]
    return (last.pin, last.code, last.machine) == (pin, code, machine) and last.outcome in GOOD


def last_good(runs: Sequence[NightRun], pin: str) -> NightRun | None:
    """The newest night in which head was as fast as this reference. `runs`: oldest first, tonight's not among them."""
    good = (run for run in reversed(runs) if run.pin == pin and not run.is_link and run.outcome in GOOD)
    return next(good, None)


def share_s(left_s: float, needs_s: Sequence[float]) -> float:
    """Seconds of the budget for the first of those still to be measured, by need; what it leaves is shared again."""
    total = sum(needs_s)
    return left_s * needs_s[0] / total if total > 0 else left_s / len(needs_s)


def unfinished(nights: Sequence[StoredNight], commit: str, now: datetime) -> StoredNight | None:
    """The newest night if it was interrupted and can go on. `nights`: newest first."""
    newest = next(iter(nights), None)
    if newest is None or newest.status not in ("running", "interrupted") or newest.commit_sha != commit:
        return None
    return newest if now - datetime.fromisoformat(newest.started_at) <= MAX_RESUME_AGE else None


def worst(codes: Sequence[int]) -> int:
    """The exit code of the whole night."""
    return min(codes, key=WORST_FIRST.index, default=EXIT_OK)
