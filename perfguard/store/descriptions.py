"""What tables, views and columns of results.db hold, in plain words: for docs/schema.md and for Datasette. Data only.

A test holds it against the schema: a column that is missing here, or that is only here, fails.
"""

from collections.abc import Mapping
from dataclasses import dataclass

_CAMPAIGN = "campaign it belongs to"
_DOCUMENT = "the exact record as JSON"
_WORKLOAD = "name of the workload"


@dataclass(frozen=True, kw_only=True)
class Described:
    """`row`: what one row is. `columns`: column -> what it holds, in their order in the file."""

    row: str
    columns: Mapping[str, str]


VIEWS: Mapping[str, Described] = {
    "last_verdicts": Described(
        row="the newest verdict on each workload of a repository",
        columns={
            "workload": _WORKLOAD,
            "repository": "folder of the repository",
            "outcome": "REGRESSION, IMPROVEMENT, EQUIVALENT, INCONCLUSIVE, SUSPECT or INVALID",
            "judged_at": "when, UTC",
            "campaign": "id, for `perfguard show`",
            "head": "revision that was judged, as it was asked for",
            "head_commit": "its commit",
            "sentence": "the verdict in words",
        },
    ),
    "slowest_trials": Described(
        row="a launch; the longest come first",
        columns={
            "wall_s": "seconds from start to end of its processes",
            "measured_s": "seconds of that inside the measured part",
            "workload": _WORKLOAD,
            "campaign": _CAMPAIGN,
            "trial": "id of the launch",
            "side": "base or head",
            "stage": "0: unmeasured first run of a build; odd: suspicion; even: confirmation",
            "status": "ok, invalid, crashed or timed_out",
            "started_at": "when, UTC",
        },
    ),
    "failures_by_reason": Described(
        row="a reason why launches of a workload failed",
        columns={
            "workload": _WORKLOAD,
            "status": "invalid, crashed or timed_out",
            "reason": "stable code of the reason",
            "num_trials": "launches that failed for it",
            "last_at": "latest of them, UTC",
            "last_campaign": "campaign of that one",
            "last_text": "reason of that one in words",
        },
    ),
    "launches_by_week": Described(
        row="a week of one workload, first runs of builds included",
        columns={
            "week": "its Monday, UTC",
            "workload": _WORKLOAD,
            "num_launches": "launches that were started",
            "num_failed": "those of them that were not ok",
            "hours": "hours they took, from start to end",
        },
    ),
    "noise_by_machine": Described(
        row="how far two launches of the same side differ, by machine, workload, scope and metric; latest 20 campaigns",
        columns={
            "machine": "sha256 of the machine's fingerprint",
            "hardware": 'its first GPU, else its CPU; "" while no verdict says it',
            "workload": _WORKLOAD,
            "scope": "full, slice or in-process",
            "metric": "name of the metric",
            "num_pairs": "pairs of launches of one side in one block",
            "noise_percent": "standard deviation between launches in percent: 0.8862 × mean difference of a pair",
        },
    ),
    "trials_wide": Described(
        row="one metric of one launch; a launch that failed has one row without a metric",
        columns={
            "campaign": _CAMPAIGN,
            "workload": _WORKLOAD,
            "stage": "0: unmeasured first run of a build; odd: suspicion; even: confirmation",
            "block": "number of the block in its stage",
            "slot": "place in the block, 0 to 3",
            "attempt": "0, or more where a launch that died early was started again",
            "side": "base or head",
            "build": "which build of the side, from 1",
            "status": "ok, invalid, crashed or timed_out",
            "started_at": "when, UTC",
            "metric": "name of the metric",
            "value": "as measured; its unit is in the campaign's document",
            "trial": "id of the launch",
        },
    ),
    "campaigns_overview": Described(
        row="a campaign at a glance",
        columns={
            "id": "name of the campaign, for `perfguard show`",
            "kind": "compare, run, recheck, judge, calibrate, control or bisect",
            "created_at": "when it was planned, UTC",
            "status": "running, interrupted or finished",
            "workload": _WORKLOAD,
            "scope": "full, slice or in-process",
            "repository": "folder of the repository",
            "base": "revision of base as it was asked for",
            "base_commit": "its commit",
            "head": "revision of head as it was asked for",
            "head_commit": "its commit",
            "outcome": 'latest outcome, "" while there is none',
            "num_blocks": "blocks that were planned",
            "num_ok": "measured launches that were valid",
            "num_invalid": "that measured under conditions which do not count",
            "num_crashed": "that crashed",
            "num_timed_out": "that took too long",
        },
    ),
}

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
            "kind": "compare, run, recheck, judge, calibrate, control or bisect",
            "created_at": "when it was planned, UTC",
            "status": "running, interrupted or finished",
            "workload": _WORKLOAD,
            "scope": "full, slice or in-process",
            "repository": "folder of the repository",
            "machine": "sha256 of the machine's fingerprint",
            "document": _DOCUMENT,
        },
    ),
    "arms": Described(
        row="one side of a campaign: revision, commit, tree, and whether a patch lay on top",
        columns={
            "campaign": _CAMPAIGN,
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
            "campaign": _CAMPAIGN,
            "stage": "odd: suspicion; even: confirmation; from 3 on those of extensions",
            "block": "number in its stage",
            "slot_order": "A is base, B is head, such as ABBA",
            "builds": "build of the side in each slot, from 1",
            "pauses": "pause before each slot, as a share of the longest",
        },
    ),
    "extensions": Described(
        row="a further part of an undecided comparison, stored before it runs; its blocks: stages 2k + 1 and 2k + 2",
        columns={
            "campaign": _CAMPAIGN,
            "number": "k, from 1",
            "created_at": "when it was planned, UTC",
            "seed": "of its orders",
            "max_blocks": "most blocks of its suspicion",
            "max_confirm_blocks": "most blocks of its confirmation",
            "budget_s": "seconds it may take, 0 for no limit",
        },
    ),
    "trials": Described(
        row="one launch, whatever became of it, stored and on disk before the next one starts",
        columns={
            "campaign": _CAMPAIGN,
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
            "campaign": _CAMPAIGN,
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
            "campaign": _CAMPAIGN,
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
    "provenance": Described(
        row="content stored once, by its sha256: environment, versions, origin, machine, method, conditions, patches",
        columns={
            "sha256": "of the content before compression",
            "kind": "json or bytes",
            "num_bytes": "size before compression",
            "data": "zlib of the content",
        },
    ),
    "campaign_provenance": Described(
        row="which campaign uses which content",
        columns={"campaign": _CAMPAIGN, "sha256": "of the content"},
    ),
}
