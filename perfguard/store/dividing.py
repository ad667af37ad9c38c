"""Content that was stored whole and is stored in parts today (see `parts`), rewritten in place.

Part of a migration, which begins and ends the transaction.
"""

import json
import re
import zlib

from sqlite_utils import Database

from perfguard.store import codec, content, damage, parts

# Every column that refers to content, with its table and the column that names the campaign.
_DOCUMENTS = (
    ("campaigns", "id", "document"),
    ("arms", "campaign", "document"),
    ("bisects", "campaign", "document"),
    ("trials", "campaign", "record"),
)
# Quotation marks of a text are escaped in JSON and a key that begins with "$" is written otherwise, so that nothing but
# a reference looks like this. As bytes: a damaged row may hold anything.
_REFERENCE = re.compile(rb'\{"\$json":"([0-9a-f]{64})"\}')


def divide(db: Database) -> None:
    """Records are the same text afterwards but for what they refer to; whole content that was divided is gone."""
    moved, campaigns = {}, set()
    for sha256 in _large(db):
        users = _users(db, sha256)
        place = _divide_one(db, sha256, users)
        if place != sha256:
            moved[sha256] = place
            campaigns.update(users)
    for campaign in sorted(campaigns):
        for table, owner, column in _DOCUMENTS:
            _refer(db, table, owner, column, campaign, moved)
    for sha256 in moved:
        db.execute("DELETE FROM campaign_provenance WHERE sha256 = ?", (sha256,))
        db.execute("DELETE FROM provenance WHERE sha256 = ?", (sha256,))


def _large(db: Database) -> list[str]:
    found = "SELECT sha256 FROM provenance WHERE kind = 'json' AND num_bytes >= ? ORDER BY rowid"
    return [sha256 for (sha256,) in db.execute(found, (parts.MIN_BYTES,)).fetchall()]


def _users(db: Database, sha256: str) -> list[str]:
    found = db.execute("SELECT campaign FROM campaign_provenance WHERE sha256 = ? ORDER BY campaign", (sha256,))
    return [campaign for (campaign,) in found.fetchall()]


def _divide_one(db: Database, sha256: str, users: list[str]) -> str:
    """Where the content is now: under another sha256 where it is in parts."""
    (data,) = db.execute("SELECT data FROM provenance WHERE sha256 = ?", (sha256,)).fetchone()
    try:
        plain = damage.mapping(json.loads(zlib.decompress(data)), "content")
    except (zlib.error, ValueError, TypeError):
        return sha256  # damaged: whoever reads it is told, and the rest of the file is as good as before
    place, contents = codec.shared(plain)
    for campaign in users if place != sha256 else ():
        content.add(db, campaign, codec.Packed(text="", contents=contents))
    return place


def _refer(db: Database, table: str, owner: str, column: str, campaign: str, moved: dict[str, str]) -> None:
    def elsewhere(reference: re.Match[bytes]) -> bytes:
        sha256 = reference[1].decode("ascii")
        return reference[0].replace(reference[1], moved.get(sha256, sha256).encode("ascii"))

    rows = db.execute(f"SELECT rowid, CAST({column} AS BLOB) FROM {table} WHERE {owner} = ?", (campaign,)).fetchall()
    for row, text in rows:
        changed = _REFERENCE.sub(elsewhere, text)
        if changed != text:
            db.execute(f"UPDATE {table} SET {column} = CAST(? AS TEXT) WHERE rowid = ?", (changed, row))
