"""What views of results.db answer, in plain words, as descriptions.py says it of tables. Data only."""

from collections.abc import Mapping

from perfguard.store.descriptions import CAMPAIGN, WORKLOAD, Described

VIEWS: Mapping[str, Described] = {
    "last_verdicts": Described(
        row="the newest verdict on each workload of a repository",
        columns={
            "workload": WORKLOAD,
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
            "workload": WORKLOAD,
            "campaign": CAMPAIGN,
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
            "workload": WORKLOAD,
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
            "workload": WORKLOAD,
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
            "workload": WORKLOAD,
            "scope": "full, slice, in-process, attached or resident",
            "metric": "name of the metric",
            "num_pairs": "pairs of launches of one side in one block",
            "noise_percent": "standard deviation between launches in percent: 0.8862 × mean difference of a pair",
        },
    ),
    "trials_wide": Described(
        row="one metric of one launch; a launch that failed has one row without a metric",
        columns={
            "campaign": CAMPAIGN,
            "workload": WORKLOAD,
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
            "kind": "compare, run, recheck, judge, import, calibrate, control or bisect",
            "created_at": "when it was planned, UTC",
            "status": "running, interrupted or finished",
            "workload": WORKLOAD,
            "scope": "full, slice, in-process, attached or resident",
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
