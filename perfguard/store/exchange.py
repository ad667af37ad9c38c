"""Campaigns from one database into another, row by row. Both are at the newest schema; ends no transaction."""

import contextlib
import json
import zlib
from collections.abc import Iterable, Iterator
from typing import Any

from sqlite_utils import Database

from perfguard.errors import StoreError

Row = dict[str, Any]

# Tables that belong to a campaign, referred-to tables first, with what identifies a row in them.
_KEYS = {
    "campaigns": ("id",),
    "arms": ("campaign", "position"),
    "extensions": ("campaign", "number"),
    "blocks": ("campaign", "stage", "block"),
    "trials": ("campaign", "id"),
    "night_runs": ("campaign",),
    "night_outcomes": ("campaign",),
    "night_values": ("campaign", "metric"),
    "acks": ("campaign", "acked_at"),
    "bisects": ("campaign",),
    "bisect_pairs": ("campaign", "number"),
    "bisect_builds": ("campaign", "position"),
    "bisect_links": ("campaign", "other"),
    "samples": ("campaign", "trial", "position"),
    "machine_readings": ("machine", "name", "measured_at", "source"),
}
# The column that names the campaign, where it is not "campaign".
_OWNERS = {"campaigns": "id", "machine_readings": "source"}
_PROGRESS = ("running", "interrupted", "finished")
# A commit that was built once may fail later, when its build was removed and is needed again.
_BUILD_PROGRESS = ("ok", "unbuildable", "invalid")


def copy(source: Database, target: Database, campaigns: Iterable[str], *, is_all: bool = False) -> dict[str, int]:
    """Number of rows new to `target` by table. Twice gives 0: what is there and the same is left alone.

    `is_all`: these are all campaigns of `source`; readings of machines that come from none of them are copied too.
    Raises StoreError when a campaign has the same id and another content; the caller rolls back.
    """
    added = dict.fromkeys(("campaigns", "blocks", "trials", "verdicts"), 0)
    with _snapshot(source):
        for campaign in campaigns:
            _copy_campaign(source, target, campaign, added)
        if is_all:
            for row in source.query("SELECT * FROM machine_readings"):
                _copy_row(target, "machine_readings", _KEYS["machine_readings"], row)
    return added


@contextlib.contextmanager
def _snapshot(source: Database) -> Iterator[None]:
    """A campaign that is still running is copied as it is now, not half before and half after a trial."""
    source.execute("BEGIN")
    try:
        yield
    finally:
        if source.conn.in_transaction:
            source.execute("ROLLBACK")


def _copy_campaign(source: Database, target: Database, campaign: str, added: dict[str, int]) -> None:
    _copy_content(source, target, campaign)
    for table, key in _KEYS.items():
        rows = _rows(source, table, _OWNERS.get(table, "campaign"), campaign)
        num_new = sum(_copy_row(target, table, key, row) for row in rows)
        if table in added:
            added[table] += num_new
    _link_content(source, target, campaign)
    added["verdicts"] += _copy_verdicts(source, target, campaign)


def _rows(db: Database, table: str, column: str, campaign: str) -> Iterator[Row]:
    return iter(db.query(f"SELECT * FROM {table} WHERE {column} = ? ORDER BY rowid", (campaign,)))


def _insert(db: Database, table: str, row: Row, or_ignore: str = "") -> None:
    names, marks = ", ".join(row), ", ".join("?" * len(row))
    db.execute(f"INSERT {or_ignore} INTO {table} ({names}) VALUES ({marks})", tuple(row.values()))


def _copy_row(target: Database, table: str, key: tuple[str, ...], row: Row) -> bool:
    where = " AND ".join(f"{name} = ?" for name in key)
    identity = tuple(row[name] for name in key)
    stored = next(iter(target.query(f"SELECT * FROM {table} WHERE {where}", identity)), None)
    if stored is None:
        _insert(target, table, row)
        return True
    if table == "campaigns":
        _advance(target, stored, row)
    if table == "bisect_builds":
        _advance_build(target, stored, row)
    if not _agree(table, stored, row):
        campaign = row[_OWNERS.get(table, "campaign")]
        raise StoreError(
            f"campaign {campaign} is stored with another content: {table} {identity} differ; nothing was merged",
            f"perfguard show {campaign} --db on both files",
        )
    return False


