"""What is stored of nightly jobs, and the queries on it. Opens no file, ends no transaction, judges nothing."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, TypeVar

from sqlite_utils import Database

from perfguard.records import Better
from perfguard.store import codec, damage

NightStatus = Literal["running", "interrupted", "finished", "given up"]


@dataclass(frozen=True, kw_only=True)
class StoredNight:
    """One nightly job. `document`: its result (perfguard/nightly@1), empty while it runs."""

    id: str
    started_at: str
    status: NightStatus
    commit_sha: str
    document: Any = None


@dataclass(frozen=True, kw_only=True)
class NightRun:
    """A comparison of head (`commit_sha`) against the pinned commit `pin` in one night, whose time it carries.

    `is_link`: it only links two pins and judges nothing. `code` names what the workload loads of head and how it is
    measured, `machine` the fingerprint; `outcome` is "" until there is a verdict.
    """

    campaign: str
    night: str
    started_at: str
    workload: str
    commit_sha: str
    pin: str
    is_link: bool
    code: str
    machine: str
    outcome: str = ""


@dataclass(frozen=True, kw_only=True)
class NightValue:
    """Medians of one metric in one comparison of a night: of head, and of the reference."""

    metric: str
    unit: str
    better: Better
    value: float
    reference: float


@dataclass(frozen=True, kw_only=True)
class Pin:
    """The reference commit of a workload from some time on; "" stands for every workload."""

    workload: str
    commit_sha: str
    revision: str
    pinned_at: str


@dataclass(frozen=True, kw_only=True)
class Ack:
    """The change that a comparison found is accepted until the end of a day (ISO date), and why."""

    campaign: str
    acked_at: str
    until: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class Suspicion:
    """Something to be bisected between `good` and `bad`. `cause`: an outcome, or "change point".

    `since`: the night it was first seen in; `campaign`: that night's comparison; `bisect`: the search, once begun;
    `answer`: its outcome.
    """

    id: str
    filed_at: str
    workload: str
    metric: str
    cause: str
    good: str
    bad: str
    since: str
    campaign: str
    status: Literal["open", "answered"] = "open"
    bisect: str = ""
    answer: str = ""


Row = TypeVar("Row", NightRun, Pin, Ack, Suspicion)


def insert_row(db: Database, table: str, row: NightRun | Pin | Ack | Suspicion, *, without: Sequence[str] = ()) -> None:
    """One record as a row of its table; fields are columns."""
    values = {name: value for name, value in asdict(row).items() if name not in without}
    marks = ", ".join("?" * len(values))
    db.execute(f"INSERT INTO {table} ({', '.join(values)}) VALUES ({marks})", tuple(map(_plain, values.values())))


def _plain(value: Any) -> Any:
    return codec.shown(value) if isinstance(value, str) else value


def insert_values(db: Database, campaign: str, outcome: str, values: Sequence[NightValue]) -> None:
    """What a comparison came to; once, however often the night goes on."""
    db.execute("INSERT OR REPLACE INTO night_outcomes VALUES (?, ?)", (campaign, outcome))
    for one in values:
        row = (campaign, codec.shown(one.metric), codec.shown(one.unit), one.better, one.value, one.reference)
        db.execute("INSERT OR REPLACE INTO night_values VALUES (?, ?, ?, ?, ?, ?)", row)


def put_night(db: Database, night: StoredNight) -> None:
    row = (night.id, night.started_at, night.status, night.commit_sha, codec.inline(night.document or {}))
    db.execute("INSERT OR REPLACE INTO nights VALUES (?, ?, ?, ?, ?)", row)


def newest_nights(db: Database, limit: int) -> list[StoredNight]:
    """Newest first."""
    rows = db.execute("SELECT * FROM nights ORDER BY started_at DESC, rowid DESC LIMIT ?", (limit,))
    return [_night(*row) for row in rows]


def _night(id: str, started_at: str, status: NightStatus, commit_sha: str, text: str) -> StoredNight:
    with damage.reading_row("nights", id):
        document = damage.mapping(codec.unpack(text), "document")
    return StoredNight(id=id, started_at=started_at, status=status, commit_sha=commit_sha, document=document)


def workloads(db: Database) -> list[str]:
    return [str(name) for (name,) in db.execute("SELECT DISTINCT workload FROM night_runs ORDER BY workload")]


def runs(db: Database, where: str, argument: str) -> list[NightRun]:
    """Oldest first. `where`: "workload" or "night"."""
    rows = db.query(
        "SELECT r.*, coalesce(o.outcome, '') AS outcome FROM night_runs r "
        f"LEFT JOIN night_outcomes o ON o.campaign = r.campaign WHERE r.{where} = ? ORDER BY r.started_at, r.rowid",
        (codec.shown(argument),),
    )
    return [NightRun(**{**row, "is_link": bool(row["is_link"])}) for row in rows]


def values(db: Database, workload: str) -> list[tuple[NightRun, NightValue]]:
    """Every metric of every night of a workload, oldest first."""
    by_campaign = {run.campaign: run for run in runs(db, "workload", workload)}
    rows = db.query(
        "SELECT v.* FROM night_runs r JOIN night_values v ON v.campaign = r.campaign "
        "WHERE r.workload = ? ORDER BY r.started_at, r.rowid, v.rowid",
        (codec.shown(workload),),
    )
    return [(by_campaign[row.pop("campaign")], NightValue(**row)) for row in rows]


def rows_of(db: Database, kind: type[Row], table: str, order: str) -> list[Row]:
    names = ", ".join(field.name for field in fields(kind))
    return [kind(**row) for row in db.query(f"SELECT {names} FROM {table} ORDER BY {order}, rowid")]


def update_suspicion(db: Database, one: Suspicion) -> None:
    row = (one.status, one.bisect, one.answer, one.id)
    db.execute("UPDATE suspicions SET status = ?, bisect = ?, answer = ? WHERE id = ?", row)
