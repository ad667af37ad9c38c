"""A sweep for a terminal and as Markdown: the ranking with its groups. Pure but for the console it is given."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console

from perfguard.report import foreign, outcomes, terminal, units

COLUMNS = ("rank", "setting", "median", "against the best", "95 % interval", "rounds", "group")
GROUPS = {"best": "best", "slower": "slower", "invalid": "⊘ INVALID"}


def render_sweep(result: Mapping[str, Any], console: Console) -> None:
    """`result` follows perfguard/sweep@1."""
    terminal.render_facts({"result": outcomes.headline(result), "ended": result["ended"], "id": result["id"]}, console)
    console.print()
    terminal.render_rows(COLUMNS, rows(result), console)
    console.print()
    for text in notes(result):
        terminal.render_facts({"note": text}, console)


def sweep_markdown(result: Mapping[str, Any]) -> str:
    """The same for an issue or a wiki."""
    lines = [f"**{foreign.markdown(outcomes.headline(result))}**", "", _line(COLUMNS), _line(["---"] * len(COLUMNS))]
    lines += [_line([foreign.markdown(cell) for cell in row]) for row in rows(result)]
    told = [f"- {foreign.markdown(text)}" for text in notes(result)]
    return "\n".join([*lines, "", *told]).rstrip() + "\n"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def rows(result: Mapping[str, Any]) -> list[tuple[str, ...]]:
    return [_cells(row, result["metric"]["unit"], is_first=k == 0) for k, row in enumerate(result["settings"])]


def _cells(row: Mapping[str, Any], unit: str, *, is_first: bool) -> tuple[str, ...]:
    against = (units.MISSING, units.MISSING) if is_first else _against(row)
    return (
        units.MISSING if row["rank"] is None else str(row["rank"]),
        row["setting"],
        units.value(row["median"], unit),
        *against,
        str(row["rounds"]),
        GROUPS[row["status"]],
    )


def _against(row: Mapping[str, Any]) -> tuple[str, str]:
    return units.slowdown(row["slowdown"]), units.interval(row["ci_low"], row["ci_high"])


def notes(result: Mapping[str, Any]) -> list[str]:
    """Why settings did not run, what the slowdowns mean, and what a person can do next."""
    broken = [
        f"{row['setting']}: {reason['code']}: {reason['text']}"
        for row in result["settings"]
        if row["status"] == "invalid"
        for reason in row["reasons"]
    ]
    about = f"ranked by {result['metric']['name']}; + is slower than the first. Groups are tested, intervals describe."
    unsettled = [f"to go on: a new sweep of {_names(result)}"] if result["outcome"] == "INCONCLUSIVE" else []
    return [*broken, about, *unsettled]


def _names(result: Mapping[str, Any]) -> str:
    return "; ".join(row["setting"] for row in result["settings"] if row["status"] == "best")
