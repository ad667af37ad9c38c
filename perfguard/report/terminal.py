"""Reports for a terminal, or for a pipe: at most 100 columns there, whole lines and no colour here.

Foreign text only ever reaches rich as Text, which knows no markup. Nothing is cut: what is too long goes on in
the next line.
"""

import io
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TextIO

from rich.console import Console
from rich.table import Table
from rich.text import Text

from perfguard import changes
from perfguard.records import Trial
from perfguard.report import foreign, machine, next_step, outcomes, speculate, strips, units

MAX_COLUMNS = 100
# Into a file or a pipe no line is broken: width belongs to whoever reads it.
_UNBOUNDED = 100_000


def open_console(stream: TextIO | None = None) -> Console:
    """A console on `stream` (standard output). NO_COLOR, FORCE_COLOR and TERM=dumb are honoured."""
    out = stream or sys.stdout or io.StringIO()  # where stdout is closed nobody reads
    if hasattr(out, "reconfigure"):
        # A terminal that cannot show a sign shows its number; a report never dies of it.
        out.reconfigure(errors="backslashreplace")
    console = Console(file=out, highlight=False, markup=False, emoji=False)
    console.width = min(console.width, MAX_COLUMNS) if out.isatty() else _UNBOUNDED
    return console


def render_comparison(comparison: Mapping[str, Any], trials: Sequence[Trial], console: Console) -> None:
    """The verdict in one sentence, then what it rests on, then what to do next."""
    engine = outcomes.engine(comparison)
    for line in engine[:1]:  # before the verdict: it may be all there is to know
        _line(console, line, "bold")
    _line(console, outcomes.headline(comparison), outcomes.style(str(comparison["outcome"])))
    for line in engine[1:]:
        _line(console, line)
    console.print()
    _sides(comparison, console)
    _metrics(comparison, console)
    _speculation(comparison, console)
    for strip in strips.strips(comparison, trials):
        _plot(strip, console)
    _machine(comparison, console)
    for reason in outcomes.reasons(comparison):
        _line(console, reason, "yellow")
    _line(console, outcomes.counts(comparison))
    if cached := outcomes.cached_builds(comparison):
        _line(console, cached)
    if (scope := outcomes.scope(comparison)) != "full":
        _line(console, f"Scope: {scope}" + ("." if ";" in scope else "; a full run was not measured."))
    _conclusions(comparison, console)


def _sides(comparison: Mapping[str, Any], console: Console) -> None:
    for side, what in outcomes.sides(comparison).items():
        _line(console, f"{side}  {what}")
    if comparison.get("claimed"):
        claimed = ", ".join(f"{key} {item}" for key, item in comparison["claimed"].items())
        _line(console, f"claimed  {claimed}")
    console.print()


def _metrics(comparison: Mapping[str, Any], console: Console) -> None:
    table = _table(outcomes.COLUMNS, right=("base", "head", "slowdown", "95 % interval", "margin", "p"))
    for metric in comparison["metrics"]:
        cells = outcomes.metric_cells(metric, comparison.get("margin"))
        table.add_row(*(_text(cell) for cell in cells[:-1]), _text(cells[-1], outcomes.style(metric["outcome"])))
    console.print(table)
    if any(metric.get("slowdown") is not None for metric in comparison["metrics"]):
        _line(console, changes.LEGEND, "dim")
    if any(changes.points_otherwise(metric) for metric in comparison["metrics"]):
        _line(console, changes.OTHERWISE, "dim")
    console.print()


def _speculation(comparison: Mapping[str, Any], console: Console) -> None:
    lines = outcomes.speculation(comparison)
    for line in lines:
        _line(console, line)
    for columns, rows in speculate.tables(comparison):
        console.print()
        render_rows(columns, rows, console)
    if lines:
        console.print()


def _plot(strip: strips.Strip, console: Console) -> None:
    for line in strips.text_lines(strip):
        _line(console, line)
    console.print()


