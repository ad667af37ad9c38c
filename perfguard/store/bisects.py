"""Queries on bisects: what is searched, its readings as drawn, its builds, and the campaigns that belong to it.

Rows in, records out. Opens no file and ends no transaction.
"""

import json
from dataclasses import dataclass
from typing import Literal

from sqlite_utils import Database

from perfguard.records import Bisect, CandidateBuild, PairPlan
from perfguard.store import codec, content, damage

Role = Literal["confirmation", "inside", "further"]


@dataclass(frozen=True, kw_only=True)
class BisectLink:
    """A campaign that a bisect started: the confirmation of a candidate against the position before it, the bisect
    inside a blamed merge, or one for a further culprit between two positions. `other` is its id.
    """

    role: Role
    other: str
    before: int
    after: int


def insert(db: Database, campaign: str, bisect: Bisect) -> None:
    packed = codec.pack(bisect)
    db.execute("INSERT INTO bisects VALUES (?, ?)", (campaign, packed.text))
    content.add(db, campaign, packed)


def load(db: Database, campaign: str) -> Bisect | None:
    row = db.execute("SELECT document FROM bisects WHERE campaign = ?", (campaign,)).fetchone()
    if row is None:
        return None
    with damage.reading_row("bisects", campaign):
        return codec.build(Bisect, damage.mapping(codec.unpack(row[0], content.loader(db)), "document"))


def insert_pair(db: Database, campaign: str, pair: PairPlan) -> None:
    row = (campaign, pair.number, pair.position, pair.order, codec.dump(pair.pauses))
    db.execute("INSERT INTO bisect_pairs VALUES (?, ?, ?, ?, ?)", row)


def pairs(db: Database, campaign: str) -> list[PairPlan]:
    """By number."""
    rows = db.execute(
        "SELECT number, position, slot_order, pauses FROM bisect_pairs WHERE campaign = ? ORDER BY number", (campaign,)
    )
    with damage.reading_row("bisect_pairs", campaign):
        return [
            codec.build(PairPlan, {"number": n, "position": p, "order": o, "pauses": json.loads(s)})
            for n, p, o, s in rows
        ]


def insert_build(db: Database, campaign: str, build: CandidateBuild) -> None:
    """The latest one counts: a resumed search builds again."""
    row = (campaign, build.position, build.status, codec.pack(build).text)
    db.execute("INSERT OR REPLACE INTO bisect_builds VALUES (?, ?, ?, ?)", row)


def builds(db: Database, campaign: str) -> list[CandidateBuild]:
    """By position."""
    rows = db.execute("SELECT document FROM bisect_builds WHERE campaign = ? ORDER BY position", (campaign,))
    with damage.reading_row("bisect_builds", campaign):
        return [codec.build(CandidateBuild, damage.mapping(codec.unpack(text), "document")) for (text,) in rows]


def insert_link(db: Database, campaign: str, link: BisectLink) -> None:
    row = (campaign, link.other, link.role, link.before, link.after)
    db.execute("INSERT INTO bisect_links VALUES (?, ?, ?, ?, ?)", row)


def links(db: Database, campaign: str) -> list[BisectLink]:
    """In the order they were started."""
    rows = db.execute(
        "SELECT role, other, before_position, after_position FROM bisect_links WHERE campaign = ? ORDER BY rowid",
        (campaign,),
    )
    return [BisectLink(role=r, other=o, before=b, after=a) for r, o, b, a in rows]


def with_linked(db: Database, campaigns: list[str]) -> list[str]:
    """And those that they started, each once: a bisect is not whole without its confirmations."""
    found = list(dict.fromkeys(campaigns))
    for campaign in found:  # grows while it is walked
        found += [link.other for link in links(db, campaign) if link.other not in found]
    stored = {str(row[0]) for row in db.execute("SELECT id FROM campaigns")}
    return [one for one in found if one in stored]
