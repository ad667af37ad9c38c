"""Every measured value as rows: the CSV that `judge` reads again, and the table of a page. Pure."""

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any

from perfguard.records import Trial
from perfguard.report import units

COLUMNS = ("stage.block", "slot", "arm", "build", "status", "started", "wall")
CSV_COLUMNS = (
    *("campaign", "block", "slot", "stage", "attempt", "arm", "build", "status", "started_at", "wall_s", "measured_s"),
    *("metric", "value", "unit", "better"),
)


def csv_text(comparison: Mapping[str, Any], trials: Sequence[Trial]) -> str:
    """A line for every trial and metric; a trial without values keeps its line, its value empty.

    Blocks and slots count from 1, blocks on through all stages in the order run.
    """
    measured = [trial for trial in trials if trial.stage > 0]
    blocks = {key: n for n, key in enumerate(dict.fromkeys((t.stage, t.block) for t in measured), start=1)}
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(CSV_COLUMNS)
    for trial in measured:
        writer.writerows(_lines(comparison, trial, blocks[trial.stage, trial.block]))
    return stream.getvalue()


def _lines(comparison: Mapping[str, Any], trial: Trial, block: int) -> list[tuple[object, ...]]:
    head = (comparison["id"], block, trial.slot + 1, trial.stage, trial.attempt, trial.side, trial.build)
    about = (*head, trial.status, trial.started_at, f"{trial.wall_s:.6f}", f"{trial.measured_s:.6f}")
    metrics = {metric["name"]: metric for metric in comparison["metrics"]}
    measured = [(name, repr(value), metrics[name]) for name, value in trial.values.items() if name in metrics]
    if not measured:
        return [(*about, "", "", "", "")]
    return [(*about, name, value, metric["unit"], metric["better"]) for name, value, metric in measured]


def rows(comparison: Mapping[str, Any], trials: Sequence[Trial]) -> list[tuple[str, ...]]:
    """One row a launch, the values of every metric with their units at its end."""
    metrics = {metric["name"]: metric["unit"] for metric in comparison["metrics"]}
    return [(*_about(trial), *(_shown(trial, name, unit) for name, unit in metrics.items())) for trial in trials]


def _about(trial: Trial) -> tuple[str, ...]:
    block = f"{trial.stage}.{trial.block}"
    place = (block, str(trial.slot + 1), trial.side, str(trial.build))
    return (*place, trial.status, trial.started_at[11:19], units.duration(trial.wall_s))


def _shown(trial: Trial, name: str, unit: str) -> str:
    return units.value(trial.values.get(name), unit)
