"""`import`: result files of other clients into the database, and as CSV for `judge` and `history`.

Reads files and stores runs; judges nothing. A file that was taken in before is not stored twice.
"""

import csv
import hashlib
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

from perfguard import __version__
from perfguard.comparison import arm_json, reason_json, trials_json, workload_json
from perfguard.errors import EXIT_INVALID, EXIT_OK, NotComparableError, UsageError
from perfguard.imported import (
    NEXT_STEP,
    ImportedRun,
    differing_settings,
    imported_run,
    limits_of,
    pairs_to_blocks,
)
from perfguard.judge_file import MAX_CHARACTERS
from perfguard.policy import Policy
from perfguard.records import Arm, BlockPlan, Campaign, Reason, Revision, Trial, Workload
from perfguard.store import Store

SCHEMA = "perfguard/import@1"
RUN_SCHEMA = "perfguard/run@1"
SLOTS = 4


@dataclass(frozen=True, kw_only=True)
class ResultFile:
    """Runs of one file with the same settings, in their order. `dated`: when they began, or when it was last written.

    `part` counts from 1 where a file holds runs with several settings; 0: it does not.
    """

    path: Path
    part: int
    digest: str
    dated: str
    runs: tuple[ImportedRun, ...]


def read_file(path: Path) -> list[ResultFile]:
    """One for each kind of settings in it, in the order of the file. Raises UsageError naming file, line and key."""
    raw = _text(path)
    groups: list[list[ImportedRun]] = []
    for line, document in _documents(raw, path):
        try:
            run = imported_run(document)
        except UsageError as error:
            raise UsageError(f"{path}:{line}: {error}", error.next_step) from error
        same = next((group for group in groups if not differing_settings([group[0], run])), None)
        if same is None:
            groups.append([run])
        else:
            same.append(run)
    written = datetime.fromtimestamp(path.stat().st_mtime, UTC).isoformat(timespec="seconds")
    digest = hashlib.sha256(raw.encode()).hexdigest()
    return [
        ResultFile(
            path=path,
            part=index if len(groups) > 1 else 0,
            digest=digest,
            dated=group[0].started_at or written,
            runs=tuple(group),
        )
        for index, group in enumerate(groups, start=1)
    ]


def _text(path: Path) -> str:
    try:
        # Bounded: a device never ends.
        with open(path, encoding="utf-8-sig") as stream:
            raw = stream.read(MAX_CHARACTERS + 1)
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read as UTF-8 text: {error}", NEXT_STEP) from error
    if len(raw) > MAX_CHARACTERS:
        raise UsageError(f"{path} holds more than {MAX_CHARACTERS // 2**20} million characters", NEXT_STEP)
    return raw


def _documents(raw: str, path: Path) -> list[tuple[int, Any]]:
    """(line, document): the whole file where it is one JSON text, else one a line."""
    try:
        return [(1, json.loads(raw))]
    except (ValueError, RecursionError):
        lines = [(number, line) for number, line in enumerate(raw.splitlines(), start=1) if line.strip()]
    if not lines:
        raise UsageError(f"{path} is empty", NEXT_STEP)
    found = []
    for number, line in lines:
        try:
            found.append((number, json.loads(line)))
        except (ValueError, RecursionError) as error:
            text = f"{path}:{number}: neither the file nor this line is JSON, or it was cut off: {error}"
            raise UsageError(text, NEXT_STEP) from error
    return found


