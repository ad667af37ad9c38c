"""Queries for `prune`: how old campaigns are, what names them, and taking rows away. Decides nothing.

Opens no file and ends no transaction.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from typing import Any

from sqlite_utils import Database

from perfguard.store import codec, content
from perfguard.store.rows import StoredAge

# What belongs to one campaign or to the file itself, and readings of a machine, which say where they come from and
# stand without it. Every other table, also one that a later version adds, is taken for one that rests on the campaigns
# it names.
_OWN_TABLES = frozenset(
    {
        "arms", "blocks", "campaign_provenance", "campaigns", "extensions", "machine_readings", "meta", "migrations",
        "provenance", "samples", "trials", "verdicts",
    }
)  # fmt: skip
_UNUSED = "NOT EXISTS (SELECT 1 FROM campaign_provenance u WHERE u.sha256 = provenance.sha256)"
# Conditions hold telemetry, which the validity of a trial may rest on. LIKE: a record may hold NaN, which is no JSON.
_CONDITIONS = '"conditions":{"$json":'
_WITH_CONDITIONS = f"SELECT id, record FROM trials WHERE campaign = ? AND record LIKE '%{_CONDITIONS}%'"
_UNDECIDED = "('', 'INCONCLUSIVE', 'INVALID')"


def ages(db: Database) -> list[StoredAge]:
    """Every campaign, newest first."""
    named = _named(db)
    sizes = dict(_sample_sizes(db))
    rows = db.query(
        f"""SELECT c.id, c.kind,
            max(c.created_at,
                coalesce((SELECT max(v.created_at) FROM verdicts v WHERE v.campaign = c.id), ''),
                coalesce((SELECT max(e.created_at) FROM extensions e WHERE e.campaign = c.id), ''),
                CASE c.status WHEN 'running'
                    THEN coalesce((SELECT max(t.started_at) FROM trials t WHERE t.campaign = c.id), '')
                    ELSE '' END) AS touched_at,
            EXISTS (SELECT 1 FROM verdicts v WHERE v.campaign = c.id AND v.outcome NOT IN {_UNDECIDED}) AS is_decided,
            EXISTS (SELECT 1 FROM trials t WHERE t.campaign = c.id AND t.status <> 'ok') AS has_failures,
            coalesce((SELECT t.record LIKE '%{_CONDITIONS}%' AND t.record NOT LIKE '%"pruned":[%"conditions"%'
                      FROM trials t WHERE t.campaign = c.id LIMIT 1), 0) AS may_have_telemetry
        FROM campaigns c ORDER BY c.created_at DESC, c.rowid DESC"""
    )
    return [
        StoredAge(
            id=row["id"],
            kind=row["kind"],
            touched_at=row["touched_at"],
            is_decided=bool(row["is_decided"]),
            is_named=row["id"] in named,
            may_have_telemetry=bool(row["may_have_telemetry"]),
            samples_bytes=sizes.get(row["id"], 0),
            log_bytes=sum(len(tail) for _, _, tail in _log_tails(db, row["id"])) if row["has_failures"] else 0,
        )
        for row in rows
    ]


def num_trials(db: Database, campaigns: Sequence[str]) -> int:
    count = "SELECT count(*) FROM trials WHERE campaign = ?"
    return sum(int(db.execute(count, (campaign,)).fetchone()[0]) for campaign in campaigns)


def thin(db: Database, campaign: str, *, with_telemetry: bool) -> int:
    """Take samples and the ends of logs; a failed trial's reasons keep what they quote. Returns bytes taken."""
    held = db.execute("SELECT coalesce(sum(length(data)), 0) FROM samples WHERE campaign = ?", (campaign,)).fetchone()
    db.execute("DELETE FROM samples WHERE campaign = ?", (campaign,))
    taken_bytes = int(held[0])
    for trial, record, tail in list(_log_tails(db, campaign)):
        _store_thinner(db, campaign, trial, {**record, "log_tail": ""}, "log_tail")
        taken_bytes += len(tail)
    return taken_bytes + (_take_telemetry(db, campaign) if with_telemetry else 0)


