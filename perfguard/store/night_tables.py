"""Tables of nightly jobs, as schema.py creates them. Statements only; a released one is never edited."""

# No foreign keys: a series of nights outlives the campaigns that were pruned, and those of another machine.
NIGHTS = (
    """CREATE TABLE nights (
        id TEXT PRIMARY KEY,
        started_at TEXT NOT NULL,
        status TEXT NOT NULL CHECK (status IN ('running', 'interrupted', 'finished', 'given up')),
        commit_sha TEXT NOT NULL,
        document TEXT NOT NULL)""",
    """CREATE TABLE night_runs (
        campaign TEXT PRIMARY KEY,
        night TEXT NOT NULL,
        started_at TEXT NOT NULL,
        workload TEXT NOT NULL,
        commit_sha TEXT NOT NULL,
        pin TEXT NOT NULL,
        is_link INTEGER NOT NULL,
        code TEXT NOT NULL,
        machine TEXT NOT NULL)""",
    "CREATE INDEX night_runs_by_workload ON night_runs (workload, started_at)",
    "CREATE INDEX night_runs_by_night ON night_runs (night)",
    """CREATE TABLE night_values (
        campaign TEXT NOT NULL,
        metric TEXT NOT NULL,
        unit TEXT NOT NULL,
        better TEXT NOT NULL,
        value REAL NOT NULL,
        reference REAL NOT NULL,
        PRIMARY KEY (campaign, metric))""",
    """CREATE TABLE night_outcomes (
        campaign TEXT PRIMARY KEY,
        outcome TEXT NOT NULL)""",
    """CREATE TABLE pins (
        number INTEGER PRIMARY KEY,
        workload TEXT NOT NULL,
        commit_sha TEXT NOT NULL,
        revision TEXT NOT NULL,
        pinned_at TEXT NOT NULL)""",
    """CREATE TABLE acks (
        campaign TEXT NOT NULL,
        acked_at TEXT NOT NULL,
        until TEXT NOT NULL,
        reason TEXT NOT NULL,
        PRIMARY KEY (campaign, acked_at))""",
    """CREATE TABLE suspicions (
        id TEXT PRIMARY KEY,
        filed_at TEXT NOT NULL,
        workload TEXT NOT NULL,
        metric TEXT NOT NULL,
        cause TEXT NOT NULL,
        good TEXT NOT NULL,
        bad TEXT NOT NULL,
        since TEXT NOT NULL,
        campaign TEXT NOT NULL,
        status TEXT NOT NULL CHECK (status IN ('open', 'answered')),
        bisect TEXT NOT NULL,
        answer TEXT NOT NULL)""",
)
