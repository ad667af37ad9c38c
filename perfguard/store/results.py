"""The store: one open results.db. Says which records can be kept and asked for; how is in the modules below.

Every method that writes is one transaction, on disk when it returns. Ids may be given as a beginning that is
unique, or "latest". Every method raises StoreError for what the file or the disk does not allow, and UsageError
for an id that is not stored.
"""

import contextlib
import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

from sqlite_utils import Database

from perfguard.errors import StoreError
from perfguard.records import (
    Bisect,
    BlockPlan,
    Campaign,
    CandidateBuild,
    Extension,
    MachineReading,
    PairPlan,
    Scope,
    Trial,
)
from perfguard.store import bisects, campaigns, connection, exchange, machines, trials
from perfguard.store.bisects import BisectLink
from perfguard.store.nightbook import NightBook
from perfguard.store.rows import CampaignOverview, MachineOverview, StoredVerdict, TrialCosts

Status = Literal["running", "interrupted", "finished"]


def open_store(
    path: str | Path, *, read_only: bool = False, busy_timeout_s: float = connection.BUSY_TIMEOUT_S
) -> "Store":
    """Open `path`, created with its folder where it is missing; a folder named .perfguard ignores itself.

    `read_only` writes nothing at all, works on a file and in a folder without write permission, and needs the
    file to be there.
    """
    opened = connection.open_read_only if read_only else connection.open_writable
    return Store(path=Path(path), db=opened(Path(path), busy_timeout_s), is_read_only=read_only)


