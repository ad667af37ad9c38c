"""Queries on campaigns, arms, blocks and verdicts: rows in, records out. Opens no file and ends no transaction."""

import difflib
import json
from collections.abc import Mapping, Sequence
from dataclasses import fields
from datetime import UTC, datetime
from typing import Any

from sqlite_utils import Database

from perfguard import __version__
from perfguard.errors import UsageError
from perfguard.records import Arm, BlockPlan, Campaign, Extension
from perfguard.store import codec, content, damage
from perfguard.store.rows import CampaignOverview, MachineOverview, StoredVerdict


def insert(db: Database, campaign: Campaign) -> None:
    """The campaign with its arms, status "running"."""
    packed = codec.pack(campaign)
    document = codec.dump({key: item for key, item in json.loads(packed.text).items() if key != "arms"})
    db.execute(
        "INSERT INTO campaigns VALUES (?, ?, ?, 'running', ?, ?, ?, ?, ?)",
        (
            campaign.id,
            campaign.kind,
            campaign.created_at,
            codec.shown(campaign.workload.name),
            campaign.scope,
            codec.shown(campaign.repository),
            codec.digest(campaign.machine),
            document,
        ),
    )
    content.add(db, campaign.id, packed)
    for position, arm in enumerate(campaign.arms):
        _insert_arm(db, campaign.id, position, arm)


def _insert_arm(db: Database, campaign: str, position: int, arm: Arm) -> None:
    revision = arm.revision
    texts = [codec.shown(t) for t in (revision.name, revision.commit, revision.tree, revision.subject)]
    db.execute(
        "INSERT INTO arms VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (campaign, position, arm.side, *texts, revision.is_dirty, codec.pack(arm).text),
    )


def overviews(db: Database, limit: int, workload: str | None, kind: str | None) -> list[CampaignOverview]:
    """Newest first."""
    ids = db.execute(
        "SELECT id FROM campaigns WHERE workload = coalesce(?, workload) AND kind = coalesce(?, kind) "
        "ORDER BY created_at DESC, rowid DESC LIMIT ?",
        (None if workload is None else codec.shown(workload), kind, limit),
    ).fetchall()
    rows = (next(iter(db.query("SELECT * FROM campaigns_overview WHERE id = ?", one))) for one in ids)
    return [CampaignOverview(**row) for row in rows]


def load(db: Database, campaign: str) -> Campaign:
    """`campaign` is a whole id, see `resolve`."""
    read = content.loader(db)

    def plain(text: str) -> dict[str, Any]:
        restored: dict[str, Any] = codec.unpack(text, read)
        return restored

    text = db.execute("SELECT document FROM campaigns WHERE id = ?", (campaign,)).fetchone()[0]
    arms = db.execute("SELECT document FROM arms WHERE campaign = ? ORDER BY position", (campaign,))
    with damage.reading_row("arms", campaign):
        sides = [damage.mapping(plain(document), "document") for (document,) in arms]
    with damage.reading_row("campaigns", campaign):
        return codec.build(Campaign, {**damage.mapping(plain(text), "document"), "arms": sides})


def resolve(db: Database, wanted: str) -> str:
    """The one id that is, or begins with, `wanted`; the last one created for "latest".

    A control belongs to its calibration and is never the latest: its planted slowdown is no news. What a bisect
    started belongs to the bisect, a question of a search to the search.

    Raises UsageError, naming near ids, when there is none or more than one.
    """
    if wanted == "latest":
        row = db.execute(
            "SELECT id FROM campaigns c WHERE kind != 'control' AND id NOT IN (SELECT other FROM bisect_links) "
            "AND NOT EXISTS (SELECT 1 FROM campaigns s WHERE s.kind = 'search' AND c.id LIKE s.id || '-q%') "
            "ORDER BY created_at DESC, rowid DESC LIMIT 1"
        ).fetchone()
        if row is None:
            raise UsageError("nothing is stored yet", "perfguard compare HEAD~1 HEAD -- python bench.py")
        return str(row[0])
    ids = [str(row[0]) for row in db.execute("SELECT id FROM campaigns ORDER BY created_at, rowid")]
    found = [wanted] if wanted in ids else [one for one in ids if wanted and one.startswith(wanted)]
    if len(found) == 1:
        return found[0]
    if found:
        raise UsageError(f"{len(found)} stored results begin with {wanted!r}: {_listed(found)}", "perfguard runs")
    near = difflib.get_close_matches(wanted, ids, n=3, cutoff=0.4)
    hint = f"; near it: {_listed(near)}" if near else ""
    raise UsageError(f"no stored result has the id {wanted!r}{hint}", "perfguard runs")


def _listed(ids: Sequence[str]) -> str:
    more = f" and {len(ids) - 5} more" if len(ids) > 5 else ""
    return ", ".join(ids[:5]) + more


