"""What tables of results.db hold, in plain words: for docs/schema.md and for Datasette. Data only.

A test holds it against the schema: a column that is missing here, or that is only here, fails.
"""

from collections.abc import Mapping
from dataclasses import dataclass

CAMPAIGN = "campaign it belongs to"
_DOCUMENT = "the exact record as JSON"
WORKLOAD = "name of the workload"


@dataclass(frozen=True, kw_only=True)
class Described:
    """`row`: what one row is. `columns`: column -> what it holds, in their order in the file."""

    row: str
    columns: Mapping[str, str]


TABLES: Mapping[str, Described] = {
    "meta": Described(
        row="a fact about the file: when and by which version it was created",
        columns={"key": "name of the fact", "value": "the fact"},
    ),
    "migrations": Described(
        row="a schema version that was applied",
        columns={
            "number": "version, from 1",
            "name": "what it brought",
            "applied_at": "when, UTC",
            "perfguard": "version of perfguard that applied it",
        },
    ),
    "campaigns": Described(
        row="what was asked for, stored before the first trial",
        columns={
            "id": "name of the campaign",
            "kind": "compare, run, recheck, judge, import, calibrate, control, bisect, search or sweep",
            "created_at": "when it was planned, UTC",
            "status": "running, interrupted or finished",
            "workload": WORKLOAD,
            "scope": "full, slice, in-process, attached or resident",
            "repository": "folder of the repository",
            "machine": "sha256 of the machine's fingerprint",
            "document": _DOCUMENT,
        },
    ),
    "arms": Described(
        row="one side of a campaign: revision, commit, tree, and whether a patch lay on top",
        columns={
            "campaign": CAMPAIGN,
            "position": "0, 1, …",
            "side": "base or head",
            "revision": "as it was asked for",
            "commit_sha": "the commit it was",
            "tree": "the tree of that commit",
            "subject": "first line of its message",
            "is_dirty": "1 where a patch lay on top of the commit",
            "document": _DOCUMENT,
        },
    ),
    "blocks": Described(
        row="the plan of four trials: order, builds and pauses as drawn, stored before they run",
        columns={
            "campaign": CAMPAIGN,
            "stage": "odd: suspicion; even: confirmation; from 3 on those of extensions",
            "block": "number in its stage",
            "slot_order": "A is base, B is head, such as ABBA",
            "builds": "build of the side in each slot, from 1: a digit each, spaces between where one has more",
            "pauses": "pause before each slot, as a share of the longest",
        },
    ),
    "extensions": Described(
        row="a further part of an undecided comparison, stored before it runs; its blocks: stages 2k + 1 and 2k + 2",
        columns={
            "campaign": CAMPAIGN,
            "number": "k, from 1",
            "created_at": "when it was planned, UTC",
            "seed": "of its orders",
            "max_blocks": "most blocks of its suspicion",
            "max_confirm_blocks": "most blocks of its confirmation",
            "budget_s": "seconds it may take, 0 for no limit",
        },
    ),
    "bisects": Described(
        row="what a bisect searches: its candidates in order, metric and options, stored before it runs",
        columns={"campaign": CAMPAIGN, "document": _DOCUMENT},
    ),
    "bisect_pairs": Described(
        row="one reading of a bisect as drawn, stored before it runs; its trials have stage 1 and its number as block",
        columns={
            "campaign": CAMPAIGN,
            "number": "from 1, in the order they were drawn",
            "position": "of the commit among the candidates, from 1",
            "slot_order": "A is GOOD, B is the commit, such as BA",
            "pauses": "pause before each launch, as a share of the longest",
        },
    ),
    "bisect_builds": Described(
        row="what became of the first build of a candidate",
        columns={
            "campaign": CAMPAIGN,
            "position": "of the commit among the candidates, 0 is GOOD",
            "status": "ok, unbuildable or invalid",
            "document": _DOCUMENT,
        },
    ),
    "bisect_links": Described(
        row="a campaign that a bisect started",
        columns={
            "campaign": "the bisect",
            "other": "the campaign it started",
            "role": "confirmation of a candidate, inside a blamed merge, or further culprit",
            "before_position": "position in front of the change",
            "after_position": "position behind it",
        },
    ),
    "trials": Described(
        row="one launch, whatever became of it, stored and on disk before the next one starts",
        columns={
            "campaign": CAMPAIGN,
            "id": "name of the launch",
            "stage": "0: unmeasured first run of a build; odd: suspicion; even: confirmation",
            "block": "number of the block in its stage",
            "slot": "place in the block, 0 to 3",
            "side": "base or head",
            "build": "which build of the side, from 1",
            "attempt": "0, or more where a launch that died early was started again",
            "status": "ok, invalid, crashed or timed_out",
            "started_at": "when, UTC",
            "wall_s": "seconds from start to end of its processes",
            "measured_s": "seconds of that inside the measured part",
            "metrics": "JSON: metric -> value",
            "digests": "JSON: what was produced (tokens of a mode) -> its hash",
            "reasons": "JSON: why it is not ok, codes and sentences",
            "record": "JSON: everything that runner and harness observed",
        },
    ),
    "samples": Described(
        row="a list of 32 or more numbers out of a trial's record, compressed; `perfguard prune` takes old ones away",
        columns={
            "campaign": CAMPAIGN,
            "trial": "launch it belongs to",
            "position": "what `$series` in the record refers to",
            "name": "its place in the record",
            "num_samples": "how many numbers",
            "data": "zlib of a JSON list",
        },
    ),
    "verdicts": Described(
        row="one judgement, with its time and the version of perfguard that made it; a later one adds a row",
        columns={
            "campaign": CAMPAIGN,
            "number": "from 1; the highest counts",
            "created_at": "when, UTC",
            "perfguard": "version that judged",
            "outcome": "what it came to",
            "document": "the JSON that `perfguard report -f json` gives",
        },
    ),
    "machine_readings": Described(
        row="a reading of a machine's own history: level of base, PCIe link, `doctor --bench`; belongs to no campaign",
        columns={
            "machine": "hash of the host's name",
            "name": "what was read",
            "measured_at": "when, UTC",
            "source": "the campaign that it comes from, or bench",
            "value": "as measured",
            "unit": "of the value",
            "facts": "JSON: what was known of the machine then",
        },
    ),
    "nights": Described(
        row="one `perfguard nightly`",
        columns={
            "id": "name of the night",
            "started_at": "when, UTC",
            "status": "running, interrupted, finished or given up",
            "commit_sha": "head's commit",
            "document": "JSON of the night, without the comparisons",
        },
    ),
    "night_runs": Described(
        row="a comparison of a night, stored before it runs; outlives its campaign",
        columns={
            "campaign": "the comparison",
            "night": "night it belongs to",
            "started_at": "when the night started, UTC",
            "workload": WORKLOAD,
            "commit_sha": "head's commit",
            "pin": "commit of the reference",
            "is_link": "1 where it only links the series of two references",
            "code": "digest of the code that the workload loads and of how it is measured",
            "machine": "digest of the machine",
        },
    ),
    "night_values": Described(
        row="a primary metric of a comparison of a night: a point of its series",
        columns={
            "campaign": "the comparison",
            "metric": "name of the metric",
            "unit": "of value and reference",
            "better": "lower or higher",
            "value": "median of head",
            "reference": "median of the reference in the same night",
        },
    ),
    "night_outcomes": Described(
        row="how a comparison of a night ended",
        columns={"campaign": "the comparison", "outcome": "what it came to"},
    ),
    "pins": Described(
        row="a reference commit that nights measure against, from some time on",
        columns={
            "number": "from 1; the highest of a workload counts",
            "workload": f"{WORKLOAD}, empty for all of them",
            "commit_sha": "commit of the reference",
            "revision": "as it was asked for",
            "pinned_at": "when, UTC",
        },
    ),
    "acks": Described(
        row="a regression that is accepted for a while",
        columns={
            "campaign": "the comparison that found it",
            "acked_at": "when, UTC",
            "until": "last day of it, UTC",
            "reason": "why",
        },
    ),
    "suspicions": Described(
        row="a window of commits that a night wants bisected",
        columns={
            "id": "name of the suspicion",
            "filed_at": "when, UTC",
            "workload": WORKLOAD,
            "metric": "metric that got worse",
            "cause": "REGRESSION, SUSPECT or change point",
            "good": "commit before the window",
            "bad": "last commit of the window",
            "since": "start of the night whose change it is, UTC",
            "campaign": "comparison it rests on, empty for a change point",
            "status": "open or answered",
            "bisect": "the search, empty where none was started",
            "answer": "what the search came to, empty while open",
        },
    ),
    "provenance": Described(
        row="content stored once, by its sha256: environment, versions, origin, machine, method, conditions, patches; "
        "a large mapping is in parts, which others have as well, and a list of them",
        columns={
            "sha256": "of the content before compression",
            "kind": "json or bytes",
            "num_bytes": "size before compression",
            "data": "zlib of the content",
        },
    ),
    "campaign_provenance": Described(
        row="which campaign uses which content",
        columns={"campaign": CAMPAIGN, "sha256": "of the content"},
    ),
}
