"""What is stored, as a table for a terminal: one campaign a line, at most 100 columns, 80 where there are no more.

Formats; decides nothing. Ids are never cut: they are what the next command needs.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console

from perfguard.report import foreign, outcomes, terminal

WIDE = ("id", "kind", "workload", "base", "head", "outcome", "ok/all")
# What a terminal of 80 columns has room for; `perfguard show ID` has the rest.
NARROW = ("id", "kind", "base", "head", "outcome", "ok/all")
SIDE = {WIDE: 14, NARROW: 11}
WORKLOAD = 14
SHORT, COMMIT = 7, 12


def render_runs(rows: Sequence[Mapping[str, Any]], console: Console) -> None:
    """`rows`: overviews of stored campaigns as mappings, see perfguard.store.CampaignOverview; newest first."""
    if not rows:
        terminal.render_text("Nothing is stored yet.", console)
        terminal.render_next("perfguard compare HEAD~1 HEAD -- python bench.py", console)
        return
    columns = WIDE if console.width >= terminal.MAX_COLUMNS else NARROW
    styles = [outcomes.style(_outcome(row)) for row in rows]
    cells = [tuple(_cells(row, SIDE[columns])[name] for name in columns) for row in rows]
    terminal.render_styled(columns, cells, {columns.index("outcome"): styles}, console, right=("ok/all",))


def _cells(row: Mapping[str, Any], width: int) -> dict[str, str]:
    num_ok = int(row["num_ok"])
    num_all = num_ok + sum(int(row[f"num_{name}"]) for name in ("invalid", "crashed", "timed_out"))
    outcome = _outcome(row)
    return {
        "id": str(row["id"]),
        "kind": str(row["kind"]),
        "workload": foreign.shortened(str(row["workload"]), WORKLOAD),
        "base": _revision(row, "base", width),
        "head": _revision(row, "head", width),
        "outcome": outcomes.signed(outcome) if row["outcome"] else outcome,
        "ok/all": f"{num_ok}/{num_all}",
    }


def _outcome(row: Mapping[str, Any]) -> str:
    return str(row["outcome"]) or str(row["status"])


def _revision(row: Mapping[str, Any], side: str, width: int) -> str:
    """The name as it was typed, and the commit it meant then where there is room for both."""
    name, commit = str(row[side]), str(row[f"{side}_commit"])
    if commit.startswith(name):
        return name[: min(width, COMMIT)]
    both = f"{name} {commit[:SHORT]}"
    return both if len(both) <= width else foreign.shortened(name, width)