def store_file(file: ResultFile, store: Store, *, name: str = "", commit: str = "") -> dict[str, Any]:
    """One campaign of kind "import", a trial a run; its verdict (perfguard/run@1). What is stored already stays."""
    campaign = _campaign(file, name=name, commit=commit)
    known = {row.id for row in store.campaigns(1_000_000, kind="import")}
    if campaign.id in known:
        return {**(store.latest_verdict(campaign.id) or {}), "is_new": False}
    trials = [_trial(index, run) for index, run in enumerate(file.runs)]
    result = _run_json(campaign, trials)
    store.add_campaign(campaign)
    num_blocks = -(-len(trials) // SLOTS)
    store.add_blocks(campaign.id, [_plain_block(index) for index in range(num_blocks)])
    for trial in trials:
        store.add_trial(campaign.id, trial)
    store.add_verdict(campaign.id, result)
    store.set_status(campaign.id, "finished")
    return {**result, "is_new": True}


def _plain_block(index: int) -> BlockPlan:
    return BlockPlan(stage=1, index=index, order="AAAA", builds="1111", pauses=(0.0, 0.0, 0.0, 0.0))


def _campaign(file: ResultFile, *, name: str, commit: str) -> Campaign:
    """No machine: what ran where is not known, so that no price and no noise of this one is taken from it."""
    first = file.runs[0]
    metrics = {metric.name: metric for run in file.runs for metric in run.metrics}
    return Campaign(
        id=f"import-{file.digest[:12]}{f'-{file.part}' if file.part else ''}",
        kind="import",
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
        workload=Workload(
            name=name or first.shape.tool, runner="command", metrics=tuple(metrics.values()), params=first.settings
        ),
        arms=(Arm(side="base", revision=Revision(name=file.path.name, commit=commit, tree="")),),
        policy=asdict(Policy()),
        seed=0,
        repository="",
        method={
            "perfguard": __version__,
            "source": {"tool": first.shape.tool, "file": file.path.name, "sha256": file.digest, "dated": file.dated},
            "limits": list(limits_of(first.shape)),
        },
    )


def _trial(index: int, run: ImportedRun) -> Trial:
    return Trial(
        id=f"s1b{index // SLOTS}t{index % SLOTS}a0",
        stage=1,
        block=index // SLOTS,
        slot=index % SLOTS,
        side="base",
        build=1,
        attempt=0,
        status="invalid" if run.reasons else "ok",
        started_at=run.started_at,
        wall_s=run.measured_s,
        measured_s=run.measured_s,
        values=run.values,
        reasons=run.reasons,
        record={"source": run.shape.tool, "settings": dict(run.settings), "samples": dict(run.samples)},
    )


def _run_json(campaign: Campaign, trials: Sequence[Trial]) -> dict[str, Any]:
    limits = [Reason(code="IMPORTED", text="; ".join(campaign.method["limits"]))]
    measured = any(trial.status == "ok" for trial in trials)
    return {
        "schema": RUN_SCHEMA,
        "outcome": "MEASURED" if measured else "INVALID",
        "exit_code": EXIT_OK if measured else EXIT_INVALID,
        "sentence": f"Imported from {campaign.method['source']['tool']}: numbers and no verdict.",
        "metrics": [_metric_json(metric, trials) for metric in campaign.workload.metrics],
        "id": campaign.id,
        "kind": campaign.kind,
        "created_at": campaign.created_at,
        "scope": campaign.scope,
        "base": arm_json(campaign.arms[0]),
        "workload": workload_json(campaign),
        "trials": trials_json(trials),
        "cached_builds": [],
        "reasons": [reason_json(reason) for reason in (*limits, *(r for trial in trials for r in trial.reasons))],
        "machine": {},
        "method": dict(campaign.method),
    }


def _metric_json(metric: Any, trials: Sequence[Trial]) -> dict[str, Any]:
    values = [t.values[metric.name] for t in trials if t.status == "ok" and metric.name in t.values]
    middle = median(values) if values else None
    return {"name": metric.name, "unit": metric.unit, "better": metric.better, "median": middle, "values": values}


@dataclass(frozen=True, kw_only=True)
class Chosen:
    """A valid run with the arm that it is said to be of; `where` names it for people."""

    arm: str
    run: ImportedRun
    dated: str
    where: str


def chosen_runs(bases: Sequence[ResultFile], heads: Sequence[ResultFile]) -> tuple[list[Chosen], list[str]]:
    """Valid runs of both sides in the order they ran, and what is to be said of the others and of that order."""
    sided = [*(("base", file) for file in bases), *(("head", file) for file in heads)]
    found, notes = [], []
    for arm, file in sided:
        for number, run in enumerate(file.runs, start=1):
            where = f"{file.path} run {number}" if len(file.runs) > 1 else f"{file.path}"
            if run.reasons:
                notes.append(f"not used, {where}: {run.reasons[0].text}")
                continue
            found.append(Chosen(arm=arm, run=run, dated=run.started_at, where=where))
    if all(one.dated for one in found):
        return sorted(found, key=lambda one: one.dated), notes
    notes.append("not every run says when it began: the order is that of the files as named, base before head")
    return found, notes


def trials_csv(chosen: Sequence[Chosen], metric: str = "") -> tuple[str, list[str]]:
    """The CSV of `judge`, and what of the runs is in no block.

    Raises NotComparableError where settings differ, UsageError where there is not one whole block.
    """
    if differing := differing_settings([one.run for one in chosen]):
        raise NotComparableError(f"the runs measured different things: {'; '.join(differing)}", "the same settings")
    name = metric or next((m.name for one in chosen for m in one.run.metrics if m.primary), "")
    lacking = [one.where for one in chosen if name not in one.run.values]
    if lacking:
        raise UsageError(f"{lacking[0]} has no {name or 'primary metric'}", "--metric NAME that every file holds")
    positions = {arm: [i for i, one in enumerate(chosen) if one.arm == arm] for arm in ("base", "head")}
    blocks = pairs_to_blocks(positions["base"], positions["head"])
    if not blocks:
        counts = f"{len(positions['base'])} of base and {len(positions['head'])} of head"
        raise UsageError(f"a block needs two valid runs of each side; there are {counts}", "--head FILE")
    used = {position for block in blocks for _, position in block}
    unused = [f"in no block: {one.where}" for i, one in enumerate(chosen) if i not in used]
    return _csv(_trial_rows(chosen, blocks, name)), unused


def _trial_rows(chosen: Sequence[Chosen], blocks: Sequence[Any], name: str) -> list[Mapping[str, Any]]:
    metric = next(m for m in chosen[0].run.metrics if m.name == name)
    about = {"metric": name, "better": metric.better, "unit": metric.unit}
    return [
        {"block": index, "slot": slot, "arm": arm, **about, "value": chosen[position].run.values[name]}
        for index, block in enumerate(blocks, start=1)
        for slot, (arm, position) in enumerate(block, start=1)
    ]


def nights_csv(files: Sequence[ResultFile], commit: str = "") -> str:
    """The CSV of `history`: every metric of every valid run."""
    rows = [
        {"time": run.started_at or file.dated, "commit": commit, "metric": name, "value": value}
        for file in files
        for run in file.runs
        if not run.reasons
        for name, value in run.values.items()
    ]
    if not rows:
        raise UsageError("no file holds a valid run", NEXT_STEP)
    return _csv(rows)


def _csv(rows: Sequence[Mapping[str, Any]]) -> str:
    out = io.StringIO()
    writer = csv.DictWriter(out, fieldnames=list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()
