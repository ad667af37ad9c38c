"""`perfguard ack`: a change that was found and is accepted until a day. It stays found; it is not red until then."""

from collections.abc import Mapping
from datetime import UTC, date, datetime
from typing import Any

from perfguard.errors import UsageError
from perfguard.nightly.suspecting import is_same_change
from perfguard.store import Ack, Store


def acknowledge(wanted: str, until: str, reason: str, store: Store, now: datetime) -> Ack:
    """Store it. `wanted`: a comparison that ended REGRESSION, or the bisect that it started. Raises UsageError."""
    day = _day(until)
    if day < now.astimezone(UTC).date():
        raise UsageError(f"--until {until} is over already", "perfguard ack ID --until 2027-01-31 --reason TEXT")
    if not reason.strip():
        raise UsageError("no reason: who reads this in a month will want one", '--reason "INT8 costs 3 %"')
    ack = Ack(
        campaign=_comparison_id(wanted, store),
        acked_at=now.isoformat(timespec="seconds"),
        until=day.isoformat(),
        reason=reason,
    )
    store.nights.add_ack(ack)
    return ack


def _day(until: str) -> date:
    try:
        return date.fromisoformat(until)
    except ValueError:
        raise UsageError(f"--until {until!r} is not a day", "--until 2027-01-31") from None


def _comparison_id(wanted: str, store: Store) -> str:
    campaign = store.campaign(wanted)
    if campaign.kind == "bisect":
        own = [one.campaign for one in store.nights.suspicions() if one.bisect == campaign.id and one.campaign]
        if not own:
            raise UsageError(f"{campaign.id} was started by no night", "perfguard ack ID of a comparison")
        campaign = store.campaign(own[0])
    verdict = store.latest_verdict(campaign.id)
    if campaign.kind != "compare" or verdict is None or verdict["outcome"] != "REGRESSION":
        ended = "has no verdict" if verdict is None else f"ended {verdict['outcome']}"
        raise UsageError(f"{campaign.id} {ended}; only a REGRESSION can be accepted", "perfguard runs")
    return campaign.id


def accepted_by(comparison: Mapping[str, Any], store: Store, now: datetime) -> Ack | None:
    """The ack that covers what this comparison accuses, on this day (UTC); None if none does."""
    today = now.astimezone(UTC).date().isoformat()
    for ack in reversed(store.nights.acks()):
        if ack.until >= today:
            known = store.latest_verdict(ack.campaign)
            if known is not None and is_same_change(known, comparison):
                return ack
    return None