def _take_telemetry(db: Database, campaign: str) -> int:
    """Series of what was read of GPUs during launches, but for the median that `explain` compares. What was read before
    and after them stays. Conditions have few keys, so that their content is never in parts."""
    read, taken_bytes = content.loader(db), 0
    for trial, text in db.execute(_WITH_CONDITIONS, (campaign,)).fetchall():
        record = json.loads(text)
        sha256 = record["conditions"]["$json"]
        whole = read(sha256)
        gpus = {uuid: _without_series(seen) for uuid, seen in whole.get("gpus", {}).items()}
        if gpus != whole.get("gpus", {}):
            packed = codec.pack({"conditions": {**whole, "gpus": gpus}})
            content.add(db, campaign, packed)
            _store_thinner(db, campaign, trial, {**record, **json.loads(packed.text)}, "conditions")
            db.execute("DELETE FROM campaign_provenance WHERE campaign = ? AND sha256 = ?", (campaign, sha256))
            taken_bytes += _drop_unused(db, sha256)
    return taken_bytes


def _without_series(seen: Mapping[str, Any]) -> dict[str, Any]:
    """Of each series of [seconds, value] one point is left, its median under load; of what is no number, none."""
    if "during" not in seen:
        return dict(seen)
    medians = {}
    for name, series in seen["during"].get("fields", {}).items():
        under_load = [value for t_s, value in series if t_s >= 0 and isinstance(value, int | float)]
        if under_load:
            medians[name] = [[0.0, median(under_load)]]
    return {**seen, "during": {**seen["during"], "fields": medians}}


def _store_thinner(db: Database, campaign: str, trial: str, record: dict[str, Any], taken: str) -> None:
    """With a mark, so that a merge takes it for the same trial as a whole copy."""
    marked = codec.dump({**record, "pruned": sorted({*record.get("pruned", ()), taken})})
    db.execute("UPDATE trials SET record = ? WHERE campaign = ? AND id = ?", (marked, campaign, trial))


def _drop_unused(db: Database, sha256: str) -> int:
    """Content that no campaign refers to any more; its bytes in the file, 0 where it is still used."""
    row = db.execute(f"SELECT length(data) FROM provenance WHERE sha256 = ? AND {_UNUSED}", (sha256,)).fetchone()
    db.execute(f"DELETE FROM provenance WHERE sha256 = ? AND {_UNUSED}", (sha256,))
    return 0 if row is None else int(row[0])


def remove(db: Database, campaigns: Sequence[str]) -> None:
    """Campaigns with all that belongs to them, and the content that only they used."""
    for campaign in campaigns:
        used = db.execute("SELECT sha256 FROM campaign_provenance WHERE campaign = ?", (campaign,)).fetchall()
        db.execute("DELETE FROM campaigns WHERE id = ?", (campaign,))
        for (sha256,) in used:
            _drop_unused(db, sha256)


def size_bytes(db: Database) -> int:
    """Of the file as SQLite counts it, a journal beside it left out."""
    pages, page_bytes = (db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "page_size"))
    return int(pages * page_bytes)


def _sample_sizes(db: Database) -> Iterator[tuple[str, int]]:
    yield from db.execute("SELECT campaign, sum(length(data)) FROM samples GROUP BY campaign")


def _log_tails(db: Database, campaign: str) -> Iterator[tuple[str, dict[str, Any], str]]:
    """(trial, its record as stored, end of its log). A clean launch has none."""
    rows = db.execute("SELECT id, record FROM trials WHERE campaign = ? AND status <> 'ok'", (campaign,)).fetchall()
    for trial, text in rows:
        record = json.loads(text)
        if tail := record.get("log_tail"):
            yield trial, record, tail


def _named(db: Database) -> set[str]:
    """Ids of campaigns that stand in any table but their own, as a value or anywhere inside a JSON document."""
    found: set[str] = set()
    tables = [row[0] for row in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()]
    for table in tables:
        if table in _OWN_TABLES or table.startswith("sqlite_"):
            continue
        for _, column, *_ in db.execute(f'PRAGMA table_info("{table}")').fetchall():
            found |= _named_in(db, table, column)
    return found


def _named_in(db: Database, table: str, column: str) -> set[str]:
    value = f't."{column}"'
    document = f"json_tree(CASE WHEN typeof({value}) = 'text' AND json_valid({value}) THEN {value} END) j"
    questions = (
        f'SELECT DISTINCT c.id FROM "{table}" t JOIN campaigns c ON c.id = {value}',
        f'SELECT DISTINCT c.id FROM "{table}" t, {document} JOIN campaigns c ON c.id = j.atom OR c.id = j.key',
    )
    return {row[0] for question in questions for row in db.execute(question)}