@dataclass(frozen=True, kw_only=True)
class Store:
    """Use as a context manager: closing folds the journal back into the one file."""

    path: Path
    db: Database
    is_read_only: bool = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        connection.close(self.db)

    @property
    def nights(self) -> NightBook:
        """What nightly jobs store."""
        return NightBook(db=self.db, reading=self.reading, writing=self.writing)

    def add_campaign(self, campaign: Campaign) -> None:
        """Before its first trial. Its status is "running" until `set_status`."""
        with self.writing(campaign.id):
            campaigns.insert(self.db, campaign)

    def add_blocks(self, campaign_id: str, plans: Sequence[BlockPlan]) -> None:
        """As drawn, before they run."""
        with self.writing(campaign_id):
            campaigns.insert_blocks(self.db, campaign_id, plans)

    def add_extension(self, campaign_id: str, extension: Extension, plans: Sequence[BlockPlan]) -> None:
        """With its blocks as drawn, before they run; the campaign is "running" again. Raises StoreError for a number
        that is stored already.
        """
        with self.writing(campaign_id):
            campaigns.insert_extension(self.db, campaign_id, extension)
            campaigns.insert_blocks(self.db, campaign_id, plans)
            campaigns.set_status(self.db, campaign_id, "running")

    def add_bisect(self, campaign_id: str, bisect: Bisect) -> None:
        """What is searched, before its first reading."""
        with self.writing(campaign_id):
            bisects.insert(self.db, campaign_id, bisect)

    def add_pair(self, campaign_id: str, pair: PairPlan) -> None:
        """A reading as drawn, before it runs."""
        with self.writing(campaign_id):
            bisects.insert_pair(self.db, campaign_id, pair)

    def add_candidate_build(self, campaign_id: str, build: CandidateBuild) -> None:
        with self.writing(campaign_id):
            bisects.insert_build(self.db, campaign_id, build)

    def add_bisect_link(self, campaign_id: str, link: BisectLink) -> None:
        """A confirmation or an inner search, before it runs."""
        with self.writing(campaign_id):
            bisects.insert_link(self.db, campaign_id, link)

    def add_trial(self, campaign_id: str, trial: Trial) -> None:
        """At once, whatever its status: when this returns, no crash takes it away.

        Raises ValueError when a value is no finite number, TypeError when the record holds what JSON plus
        tuples and bytes cannot say.
        """
        with self.writing(campaign_id):
            trials.insert(self.db, campaign_id, trial)

    def add_verdict(self, campaign_id: str, document: Mapping[str, Any]) -> None:
        """One more judgement, with the time and this perfguard's version; earlier ones stay."""
        with self.writing(campaign_id):
            campaigns.insert_verdict(self.db, campaign_id, document)

    def set_status(self, campaign_id: str, status: Status) -> None:
        with self.writing(campaign_id):
            campaigns.set_status(self.db, campaigns.resolve(self.db, campaign_id), status)

    def campaign(self, id_or_prefix: str) -> Campaign:
        with self.reading():
            return campaigns.load(self.db, campaigns.resolve(self.db, id_or_prefix))

    def status(self, id_or_prefix: str) -> str:
        with self.reading():
            return campaigns.status(self.db, campaigns.resolve(self.db, id_or_prefix))

    def blocks(self, id_or_prefix: str) -> list[BlockPlan]:
        """In the order they were planned."""
        with self.reading():
            return campaigns.blocks(self.db, campaigns.resolve(self.db, id_or_prefix))

    def extensions(self, id_or_prefix: str) -> list[Extension]:
        """By number, from 1."""
        with self.reading():
            return campaigns.extensions(self.db, campaigns.resolve(self.db, id_or_prefix))

    def trials(self, id_or_prefix: str, *, with_record: bool = True) -> list[Trial]:
        """In the order they were stored. Without records, `record` is empty and a long campaign reads at once."""
        with self.reading():
            return trials.load(self.db, campaigns.resolve(self.db, id_or_prefix), with_record=with_record)

    def bisect(self, id_or_prefix: str) -> Bisect | None:
        """None where the campaign is no bisect."""
        with self.reading():
            return bisects.load(self.db, campaigns.resolve(self.db, id_or_prefix))

    def pairs(self, id_or_prefix: str) -> list[PairPlan]:
        """Readings of a bisect, by number."""
        with self.reading():
            return bisects.pairs(self.db, campaigns.resolve(self.db, id_or_prefix))

    def candidate_builds(self, id_or_prefix: str) -> list[CandidateBuild]:
        """By position; the latest of each."""
        with self.reading():
            return bisects.builds(self.db, campaigns.resolve(self.db, id_or_prefix))

    def bisect_links(self, id_or_prefix: str) -> list[BisectLink]:
        """In the order they were started."""
        with self.reading():
            return bisects.links(self.db, campaigns.resolve(self.db, id_or_prefix))

    def verdicts(self, id_or_prefix: str) -> list[StoredVerdict]:
        """Oldest first."""
        with self.reading():
            return campaigns.verdicts(self.db, campaigns.resolve(self.db, id_or_prefix))

    def latest_verdict(self, id_or_prefix: str) -> Mapping[str, Any] | None:
        """The document last added; None when nothing was judged yet."""
        stored = self.verdicts(id_or_prefix)
        return stored[-1].document if stored else None

    def verdict_stamps(self) -> dict[str, str]:
        """What changes with any further verdict of a campaign, for those that have one."""
        with self.reading():
            return campaigns.verdict_stamps(self.db)

    def machines(self) -> list[MachineOverview]:
        """The one measured on last comes first."""
        with self.reading():
            return campaigns.machines(self.db)

    def campaigns(
        self, limit: int = 50, *, workload: str | None = None, kind: str | None = None
    ) -> list[CampaignOverview]:
        """Newest first."""
        with self.reading():
            return campaigns.overviews(self.db, limit, workload, kind)

    def trial_costs(
        self, workload: str, machine: Mapping[str, Any] | None = None, *, limit: int = 20, scope: Scope = "full"
    ) -> list[TrialCosts]:
        """What valid trials of this workload took, by campaign, newest first.

        `machine` as in Campaign.machine, equal in every field; None takes any machine. Scopes are kept apart:
        instances of one process are nearer to each other than launches are.
        """
        with self.reading():
            return trials.costs(self.db, workload, machine, limit, scope)

    def add_machine_readings(self, machine: str, readings: Sequence[MachineReading]) -> None:
        """Into the history of one machine; a reading that is stored already stays as it is.

        Raises ValueError for a value that is no positive finite number.
        """
        with self.writing(""):
            machines.insert(self.db, machine, readings)

    def machine_readings(self, machine: str, name: str) -> list[MachineReading]:
        """Oldest first."""
        with self.reading():
            return machines.load(self.db, machine, name)

    def export(self, ids: Sequence[str], path: str | Path) -> dict[str, int]:
        """A new results.db with just these campaigns; number of rows by table.

        Raises StoreError when `path` exists. It appears whole or not at all.
        """
        target = Path(path)
        if os.path.lexists(target):  # `Path.exists` raises where a name is too long
            raise StoreError(f"{target} exists: an export never writes into a file", "name a file that is not there")
        with self.reading():
            wanted = bisects.with_linked(self.db, [campaigns.resolve(self.db, one) for one in ids])
        partial = target.with_name(f".{target.name}.{os.getpid()}")
        try:
            with open_store(partial) as other, other.writing(""):
                counts = exchange.copy(self.db, other.db, wanted, is_all=set(wanted) == set(campaigns.all_ids(self.db)))
            os.replace(partial, target)
        except StoreError as error:  # nobody knows the name that it has until it is whole
            raise StoreError(str(error).replace(str(partial), str(target)), error.next_step) from error
        finally:
            with contextlib.suppress(OSError):  # where it could not be made, it cannot be removed: that is said already
                partial.unlink(missing_ok=True)
        return counts

    def merge(self, other_path: str | Path) -> dict[str, int]:
        """Take over what another results.db holds; number of rows by table that were new here.

        Raises StoreError, with nothing merged, when the same id has another content there.
        """
        with open_store(other_path, read_only=True) as other, self.writing(""):
            return exchange.copy(other.db, self.db, campaigns.all_ids(other.db), is_all=True)

    @contextlib.contextmanager
    def reading(self) -> Iterator[None]:
        """For this package: what SQLite says inside becomes a StoreError."""
        with connection.explained(self.path):
            yield

    @contextlib.contextmanager
    def writing(self, campaign_id: str) -> Iterator[None]:
        """For this package: one transaction, on disk at its end."""
        if self.is_read_only:
            raise StoreError(f"{self.path} was opened to read only", "name a file that can be written with --db")
        with connection.transaction(self.db, self.path, lambda: self._what_is_stored(campaign_id)):
            yield

    def _what_is_stored(self, campaign_id: str) -> str:
        with contextlib.suppress(sqlite3.Error):
            return campaigns.what_is_stored(self.db, campaign_id)
        return ""
