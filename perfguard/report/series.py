"""A history in a terminal: each series as a line of blocks, its change points and notices below it.

Takes the JSON of a history (schema perfguard/history@1), so that a stored one and a fresh one look the same.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from perfguard import changes
from perfguard.report import foreign, units
from perfguard.report.bars import bars

# Cells of a sparkline; with its ends a line stays below 100 columns.
CELLS = 72


def render_history(history: Mapping[str, Any], console: Console) -> None:
    """Newest right. A mark below a series stands under the first night of a new level."""
    if not history["series"]:
        _line(console, "No nights are stored yet. next: perfguard nightly")
    for series in history["series"]:
        for content, style in _lines(series):
            _line(console, content, style)
        console.print()


def _lines(series: Mapping[str, Any]) -> list[tuple[str, str]]:
    nights = series["nights"]
    values = [value for _, _, value in nights]
    name = f"{series['workload']} {series['metric']}".strip()
    machine = f", machine {series['machine'][:12]}" if series["machine"] else ""
    head = f"{name}  ({units.counted(len(values), 'night')}, {nights[0][0][:10]} to {nights[-1][0][:10]}{machine})"
    ends = f"{units.number(min(values))} to {units.number(max(values))}"
    lines = [(head, "bold"), (f"  {sparkline(values)}  {ends}", "")]
    changes = series["change_points"]
    if changes:
        lines.append((f"  {_marks(len(values), [change['index'] for change in changes])}", ""))
    lines += [(f"  ▲ {_told(change, series['better'])}", "yellow") for change in changes]
    lines += [(f"  ! {notice}", "magenta") for notice in series["notices"]]
    return lines if changes else [*lines, ("  no change point", "")]


def sparkline(values: Sequence[float]) -> str:
    """One block a cell; in a long series the median of each cell's nights."""
    cells = [sorted(values[start:end]) for start, end in _cells(len(values))]
    medians = [cell[len(cell) // 2] for cell in cells]
    return bars(medians, min(medians), max(medians))


def _cells(count: int) -> list[tuple[int, int]]:
    width = min(count, CELLS)
    bounds = [round(cell * count / width) for cell in range(width + 1)]
    return [(bounds[i], bounds[i + 1]) for i in range(width)]


def _marks(count: int, indices: Sequence[int]) -> str:
    cells = _cells(count)
    return "".join("▲" if any(start <= index < end for index in indices) else " " for start, end in cells).rstrip()


def _told(change: Mapping[str, Any], better: str) -> str:
    slowdown = changes.slowdown(change["before"], change["after"], better)
    direction = "worse" if slowdown > 1 else "better"
    commits = f"{change['last_good'][:12]}..{change['commit'][:12]}"
    levels = f"{units.number(change['before'])} → {units.number(change['after'])}"
    return f"{change['time'][:10]}  {levels}  slowdown {changes.signed(slowdown)} ({direction})  {commits}"


def _line(console: Console, content: str, style: str = "") -> None:
    console.print(Text(foreign.one_line(content), style=style, overflow="fold"))
