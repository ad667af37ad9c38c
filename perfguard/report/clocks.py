"""GPU clocks for a terminal: `perfguard clocks`."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console

from perfguard.report import terminal, units

COLUMNS = ("GPU", "SM now", "SM max", "memory now", "application", "locked by perfguard")


def render_clocks(result: Mapping[str, Any], console: Console) -> None:
    """`result` follows perfguard/clocks@1."""
    if result["action"] == "show":
        _show(result, console)
    elif result["action"] == "lock":
        told = {uuid: _setting(setting) + _note(result, uuid) for uuid, setting in result["locked"].items()}
        terminal.render_facts({**told, "until:": "perfguard clocks restore"}, console)
    else:
        done = dict.fromkeys(result["restored"], "restored")
        failed = {uuid: f"not restored: {why}" for uuid, why in result["failed"].items()}
        nothing = {"nothing to restore:": "perfguard has left no clocks changed here"}
        terminal.render_facts({**done, **failed} or nothing, console)


def _show(result: Mapping[str, Any], console: Console) -> None:
    if result["why"]:
        terminal.render_text(f"no GPU: {result['why']}", console)
    rows = [_row(uuid, fields, result["locked"].get(uuid)) for uuid, fields in result["gpus"].items()]
    if rows:
        terminal.render_rows(COLUMNS, rows, console)
    if result["locked"]:
        terminal.render_facts({"put back with:": "perfguard clocks restore"}, console)
    for user in result["users"]:
        words = f"by user {user}, who or root can run perfguard clocks restore"
        terminal.render_facts({"left locked:": words}, console)


def _row(uuid: str, fields: Mapping[str, Any], locked: Mapping[str, Any] | None) -> Sequence[str]:
    application = [_mhz(fields.get(f"{part}_clock_application_mhz")) for part in ("sm", "memory")]
    return (
        f"{_known(fields.get('name'))} {uuid[:12]}",
        _mhz(fields.get("sm_clock_mhz")),
        _mhz(fields.get("sm_clock_max_mhz")),
        _mhz(fields.get("memory_clock_mhz")),
        application[0] if len(set(application)) == 1 else " / ".join(application),
        _by(locked),
    )


def _by(locked: Mapping[str, Any] | None) -> str:
    if locked is None:
        return "no"
    rest = "kept" if locked["is_kept"] else "not put back yet"
    return f"{_setting(locked)}, {rest}, {locked['at'][:16]}"


def _setting(setting: Mapping[str, Any]) -> str:
    memory = "" if setting["memory_mhz"] is None else f", memory {setting['memory_mhz']} MHz"
    return f"SM {setting['sm_mhz']} MHz{memory}"


def _note(result: Mapping[str, Any], uuid: str) -> str:
    note = result["notes"].get(uuid)
    return f" ({note})" if note else ""


def _mhz(value: Any) -> str:
    return f"{value} MHz" if isinstance(value, int | float) else _known(value)


def _known(value: Any) -> str:
    """What could not be read says why in a word, never 0."""
    if isinstance(value, Mapping):
        return str(value.get("unknown", units.MISSING)).replace("_", " ")
    return units.MISSING if value is None else str(value)
