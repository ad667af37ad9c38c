"""Views for the questions people ask of results.db, and the indexes that keep them fast. SQL text only.

Part of a released migration, so never edited: a change is the next migration.
"""

# Long rows (the whole record) stay unread where an index holds what a question needs.
_INDEXES = (
    "CREATE INDEX trials_by_duration ON trials (wall_s)",
    "CREATE INDEX trials_by_time ON trials (started_at, campaign, status, wall_s)",
    "CREATE INDEX trials_failed ON trials (campaign, id) WHERE status <> 'ok'",
    "CREATE INDEX campaign_provenance_by_content ON campaign_provenance (sha256)",
)

_LAST_VERDICTS = """CREATE VIEW last_verdicts AS
    SELECT n.workload, n.repository, v.outcome, v.created_at AS judged_at, n.id AS campaign,
           coalesce(h.revision, '') AS head, coalesce(h.commit_sha, '') AS head_commit,
           json_extract(v.document, '$.sentence') AS sentence
    FROM (SELECT c.id, c.workload, c.repository, v.rowid AS verdict,
                 row_number() OVER (PARTITION BY c.workload, c.repository
                                    ORDER BY v.created_at DESC, v.rowid DESC) AS place
          FROM campaigns c JOIN verdicts v ON v.campaign = c.id WHERE c.kind = 'compare') n
    JOIN verdicts v ON v.rowid = n.verdict
    LEFT JOIN arms h ON h.campaign = n.id AND h.side = 'head'
    WHERE n.place = 1"""

_SLOWEST_TRIALS = """CREATE VIEW slowest_trials AS
    SELECT t.wall_s, t.measured_s, c.workload, t.campaign, t.id AS trial, t.side, t.stage, t.status, t.started_at
    FROM trials t JOIN campaigns c ON c.id = t.campaign
    ORDER BY t.wall_s DESC"""

_FAILURES_BY_REASON = """CREATE VIEW failures_by_reason AS
    SELECT c.workload, t.status, json_extract(r.value, '$.code') AS reason, count(*) AS num_trials,
           max(t.started_at) AS last_at, t.campaign AS last_campaign, json_extract(r.value, '$.text') AS last_text
    FROM trials t JOIN campaigns c ON c.id = t.campaign, json_each(t.reasons) r
    WHERE t.status <> 'ok'
    GROUP BY c.workload, t.status, reason"""

# Monday of the week: forward to Sunday (or stay there), then back six days.
_LAUNCHES_BY_WEEK = """CREATE VIEW launches_by_week AS
    SELECT date(t.started_at, 'weekday 0', '-6 days') AS week, c.workload, count(*) AS num_launches,
           sum(t.status <> 'ok') AS num_failed, sum(t.wall_s) / 3600 AS hours
    FROM trials t JOIN campaigns c ON c.id = t.campaign
    GROUP BY week, c.workload"""

# Between the two trials of one side in one block. For values of a normal distribution the mean absolute difference
# is 2 sigma / sqrt(pi) (Gini's mean difference), hence 0.8862 = sqrt(pi) / 2; no square root is needed, which not
# every SQLite has. The latest twenty campaigns of each workload and machine: noise as it is now.
_NOISE_BY_MACHINE = """CREATE VIEW noise_by_machine AS
    WITH latest AS (
        SELECT * FROM (SELECT id, workload, machine, scope,
                              row_number() OVER (PARTITION BY workload, machine, scope
                                                 ORDER BY created_at DESC, rowid DESC) AS place
                       FROM campaigns WHERE kind IN ('compare', 'calibrate')) WHERE place <= 20),
    pairs AS (
        SELECT l.workload, l.machine, l.scope, m.key AS metric, l.id AS campaign,
               max(m.value) AS high, min(m.value) AS low
        FROM latest l JOIN trials t ON t.campaign = l.id, json_each(t.metrics) m
        WHERE t.status = 'ok' AND t.stage > 0 AND m.value > 0
        GROUP BY l.id, t.stage, t.block, t.side, m.key HAVING count(*) = 2)
    SELECT n.machine,
           coalesce((SELECT coalesce(json_extract(v.document, '$.machine.gpu.gpus[0].name'),
                                     json_extract(v.document, '$.machine.host.cpu_model'))
                     FROM verdicts v WHERE v.campaign = n.campaign LIMIT 1), '') AS hardware,
           n.workload, n.scope, n.metric, n.num_pairs, n.noise_percent
    FROM (SELECT machine, workload, scope, metric, max(campaign) AS campaign, count(*) AS num_pairs,
                 100 * 0.8862 * avg(2 * (high - low) / (high + low)) AS noise_percent
          FROM pairs GROUP BY machine, workload, scope, metric) n"""

QUESTIONS = (
    *_INDEXES,
    _LAST_VERDICTS,
    _SLOWEST_TRIALS,
    _FAILURES_BY_REASON,
    _LAUNCHES_BY_WEEK,
    _NOISE_BY_MACHINE,
)
