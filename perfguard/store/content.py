"""Content by sha256 (table provenance) and series of numbers (table samples): the compressed parts of records."""

import json
import zlib
from typing import Any

from sqlite_utils import Database

from perfguard.errors import StoreError
from perfguard.store import codec


def add(db: Database, campaign: str, packed: codec.Packed) -> None:
    """Store what the packed text refers to, each content once however many trials and campaigns use it."""
    for sha256, (kind, content) in packed.contents.items():
        known = db.execute("SELECT 1 FROM provenance WHERE sha256 = ?", (sha256,)).fetchone()
        if known is None:
            db.execute(
                "INSERT INTO provenance VALUES (?, ?, ?, ?)",
                (sha256, kind, len(content), zlib.compress(content)),
            )
        db.execute("INSERT OR IGNORE INTO campaign_provenance VALUES (?, ?)", (campaign, sha256))


def add_series(db: Database, campaign: str, trial: str, packed: codec.Packed) -> None:
    for position, series in enumerate(packed.series):
        data = zlib.compress(codec.dump(series.values).encode("ascii"))
        db.execute(
            "INSERT INTO samples VALUES (?, ?, ?, ?, ?, ?)",
            (campaign, trial, position, series.name, len(series.values), data),
        )


def series_of_campaign(db: Database, campaign: str) -> dict[tuple[str, int], bytes]:
    """Compressed series by trial and position."""
    rows = db.execute("SELECT trial, position, data FROM samples WHERE campaign = ?", (campaign,))
    return {(trial, position): data for trial, position, data in rows}


def numbers(data: bytes) -> list[float]:
    values: list[float] = json.loads(zlib.decompress(data))
    return values


def loader(db: Database) -> codec.LoadContent:
    """Reads content on demand, each once: trials of one campaign share the same objects."""
    seen: dict[str, Any] = {}

    def load(sha256: str) -> Any:
        if sha256 not in seen:
            kind, data = _content(db, sha256)
            # Large content is in parts, which other content has as well: they are read by the same reader.
            seen[sha256] = data if kind == "bytes" else codec.unpack(data.decode("ascii"), load)
        return seen[sha256]

    return load


def _content(db: Database, sha256: str) -> tuple[str, bytes]:
    row = db.execute("SELECT kind, data FROM provenance WHERE sha256 = ?", (sha256,)).fetchone()
    if row is None:
        raise StoreError(f"content {sha256} is referred to but not stored", "restore the database from a copy")
    return row[0], zlib.decompress(row[1])
