"""The nightly part of an open store: nights, their comparisons, pins, acks and suspicions.

Every method that writes is one transaction. Which night follows from which is for perfguard.nightly.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

from sqlite_utils import Database

from perfguard.store import nights
from perfguard.store.nights import Ack, NightRun, NightValue, Pin, StoredNight, Suspicion


@dataclass(frozen=True, kw_only=True)
class NightBook:
    """Got from Store.nights; `reading` and `writing` are the store's own ways into its file."""

    db: Database
    reading: Callable[[], AbstractContextManager[None]]
    writing: Callable[[str], AbstractContextManager[None]]

    def put(self, night: StoredNight) -> None:
        """A night as it stands now."""
        with self.writing(""):
            nights.put_night(self.db, night)

    def newest(self, limit: int) -> list[StoredNight]:
        """Newest first."""
        with self.reading():
            return nights.newest_nights(self.db, limit)

    def add_run(self, run: NightRun) -> None:
        """Before it is measured, so that an interrupted night finds it again."""
        with self.writing(run.campaign):
            nights.insert_row(self.db, "night_runs", run, without=("outcome",))

    def add_values(self, campaign: str, outcome: str, values: Sequence[NightValue]) -> None:
        with self.writing(campaign):
            nights.insert_values(self.db, campaign, outcome, values)

    def runs_of_night(self, night: str) -> list[NightRun]:
        with self.reading():
            return nights.runs(self.db, "night", night)

    def runs_of_workload(self, workload: str) -> list[NightRun]:
        """Oldest first."""
        with self.reading():
            return nights.runs(self.db, "workload", workload)

    def values_of_workload(self, workload: str) -> list[tuple[NightRun, NightValue]]:
        """Oldest first."""
        with self.reading():
            return nights.values(self.db, workload)

    def workloads(self) -> list[str]:
        with self.reading():
            return nights.workloads(self.db)

    def add_pin(self, pin: Pin) -> None:
        with self.writing(""):
            nights.insert_row(self.db, "pins", pin)

    def pins(self) -> list[Pin]:
        """Oldest first."""
        with self.reading():
            return nights.rows_of(self.db, Pin, "pins", "number")

    def add_ack(self, ack: Ack) -> None:
        with self.writing(""):
            nights.insert_row(self.db, "acks", ack)

    def acks(self) -> list[Ack]:
        with self.reading():
            return nights.rows_of(self.db, Ack, "acks", "acked_at")

    def add_suspicion(self, suspicion: Suspicion) -> None:
        with self.writing(""):
            nights.insert_row(self.db, "suspicions", suspicion)

    def update_suspicion(self, suspicion: Suspicion) -> None:
        """Its status, search and answer."""
        with self.writing(""):
            nights.update_suspicion(self.db, suspicion)

    def suspicions(self) -> list[Suspicion]:
        """Oldest first."""
        with self.reading():
            return nights.rows_of(self.db, Suspicion, "suspicions", "filed_at")
