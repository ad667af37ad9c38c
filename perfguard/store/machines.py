"""Queries on the history of machines: rows in, readings out. Opens no file, ends no transaction and judges no step."""

import json
import math
from collections.abc import Sequence

from sqlite_utils import Database

from perfguard.records import MachineReading
from perfguard.store import codec, damage


def insert(db: Database, machine: str, readings: Sequence[MachineReading]) -> None:
    """Raises ValueError for a value that is no positive finite number: a card that did nothing is no reading."""
    for one in readings:
        if not (math.isfinite(one.value) and one.value > 0):
            raise ValueError(f"{one.name}: a reading must be a positive finite number, got {one.value}")
        db.execute(
            "INSERT OR IGNORE INTO machine_readings (machine, name, measured_at, source, value, unit, facts) "
            "VALUES (?, ?, ?, ?, ?, ?, ?)",
            (machine, codec.shown(one.name), one.measured_at, one.source, one.value, one.unit, codec.dump(one.facts)),
        )


def load(db: Database, machine: str, name: str) -> list[MachineReading]:
    """Oldest first; of equal times, in the order they were stored."""
    rows = db.query(
        "SELECT name, unit, value, measured_at, source, facts FROM machine_readings "
        "WHERE machine = ? AND name = ? ORDER BY measured_at, rowid",
        (machine, codec.shown(name)),
    )
    with damage.reading_row("machine_readings", f"{machine[:12]} {name}"):
        return [MachineReading(**{**row, "facts": damage.mapping(json.loads(row["facts"]), "facts")}) for row in rows]
