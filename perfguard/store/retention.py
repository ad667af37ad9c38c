"""Queries for `prune`: how old campaigns are, what names them, and taking rows away. Decides nothing.

Opens no file and ends no transaction.
"""

import json
from collections.abc import Iterator, Sequence

from sqlite_utils import Database

from perfguard.store import codec
from perfguard.store.rows import StoredAge

# What belongs to one campaign or to the file itself. Every other table, also one that a later version adds, is taken
# for somebody who rests on the campaigns that it names.
_OWN_TABLES = frozenset(
    {
        "arms", "blocks", "campaign_provenance", "campaigns", "extensions", "meta", "migrations", "provenance",
        "samples", "trials", "verdicts",
    }
)  # fmt: skip
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
            EXISTS (SELECT 1 FROM trials t WHERE t.campaign = c.id AND t.status <> 'ok') AS has_failures
        FROM campaigns c ORDER BY c.created_at DESC, c.rowid DESC"""
    )
    return [
        StoredAge(
            id=row["id"],
            kind=row["kind"],
            touched_at=row["touched_at"],
            is_decided=bool(row["is_decided"]),
            is_named=row["id"] in named,
            samples_bytes=sizes.get(row["id"], 0),
            log_bytes=sum(len(tail) for _, _, tail in _log_tails(db, row["id"])) if row["has_failures"] else 0,
        )
        for row in rows
    ]


def num_trials(db: Database, campaigns: Sequence[str]) -> int:
    count = "SELECT count(*) FROM trials WHERE campaign = ?"
    return sum(int(db.execute(count, (campaign,)).fetchone()[0]) for campaign in campaigns)


def thin(db: Database, campaign: str) -> None:
    """Take samples (telemetry among them) and the ends of logs; a failed trial's reasons keep what they quote."""
    db.execute("DELETE FROM samples WHERE campaign = ?", (campaign,))
    for trial, record, _ in list(_log_tails(db, campaign)):
        thinned = codec.dump({**record, "log_tail": ""})
        db.execute("UPDATE trials SET record = ? WHERE campaign = ? AND id = ?", (thinned, campaign, trial))


def remove(db: Database, campaigns: Sequence[str]) -> None:
    """Campaigns with all that belongs to them, and the content that only they used."""
    for campaign in campaigns:
        used = db.execute("SELECT sha256 FROM campaign_provenance WHERE campaign = ?", (campaign,)).fetchall()
        db.execute("DELETE FROM campaigns WHERE id = ?", (campaign,))
        for (sha256,) in used:
            unused = "NOT EXISTS (SELECT 1 FROM campaign_provenance u WHERE u.sha256 = provenance.sha256)"
            db.execute(f"DELETE FROM provenance WHERE sha256 = ? AND {unused}", (sha256,))


def size_bytes(db: Database) -> int:
    """Of the file as SQLite counts it, a journal beside it left out."""
    pages, page_bytes = (db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "page_size"))
    return int(pages * page_bytes)


def _sample_sizes(db: Database) -> Iterator[tuple[str, int]]:
    yield from db.execute("SELECT campaign, sum(length(data)) FROM samples GROUP BY campaign")


def _log_tails(db: Database, campaign: str) -> Iterator[tuple[str, dict[str, object], str]]:
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
