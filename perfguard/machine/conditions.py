"""What was seen around a launch -> `record["conditions"]` of its trials: plain JSON data. Pure.

Times count from the moment the measured part began, negative before it, so that the state under load can be told
from that of a load or of an idle card. Must not judge.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from perfguard.machine.telemetry import Recording

# Hundredths of a second: far below the interval of any sensor.
DIGITS = 2


@dataclass(frozen=True, kw_only=True)
class Around:
    """Everything about one launch. `zero_s`: the monotonic moment its measured part began (its start, if it never did).

    `host_before`, `host_after`: field -> JSON. `clocks`: wish and result. `is_ready`: there was a measured part.
    `note`: what is to be said of the choice of cards.
    """

    recording: Recording
    note: str
    zero_s: float
    is_ready: bool
    host_before: Mapping[str, Any]
    host_after: Mapping[str, Any]
    clocks: Mapping[str, Any]


def conditions_json(around: Around) -> dict[str, Any]:
    """{"gpus": {uuid: {"before", "after", "during"}}, "host": {"before", "after"}, "telemetry": {...}, "clocks": {...}}

    A card that was seen only before has only that.
    """
    seen = around.recording
    zero = "ready" if around.is_ready else "start"
    return {
        "gpus": {uuid: _card(seen, uuid, around.zero_s) for uuid in seen.before},
        "host": {"before": dict(around.host_before), "after": dict(around.host_after)},
        "telemetry": {"status": seen.status, "why": seen.why or around.note, "zero": zero},
        "clocks": dict(around.clocks),
    }


def _card(seen: Recording, uuid: str, zero_s: float) -> dict[str, Any]:
    card: dict[str, Any] = {"before": seen.before[uuid]}
    if uuid in seen.after:
        card["after"] = seen.after[uuid]
    if uuid in seen.during:
        card["during"] = _during(seen.during[uuid], zero_s)
    return card


def _during(told: Mapping[str, Any], zero_s: float) -> dict[str, Any]:
    fields = {
        name: [[_rounded(time_s - zero_s), value] for time_s, value in samples]
        for name, samples in told["fields"].items()
    }
    ends = {name: _rounded(told[name] - zero_s) for name in ("from_s", "until_s")}
    return {**told, **ends, "fields": fields}


def _rounded(time_s: float) -> float:
    return round(time_s, DIGITS) + 0.0  # never -0.0
