"""Tables of results.db as numbered migrations. What a migration does to stored rows lies in a module of its own.

A released migration is never edited: a change is the next number.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from sqlite_utils import Database

from perfguard import __version__
from perfguard.errors import StoreError
from perfguard.store.dividing import divide
from perfguard.store.night_tables import NIGHTS
from perfguard.store.views import QUESTIONS

# "PGRD": tells results.db from any other SQLite file.
APPLICATION_ID = 0x50475244


@dataclass(frozen=True, kw_only=True)
class Migration:
    number: int
    name: str
    statements: tuple[str, ...] = ()
    # After the statements, in the same transaction.
    rewrite: Callable[[Database], None] | None = None


FIRST_TABLES = (
    "CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL)",
    # Content stored once: what many trials share (environment, versions, origin) and patches.
    """CREATE TABLE provenance (
        sha256 TEXT PRIMARY KEY,
        kind TEXT NOT NULL CHECK (kind IN ('json', 'bytes')),
        num_bytes INTEGER NOT NULL,
        data BLOB NOT NULL)""",
    """CREATE TABLE campaigns (
        id TEXT PRIMARY KEY,
        kind TEXT NOT NULL,
        created_at TEXT NOT NULL,
        status TEXT NOT NULL CHECK (status IN ('running', 'interrupted', 'finished')),
        workload TEXT NOT NULL,
        scope TEXT NOT NULL,
        repository TEXT NOT NULL,
        machine TEXT NOT NULL,
        document TEXT NOT NULL)""",
    "CREATE INDEX campaigns_by_time ON campaigns (created_at)",
    "CREATE INDEX campaigns_by_workload ON campaigns (workload, machine)",
    """CREATE TABLE campaign_provenance (
        campaign TEXT NOT NULL REFERENCES campaigns (id) ON DELETE CASCADE,
        sha256 TEXT NOT NULL REFERENCES provenance (sha256),
        PRIMARY KEY (campaign, sha256)) WITHOUT ROWID""",
    """CREATE TABLE arms (
        campaign TEXT NOT NULL REFERENCES campaigns (id) ON DELETE CASCADE,
        position INTEGER NOT NULL,
        side TEXT NOT NULL,
        revision TEXT NOT NULL,
        commit_sha TEXT NOT NULL,
        tree TEXT NOT NULL,
        subject TEXT NOT NULL,
        is_dirty INTEGER NOT NULL,
        document TEXT NOT NULL,
        PRIMARY KEY (campaign, position))""",
    """CREATE TABLE blocks (
        campaign TEXT NOT NULL REFERENCES campaigns (id) ON DELETE CASCADE,
        stage INTEGER NOT NULL,
        block INTEGER NOT NULL,
        slot_order TEXT NOT NULL,
        builds TEXT NOT NULL,
        pauses TEXT NOT NULL,
        PRIMARY KEY (campaign, stage, block))""",
    """CREATE TABLE trials (
        campaign TEXT NOT NULL REFERENCES campaigns (id) ON DELETE CASCADE,
        id TEXT NOT NULL,
        stage INTEGER NOT NULL,
        block INTEGER NOT NULL,
        slot INTEGER NOT NULL,
        side TEXT NOT NULL,
        build INTEGER NOT NULL,
        attempt INTEGER NOT NULL,
        status TEXT NOT NULL,
        started_at TEXT NOT NULL,
        wall_s REAL NOT NULL,
        measured_s REAL NOT NULL,
        metrics TEXT NOT NULL,
        digests TEXT NOT NULL,
        reasons TEXT NOT NULL,
        record TEXT NOT NULL,
        PRIMARY KEY (campaign, id))""",
    "CREATE INDEX trials_by_status ON trials (campaign, status, stage)",
    """CREATE TABLE samples (
        campaign TEXT NOT NULL,
        trial TEXT NOT NULL,
        position INTEGER NOT NULL,
        name TEXT NOT NULL,
        num_samples INTEGER NOT NULL,
        data BLOB NOT NULL,
        PRIMARY KEY (campaign, trial, position),
        FOREIGN KEY (campaign, trial) REFERENCES trials (campaign, id) ON DELETE CASCADE)""",
    """CREATE TABLE verdicts (
        campaign TEXT NOT NULL REFERENCES campaigns (id) ON DELETE CASCADE,
        number INTEGER NOT NULL,
        created_at TEXT NOT NULL,
        perfguard TEXT NOT NULL,
        outcome TEXT NOT NULL,
        document TEXT NOT NULL,
        PRIMARY KEY (campaign, number))""",
    # LEFT JOIN: a trial that failed has no value and still has its line, with NULL and never 0.
    """CREATE VIEW trials_wide AS
        SELECT t.campaign, c.workload, t.stage, t.block, t.slot, t.attempt, t.side, t.build, t.status,
               t.started_at, m.key AS metric, m.value AS value, t.id AS trial
        FROM trials t JOIN campaigns c ON c.id = t.campaign LEFT JOIN json_each(t.metrics) m""",
    # Trials of stage 0 are the unmeasured first runs of each build: kept, and not counted.
    """CREATE VIEW campaigns_overview AS
        SELECT c.id, c.kind, c.created_at, c.status, c.workload, c.scope, c.repository,
               coalesce(b.revision, '') AS base, coalesce(b.commit_sha, '') AS base_commit,
               coalesce(h.revision, '') AS head, coalesce(h.commit_sha, '') AS head_commit,
               coalesce((SELECT outcome FROM verdicts v WHERE v.campaign = c.id
                         ORDER BY number DESC LIMIT 1), '') AS outcome,
               (SELECT count(*) FROM blocks k WHERE k.campaign = c.id) AS num_blocks,
               (SELECT count(*) FROM trials t WHERE t.campaign = c.id AND t.status = 'ok' AND t.stage > 0)
                   AS num_ok,
               (SELECT count(*) FROM trials t WHERE t.campaign = c.id AND t.status = 'invalid' AND t.stage > 0)
                   AS num_invalid,
               (SELECT count(*) FROM trials t WHERE t.campaign = c.id AND t.status = 'crashed' AND t.stage > 0)
                   AS num_crashed,
               (SELECT count(*) FROM trials t WHERE t.campaign = c.id AND t.status = 'timed_out' AND t.stage > 0)
                   AS num_timed_out
        FROM campaigns c
        LEFT JOIN arms b ON b.campaign = c.id AND b.side = 'base'
        LEFT JOIN arms h ON h.campaign = c.id AND h.side = 'head'""",
)

# A table of their own: the campaign's document is what was planned first, and stays as it was stored.
EXTENSIONS = (
    """CREATE TABLE extensions (
        campaign TEXT NOT NULL REFERENCES campaigns (id) ON DELETE CASCADE,
        number INTEGER NOT NULL,
        created_at TEXT NOT NULL,
        seed INTEGER NOT NULL,
        max_blocks INTEGER NOT NULL,
        max_confirm_blocks INTEGER NOT NULL,
        budget_s REAL NOT NULL,
        PRIMARY KEY (campaign, number))""",
)

# Trials of a reading lie in `trials`, with stage 1 and the reading's number as their block.
BISECTS = (
    """CREATE TABLE bisects (
        campaign TEXT PRIMARY KEY REFERENCES campaigns (id) ON DELETE CASCADE,
        document TEXT NOT NULL)""",
    """CREATE TABLE bisect_pairs (
        campaign TEXT NOT NULL REFERENCES campaigns (id) ON DELETE CASCADE,
        number INTEGER NOT NULL,
        position INTEGER NOT NULL,
        slot_order TEXT NOT NULL,
        pauses TEXT NOT NULL,
        PRIMARY KEY (campaign, number))""",
    """CREATE TABLE bisect_builds (
        campaign TEXT NOT NULL REFERENCES campaigns (id) ON DELETE CASCADE,
        position INTEGER NOT NULL,
        status TEXT NOT NULL,
        document TEXT NOT NULL,
        PRIMARY KEY (campaign, position))""",
    # `other` is a campaign too, and may be stored later than the link: a merge brings them one by one.
    """CREATE TABLE bisect_links (
        campaign TEXT NOT NULL REFERENCES campaigns (id) ON DELETE CASCADE,
        other TEXT NOT NULL,
        role TEXT NOT NULL,
        before_position INTEGER NOT NULL,
        after_position INTEGER NOT NULL,
        PRIMARY KEY (campaign, other))""",
)

# No campaign owns a machine's history, and no deletion of one may tear a hole into it: no foreign key.
MACHINE_READINGS = (
    """CREATE TABLE machine_readings (
        machine TEXT NOT NULL,
        name TEXT NOT NULL,
        measured_at TEXT NOT NULL,
        source TEXT NOT NULL,
        value REAL NOT NULL,
        unit TEXT NOT NULL,
        facts TEXT NOT NULL,
        PRIMARY KEY (machine, name, measured_at, source))""",
)

MIGRATIONS = (
    Migration(number=1, name="first tables", statements=FIRST_TABLES),
    Migration(number=2, name="extensions", statements=EXTENSIONS),
    Migration(number=3, name="bisects", statements=BISECTS),
    Migration(number=4, name="machine readings", statements=MACHINE_READINGS),
    Migration(number=5, name="nights", statements=NIGHTS),
    Migration(number=6, name="views for common questions", statements=QUESTIONS),
    # Not for the tables, which stay as they are: versions before would take the list of parts for the content.
    Migration(number=7, name="large content in parts", rewrite=divide),
)


def newest(migrations: tuple[Migration, ...] = MIGRATIONS) -> int:
    return migrations[-1].number


def version_of(db: Database, where: str) -> int:
    """Highest migration applied; 0 for an empty database.

    Raises StoreError for a SQLite file of another program, which must not be written into.
    """
    tables = {row["name"] for row in db.query("SELECT name FROM sqlite_master")}
    if not tables:
        return 0
    if pragma(db, "application_id") != APPLICATION_ID or "migrations" not in tables:
        raise StoreError(
            f"{where} is a SQLite database of another program: no results of perfguard are in it",
            "name the right file with --db",
        )
    return int(next(iter(db.query("SELECT max(number) AS number FROM migrations")))["number"])


def refuse_newer(version: int, where: str, migrations: tuple[Migration, ...] = MIGRATIONS) -> None:
    """Raises StoreError when a newer perfguard wrote the file: it may hold what this one would misread."""
    if version > newest(migrations):
        raise StoreError(
            f"{where} has schema version {version}, written by a newer perfguard; "
            f"perfguard {__version__} knows versions up to {newest(migrations)}",
            "pip install --upgrade perfguard",
        )


def migrate(db: Database, where: str, migrations: tuple[Migration, ...] = MIGRATIONS) -> None:
    """Apply what is missing, each migration whole or not at all. Another process may do the same meanwhile."""
    version = version_of(db, where)
    refuse_newer(version, where, migrations)
    for migration in migrations:
        if migration.number > version:
            db.execute("BEGIN IMMEDIATE")
            try:
                if version_of(db, where) < migration.number:
                    _apply(db, migration)
                db.execute("COMMIT")
            except BaseException:
                if db.conn.in_transaction:
                    db.execute("ROLLBACK")
                raise


def pragma(db: Database, name: str) -> int | str:
    """The value of a one-row PRAGMA. `name` is never foreign text."""
    value: int | str = db.execute(f"PRAGMA {name}").fetchone()[0]
    return value


def _apply(db: Database, migration: Migration) -> None:
    now = datetime.now(UTC).isoformat(timespec="seconds")
    db.execute(
        "CREATE TABLE IF NOT EXISTS migrations "
        "(number INTEGER PRIMARY KEY, name TEXT NOT NULL, applied_at TEXT NOT NULL, perfguard TEXT NOT NULL)"
    )
    db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    for statement in migration.statements:
        db.execute(statement)
    if migration.rewrite is not None:
        migration.rewrite(db)
    db.execute("INSERT INTO migrations VALUES (?, ?, ?, ?)", (migration.number, migration.name, now, __version__))
    db.execute("INSERT OR IGNORE INTO meta VALUES ('created_at', ?), ('created_by', ?)", (now, __version__))
