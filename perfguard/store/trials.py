"""Queries on trials: rows in, records out. Opens no file, ends no transaction and judges no value."""

import json
import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from sqlite_utils import Database

from perfguard.records import Reason, Scope, Trial
from perfguard.store import codec, content, damage
from perfguard.store.rows import TrialCosts

_COLUMNS = (
    "id, stage, block, slot, side, build, attempt, status, started_at, wall_s, measured_s, metrics, digests, reasons"
)


def insert(db: Database, campaign: str, trial: Trial) -> None:
    """Raises ValueError for a value or time that is no number: the field is for what was measured."""
    numbers = {**trial.values, "wall_s": trial.wall_s, "measured_s": trial.measured_s}
    if odd := {name: value for name, value in numbers.items() if not math.isfinite(value)}:
        raise ValueError(f"trial {trial.id}: values must be finite numbers, got {odd}")
    packed = codec.pack(trial.record, with_series=True)
    head = (trial.id, trial.stage, trial.block, trial.slot, trial.side, trial.build, trial.attempt, trial.status)
    times = (trial.started_at, trial.wall_s, trial.measured_s)
    texts = (codec.inline(trial.values), codec.inline(trial.digests), codec.inline(list(trial.reasons)))
    marks = ", ".join("?" * 16)
    db.execute(f"INSERT INTO trials VALUES ({marks})", (campaign, *head, *times, *texts, packed.text))
    content.add(db, campaign, packed)
    content.add_series(db, campaign, trial.id, packed)


def load(db: Database, campaign: str, *, with_record: bool) -> list[Trial]:
    """In the order they ran. Without records a thousand trials are a few milliseconds."""
    columns = f"{_COLUMNS}, record" if with_record else f"{_COLUMNS}, '{{}}' AS record"
    rows = list(db.query(f"SELECT {columns} FROM trials WHERE campaign = ? ORDER BY rowid", (campaign,)))
    series = content.series_of_campaign(db, campaign) if with_record else {}
    read = content.loader(db)

    def record(row: Mapping[str, Any]) -> Mapping[str, Any]:
        def numbers(position: int) -> list[float]:
            kept = series.get((row["id"], position))
            return [] if kept is None else content.numbers(kept)  # `prune` takes samples and leaves the record

        return damage.mapping(codec.unpack(row["record"], read, numbers), "record")

    found = []
    for row in rows:
        with damage.reading_row("trials", f"{campaign} {row['id']}"):
            found.append(_trial(row, record))
    return found


def _trial(row: Mapping[str, Any], record: Callable[[Mapping[str, Any]], Mapping[str, Any]]) -> Trial:
    changed = {
        "values": damage.numbers(codec.unpack(row["metrics"]), "metrics"),
        "digests": damage.mapping(codec.unpack(row["digests"]), "digests"),
        "reasons": tuple(codec.build(Reason, reason) for reason in json.loads(row["reasons"])),
        "record": record(row),
    }
    return Trial(**{name: value for name, value in row.items() if name != "metrics"} | changed)


@dataclass(frozen=True, kw_only=True)
class _Cost:
    campaign: str
    created_at: str
    pair: tuple[str, int, int, str]
    load_s: float
    measured_s: float
    values: Mapping[str, float]


def costs(db: Database, workload: str, machine: Mapping[str, Any] | None, limit: int, scope: Scope) -> list[TrialCosts]:
    """Of the latest `limit` campaigns of this workload, newest first; on any machine when `machine` is None.

    Controls are left out, they are slow on purpose. So is stage 0: first runs of a build fill its caches, so they
    load longer than any measured one; and the confirmation of scope in-process (even stages), which is measured in
    launches of another kind.
    """
    digest = None if machine is None else codec.digest(machine)
    rows = db.query(
        "SELECT c.id, c.created_at, t.stage, t.block, t.side, t.wall_s, t.measured_s, t.metrics "
        "FROM trials t JOIN (SELECT id, created_at, scope FROM campaigns "
        "WHERE workload = ? AND machine = coalesce(?, machine) AND scope = ? AND kind != 'control' "
        "ORDER BY created_at DESC, rowid DESC LIMIT ?) c ON c.id = t.campaign WHERE t.status = 'ok' AND t.stage > 0 "
        "AND (t.stage % 2 = 1 OR c.scope <> 'in-process')",
        (codec.shown(workload), digest, scope, limit),
    )
    by_campaign: dict[tuple[str, str], list[_Cost]] = defaultdict(list)
    for row in rows:
        with damage.reading_row("trials", row["id"]):
            by_campaign[row["created_at"], row["id"]].append(_cost(row))
    return [_summary(found) for _, found in sorted(by_campaign.items(), reverse=True)]


def _cost(row: Mapping[str, Any]) -> _Cost:
    return _Cost(
        campaign=row["id"],
        created_at=row["created_at"],
        pair=(row["id"], row["stage"], row["block"], row["side"]),
        load_s=row["wall_s"] - row["measured_s"],
        measured_s=row["measured_s"],
        values=damage.numbers(json.loads(row["metrics"]), "metrics"),
    )


def _summary(trials: list[_Cost]) -> TrialCosts:
    loads, measured = [t.load_s for t in trials], [t.measured_s for t in trials]
    return TrialCosts(
        campaign=trials[0].campaign,
        created_at=trials[0].created_at,
        num_trials=len(trials),
        load_s=statistics.median(loads),
        measured_s=statistics.median(measured),
        longest_load_s=max(loads),
        longest_measured_s=max(measured),
        noise=_noise(trials),
    )


def _noise(trials: Iterable[_Cost]) -> dict[str, float]:
    """Pooled standard deviation of the logarithm between the two trials of one side in one block.

    The variance of two numbers is half their squared difference (ddof=1); pooling is the mean over pairs.
    """
    logs: dict[str, dict[tuple[str, int, int, str], list[float]]] = defaultdict(lambda: defaultdict(list))
    for trial in trials:
        for metric, value in trial.values.items():
            if value > 0:
                logs[metric][trial.pair].append(math.log(value))
    variances = {
        metric: [(pair[0] - pair[1]) ** 2 / 2 for pair in pairs.values() if len(pair) == 2]
        for metric, pairs in logs.items()
    }
    return {metric: math.sqrt(statistics.fmean(found)) for metric, found in variances.items() if found}
