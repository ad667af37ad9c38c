"""Logs that `nvidia-smi --query-gpu=… --format=csv` wrote -> columns of numbers and of reasons. Pure.

A cell that is no number keeps its text as a reason: never 0. Must not judge what the numbers say. For looking at logs
of other machines: the tests hold samples.py against public ones. No command reads such a log.
"""

import csv
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from perfguard.machine.reading import Reading

# Drivers rename columns: asked for by the old name, the new one comes back.
RENAMED = {
    "clocks.sm": "clocks.current.sm",
    "clocks.gr": "clocks.current.graphics",
    "clocks.mem": "clocks.current.memory",
    "clocks_throttle_reasons.active": "clocks_event_reasons.active",
}
NUMBER = re.compile(r"([-+]?\d+(?:\.\d+)?)(?:\s*\S+)?")


@dataclass(frozen=True, kw_only=True)
class Log:
    """`times_s` from the first row on; `columns` by name without unit, each as long as `times_s`."""

    times_s: Sequence[float]
    columns: Mapping[str, Sequence[Reading]]


def read_log(text: str) -> Log:
    """Raises ValueError for a text without a header that begins with "timestamp". Cut last lines are left out."""
    rows = [[cell.strip() for cell in row] for row in csv.reader(text.splitlines())]
    if not rows or not rows[0] or rows[0][0] != "timestamp":
        raise ValueError("no nvidia-smi log: the first line does not begin with 'timestamp'")
    names = [_name(head) for head in rows[0]]
    whole = [row for row in rows[1:] if len(row) == len(names)]
    times = [_time(row[0]) for row in whole]
    columns = {name: [read_cell(row[k]) for row in whole] for k, name in enumerate(names) if k > 0}
    return Log(times_s=[(time - times[0]).total_seconds() for time in times], columns=columns)


def read_cell(cell: str) -> Reading:
    """A number with or without its unit, a word such as P0, or why there is none."""
    lower = cell.lower()
    if "not supported" in lower or lower in ("n/a", "[n/a]"):
        return Reading(value=None, status="not_supported", why=cell)
    if "permission" in lower:
        return Reading(value=None, status="no_permission", why=cell)
    if not cell or cell.startswith("[") or "deprecated" in lower:
        return Reading(value=None, status="error", why=cell or "empty")
    number = NUMBER.fullmatch(cell)
    return Reading(value=float(number.group(1)) if number else cell, status="value", why="")


def _name(head: str) -> str:
    """ "power.draw [W]" -> "power.draw"."""
    name = head.partition("[")[0].strip()
    return RENAMED.get(name, name)


def _time(text: str) -> datetime:
    # The log tells no zone; only differences are used.
    return datetime.strptime(text, "%Y/%m/%d %H:%M:%S.%f").replace(tzinfo=UTC)