def _agree(table: str, stored: Row, row: Row) -> bool:
    """Whether two rows of one key say the same. A pruned one says that it lacks a log or telemetry."""
    if _comparable(table, stored) == _comparable(table, row):
        return True
    if table != "trials" or {**stored, "record": ""} != {**row, "record": ""}:
        return False
    one, other = (json.loads(found["record"]) for found in (stored, row))
    taken = {*one.pop("pruned", ()), *other.pop("pruned", ())}
    # As text: NaN, which a record may hold, differs from itself.
    return json.dumps({**one, **dict.fromkeys(taken)}) == json.dumps({**other, **dict.fromkeys(taken)})


def _comparable(table: str, row: Row) -> Row:
    """What must agree. A copy taken during a run has another status; compressors differ between machines."""
    if table == "campaigns":
        return {name: value for name, value in row.items() if name != "status"}
    if table == "bisect_builds":
        return {name: row[name] for name in _KEYS[table]}
    if table == "samples":
        return {**row, "data": zlib.decompress(row["data"])}
    return row


def _advance(target: Database, stored: Row, row: Row) -> None:
    further = max(stored["status"], row["status"], key=_PROGRESS.index)
    if further != stored["status"]:
        target.execute("UPDATE campaigns SET status = ? WHERE id = ?", (further, row["id"]))


def _advance_build(target: Database, stored: Row, row: Row) -> None:
    if _BUILD_PROGRESS.index(row["status"]) > _BUILD_PROGRESS.index(stored["status"]):
        _insert(target, "bisect_builds", row, "OR REPLACE")


def _copy_content(source: Database, target: Database, campaign: str) -> None:
    rows = source.query(
        "SELECT p.* FROM provenance p JOIN campaign_provenance u ON u.sha256 = p.sha256 WHERE u.campaign = ?",
        (campaign,),
    )
    for row in rows:
        _insert(target, "provenance", row, "OR IGNORE")


def _link_content(source: Database, target: Database, campaign: str) -> None:
    for row in source.query("SELECT * FROM campaign_provenance WHERE campaign = ?", (campaign,)):
        _insert(target, "campaign_provenance", row, "OR IGNORE")


def _copy_verdicts(source: Database, target: Database, campaign: str) -> int:
    """Judgements are numbered in each database by itself, so they are known by when and what."""
    known = {(row["created_at"], row["document"]) for row in _rows(target, "verdicts", "campaign", campaign)}
    new = [
        row
        for row in _rows(source, "verdicts", "campaign", campaign)
        if (row["created_at"], row["document"]) not in known
    ]
    times = {created_at for created_at, _ in known}
    for row in new:
        if problem := "another one of that moment is stored" if row["created_at"] in times else _problem(row):
            raise StoreError(
                f"campaign {campaign}: verdict {row['number']} of {row['created_at']}: {problem}; nothing was merged",
                f"perfguard replay {campaign} --db on both files",
            )
    for number, row in enumerate(new, start=len(known) + 1):
        _insert(target, "verdicts", {**row, "number": number})
    return len(new)


def _problem(row: Row) -> str:
    """Why a verdict cannot be taken in; "" where it is one."""
    try:
        document = json.loads(row["document"])
    except ValueError:
        return "its document is no JSON"
    if not isinstance(document, dict) or not str(document.get("schema", "")).startswith("perfguard/"):
        return "its document is no verdict"
    if document.get("id") != row["campaign"]:
        return f"its document is of {str(document.get('id'))[:40]!r}"
    if document.get("outcome") != row["outcome"]:
        return f"its document says {str(document.get('outcome'))[:40]!r}, its row {row['outcome']!r}"
    return ""
