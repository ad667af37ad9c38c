"""One value read from a machine, or why it could not be read. Pure; imports nothing of perfguard."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

Status = Literal["value", "not_supported", "no_permission", "error"]
Plain = int | float | str | bool | list[Any] | None


@dataclass(frozen=True, kw_only=True)
class Reading:
    """`value` is None unless `status` is "value": what is unknown is never 0. `why` is for people.

    not_supported: this card, driver or system cannot tell. no_permission: this user may not ask. error: the question
    failed. Whether an answer can be believed is not for one reading to tell.
    """

    value: Plain = None
    status: Status = "value"
    why: str = ""

    @property
    def is_known(self) -> bool:
        return self.status == "value"


def unknown(status: Status, why: str) -> Reading:
    return Reading(status=status, why=why)


def to_json(reading: Reading) -> Any:
    """The plain value, or {"unknown": status, "why": text}."""
    return reading.value if reading.is_known else {"unknown": reading.status, "why": reading.why}


def from_json(stored: Any) -> Reading:
    """The inverse of `to_json`. What was stored by nobody (None) is an error, not a value."""
    if stored is None:
        return unknown("error", "nothing was stored")
    if not isinstance(stored, Mapping):
        return Reading(value=stored)
    status = stored.get("unknown")
    known: Status = next((name for name in get_args(Status) if name == status and name != "value"), "error")
    return unknown(known, str(stored.get("why", "")))


def readings_to_json(readings: Mapping[str, Reading]) -> dict[str, Any]:
    return {name: to_json(reading) for name, reading in readings.items()}


def readings_from_json(stored: Mapping[str, Any]) -> dict[str, Reading]:
    return {name: from_json(value) for name, value in stored.items()}
