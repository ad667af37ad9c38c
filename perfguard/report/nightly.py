"""A night in a terminal: one line a workload, then searches, what waits for the next night, and the machine.

Takes the JSON of a night (schema perfguard/nightly@1).
"""

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.text import Text

from perfguard.report import foreign, machine, outcomes, units


def render_night(night: Mapping[str, Any], console: Console) -> None:
    """The night's sentence first."""
    head = night["head"]
    _line(console, f"Night of {night['started_at'][:16].replace('T', ' ')} UTC, {_named(head)}", "bold")
    _line(console, night["sentence"])
    console.print()
    for entry in night["workloads"]:
        _line(console, _workload(entry), outcomes.style(str(entry["outcome"])) if not entry["acked"] else "")
        if entry["acked"]:
            ack = entry["acked"]
            _line(console, f"  accepted until {ack['until']}: {ack['reason']}")
    for search in night["searches"]:
        found = f": {search['sentence']}" if search["sentence"] else ""
        ended = f"  search of {search['workload']} {search['good'][:12]}..{search['bad'][:12]} {search['bisect']}"
        _line(console, f"{ended}  {outcomes.signed(search['outcome'])}{found}", outcomes.style(search["outcome"]))
    for one in night["waiting"]:
        _line(
            console, f"  filed for the next night: {one['workload']} {one['cause']}: {_bisect_command(one)}", "yellow"
        )
    for notice in night["notices"]:
        _line(console, f"  ! {machine.marked(notice['text'])}", "magenta")


def _named(head: Mapping[str, Any]) -> str:
    return f"{head['revision']} {head['commit'][:12]} {head['subject']}".strip()


def _workload(entry: Mapping[str, Any]) -> str:
    if entry["outcome"] is None:
        return f"  {entry['name']}: {entry['state']}: {entry['sentence']}"
    found = [
        f"{m['name']} {units.slowdown(m['slowdown'])} ({units.interval(m['ci_low'], m['ci_high'])})"
        for m in entry["metrics"]
        if m["primary"] and m["slowdown"] is not None
    ]
    against = f"against {entry['pin']['commit'][:12]}"
    return f"  {outcomes.signed(entry['outcome'])}  {entry['name']} {against}  {'; '.join(found)}  {entry['campaign']}"


def _bisect_command(one: Mapping[str, Any]) -> str:
    if one["bisect"]:
        return f"perfguard bisect --resume {one['bisect']}"
    return f"perfguard bisect {one['good'][:12]} {one['bad'][:12]} -w {one['workload']}"


def _line(console: Console, content: str, style: str = "") -> None:
    console.print(Text(foreign.one_line(content), style=style, overflow="fold"))
