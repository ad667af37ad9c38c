"""`history --csv`: nights measured elsewhere, from a CSV file to tracks. Reads one file, stores nothing."""

import csv
import math
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

from perfguard.errors import UsageError
from perfguard.history import Night, Track

COLUMNS = ("time", "commit", "metric", "value")
NEXT_STEP = "a header time,commit,metric,value and optional reference, then one row a night"


def read_tracks(path: Path) -> list[Track]:
    """One track a metric, in the order of the file, nights by time. A night without a value is missing, not 0.

    Raises UsageError naming file and line.
    """
    try:
        raw = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read as UTF-8 text: {error}", NEXT_STEP) from error
    reader = csv.DictReader(raw.splitlines())
    missing = [name for name in COLUMNS if name not in (reader.fieldnames or ())]
    if missing:
        raise UsageError(f"{path}: no column {', '.join(missing)}", NEXT_STEP)
    nights: dict[str, list[Night]] = {}
    for row in reader:
        where = f"{path}:{reader.line_num}"
        if (row["value"] or "").strip():
            nights.setdefault(_metric(row, where), []).append(_night(row, where))
    return [Track(metric=metric, nights=tuple(sorted(own, key=_when))) for metric, own in nights.items()]


def _metric(row: Mapping[str, str | None], where: str) -> str:
    metric = (row["metric"] or "").strip()
    if not metric:
        raise UsageError(f"{where}: no metric", NEXT_STEP)
    return metric


def _night(row: Mapping[str, str | None], where: str) -> Night:
    time = (row["time"] or "").strip()
    try:
        datetime.fromisoformat(time)
    except ValueError:
        raise UsageError(f"{where}: time {time!r} is not like 2026-11-30T02:00:00+00:00", NEXT_STEP) from None
    reference = (row.get("reference") or "").strip()
    return Night(
        time=time,
        commit=(row["commit"] or "").strip(),
        value=_positive(row["value"] or "", f"{where}: value"),
        reference=_positive(reference, f"{where}: reference") if reference else None,
    )


def _positive(text: str, where: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value > 0):
        raise UsageError(f"{where} {text!r} is not a positive number", NEXT_STEP)
    return value


def _when(night: Night) -> float:
    """Times without a zone are taken as this machine's."""
    return datetime.fromisoformat(night.time).timestamp()