def _machine(comparison: Mapping[str, Any], console: Console) -> None:
    """Conditions by trial and arm; machines that moved are told of apart from the verdict."""
    for line in machine.plot_lines(comparison):
        _line(console, line)
    rows = machine.gate_rows(comparison)
    if rows:
        render_rows(machine.GATE_COLUMNS, rows, console)
    for line in machine.lines(comparison):
        _line(console, line)
    for notice in machine.notices(comparison):
        _line(console, notice, "yellow")
    if machine.lines(comparison):
        console.print()


def _conclusions(comparison: Mapping[str, Any], console: Console) -> None:
    conclusions = comparison.get("conclusions", {})
    if conclusions:
        console.print()
        _line(console, f"What can be concluded: {conclusions['can']}")
        _line(console, f"What cannot: {conclusions['cannot']}")
    render_next(str(comparison.get("next") or ""), console)


def render_next(advice: str, console: Console) -> None:
    """A command, and on lines of their own what else to do. A command is not cut and not folded: it is to be copied."""
    for number, line in enumerate(next_step.lines(advice)):
        text = Text(foreign.one_line(f"{'next:' if number == 0 else '     '} {line}"), style="bold")
        console.print(text, soft_wrap=True)


def render_builds(rows: Sequence[Mapping[str, Any]], folder: str, console: Console) -> None:
    """`rows`: entries of the cache of builds, see perfguard.subject.kept.Entry, with `used_at`."""
    if not rows:
        _line(console, f"The cache of builds in {folder} is empty.")
        return
    table = _table(("commit", "built (UTC)", "used (UTC)", "setup took", "size", "setup"), right=("setup took", "size"))
    for row in rows:
        times = (str(row[name])[:16].replace("T", " ") for name in ("built_at", "used_at"))
        about, size = row["about"], units.value(row["size_bytes"], "bytes")
        cells = (about.get("commit", "")[:12], *times, units.duration(row["setup_s"]), size, about.get("setup", ""))
        table.add_row(*map(_text, cells))
    console.print(table)
    total = units.value(sum(row["size_bytes"] for row in rows), "bytes")
    _line(console, f"{len(rows)} builds, {total}, in {folder}")


def render_rows(columns: Sequence[str], rows: Iterable[Sequence[object]], console: Console) -> None:
    """A plain table."""
    table = _table(columns)
    for row in rows:
        table.add_row(*map(_text, row))
    console.print(table)


def render_styled(
    columns: Sequence[str],
    rows: Sequence[Sequence[object]],
    styles: Mapping[int, Sequence[str]],
    console: Console,
    right: Sequence[str] = (),
) -> None:
    """A table some of whose columns (by place) have a style a row, see `outcomes.style`."""
    table = _table(columns, right)
    for number, row in enumerate(rows):
        table.add_row(*(_text(cell, styles[k][number] if k in styles else "") for k, cell in enumerate(row)))
    console.print(table)


def render_text(text: str, console: Console) -> None:
    """One paragraph of plain text."""
    _line(console, text)


def render_facts(facts: Mapping[str, object], console: Console) -> None:
    """Names and values, one a line, names aligned."""
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, fact in facts.items():
        table.add_row(_text(name), _text(fact))
    if console.width < _UNBOUNDED:
        console.print(table)
        return
    names = max(map(len, facts), default=0)  # into a file or pipe: not filled up to the longest line
    for name, fact in facts.items():
        _line(console, f"{name:{names}}  {fact}")


def _table(columns: Sequence[str], right: Sequence[str] = ()) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    for name in columns:
        table.add_column(name, justify="right" if name in right else "left", overflow="fold")
    return table


def _text(content: object, style: str = "") -> Text:
    return Text(foreign.one_line(content), style=style, overflow="fold")


def _line(console: Console, content: str, style: str = "") -> None:
    console.print(_text(content, style))