def all_ids(db: Database) -> list[str]:
    """In the order they were stored."""
    return [str(row[0]) for row in db.execute("SELECT id FROM campaigns ORDER BY rowid")]


def what_is_stored(db: Database, campaign: str) -> str:
    """For the message of a failed write; "" when the campaign is not there."""
    counts = db.execute(
        "SELECT (SELECT count(*) FROM trials WHERE campaign = c.id), "
        "(SELECT count(*) FROM blocks WHERE campaign = c.id) FROM campaigns c WHERE c.id = ?",
        (campaign,),
    ).fetchone()
    return f"stored and safe: campaign {campaign} with {counts[0]} trials of {counts[1]} blocks" if counts else ""


def status(db: Database, campaign: str) -> str:
    return str(db.execute("SELECT status FROM campaigns WHERE id = ?", (campaign,)).fetchone()[0])


def set_status(db: Database, campaign: str, status: str) -> None:
    db.execute("UPDATE campaigns SET status = ? WHERE id = ?", (status, campaign))


def insert_blocks(db: Database, campaign: str, plans: Sequence[BlockPlan]) -> None:
    for plan in plans:
        db.execute(
            "INSERT INTO blocks VALUES (?, ?, ?, ?, ?, ?)",
            (campaign, plan.stage, plan.index, plan.order, plan.builds, codec.dump(plan.pauses)),
        )


def blocks(db: Database, campaign: str) -> list[BlockPlan]:
    """In the order they were planned."""
    rows = db.execute(
        "SELECT stage, block, slot_order, builds, pauses FROM blocks WHERE campaign = ? ORDER BY rowid",
        (campaign,),
    )
    with damage.reading_row("blocks", campaign):
        return [
            codec.build(BlockPlan, {"stage": s, "index": b, "order": o, "builds": u, "pauses": json.loads(p)})
            for s, b, o, u, p in rows
        ]


def insert_extension(db: Database, campaign: str, extension: Extension) -> None:
    names = [field.name for field in fields(Extension)]
    marks = ", ".join("?" * (1 + len(names)))
    numbers = [getattr(extension, name) for name in names]
    db.execute(f"INSERT INTO extensions (campaign, {', '.join(names)}) VALUES ({marks})", (campaign, *numbers))


def extensions(db: Database, campaign: str) -> list[Extension]:
    """By number."""
    names = ", ".join(field.name for field in fields(Extension))
    rows = db.query(f"SELECT {names} FROM extensions WHERE campaign = ? ORDER BY number", (campaign,))
    return [Extension(**row) for row in rows]


def insert_verdict(db: Database, campaign: str, document: Mapping[str, Any]) -> None:
    number = (
        1 + db.execute("SELECT coalesce(max(number), 0) FROM verdicts WHERE campaign = ?", (campaign,)).fetchone()[0]
    )
    now, outcome = datetime.now(UTC).isoformat(), str(document.get("outcome", ""))
    row = (campaign, number, now, __version__, outcome, codec.inline(document))
    db.execute("INSERT INTO verdicts VALUES (?, ?, ?, ?, ?, ?)", row)


def verdicts(db: Database, campaign: str) -> list[StoredVerdict]:
    """Oldest first."""
    rows = db.execute(
        "SELECT number, created_at, perfguard, outcome, document FROM verdicts WHERE campaign = ? ORDER BY number",
        (campaign,),
    )
    found = []
    for number, created_at, version, outcome, text in rows:
        with damage.reading_row("verdicts", f"{campaign} number {number}"):
            document = damage.mapping(codec.unpack(text), "document")
        found.append(
            StoredVerdict(number=number, created_at=created_at, perfguard=version, outcome=outcome, document=document)
        )
    return found


def verdict_stamps(db: Database) -> dict[str, str]:
    """Campaign -> number and time of its latest verdict, as one text."""
    rows = db.execute("SELECT campaign, max(number), created_at FROM verdicts GROUP BY campaign")
    return {str(campaign): f"{number} {created_at}" for campaign, number, created_at in rows}


def machines(db: Database) -> list[MachineOverview]:
    """The one measured on last comes first."""
    rows = db.execute(
        "SELECT machine, count(*), min(created_at), max(created_at) FROM campaigns GROUP BY machine "
        "ORDER BY max(created_at) DESC"
    ).fetchall()
    found = []
    for machine, count, first, last in rows:
        newest = "SELECT id FROM campaigns WHERE machine = ? ORDER BY created_at DESC LIMIT 1"
        campaign = db.execute(newest, (machine,)).fetchone()[0]
        facts = load(db, campaign).machine
        found.append(MachineOverview(id=machine, num_campaigns=count, first_at=first, last_at=last, facts=facts))
    return found
