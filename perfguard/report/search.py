"""A search by experiment for a terminal and as Markdown: what makes the difference, and what was asked for it."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console

from perfguard.report import foreign, outcomes, terminal, units

FACTORS = ("factor", "in A", "in B", "verdict")
QUESTIONS = ("question", "kind", "base as in A", "head as in A", "outcome", "slowdown", "trials")


def render_search(result: Mapping[str, Any], console: Console) -> None:
    """`result` follows perfguard/search@1."""
    terminal.render_facts(facts(result), console)
    console.print()
    terminal.render_rows(FACTORS, factors(result), console)
    console.print()
    terminal.render_rows(QUESTIONS, questions(result), console)
    if result["next"]:
        terminal.render_next(result["next"], console)


def search_markdown(result: Mapping[str, Any]) -> str:
    """The same for an issue or a wiki."""
    head = [f"**{foreign.markdown(outcomes.headline(result))}**", ""]
    told = [f"- {name}: {foreign.markdown(text)}" for name, text in facts(result).items() if name != "result"]
    return "\n".join([*head, *told, "", *_table(FACTORS, factors(result)), "", *_asked(result)]) + "\n"


def _asked(result: Mapping[str, Any]) -> list[str]:
    return _table(QUESTIONS, questions(result))


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = [columns, ["---"] * len(columns), *([foreign.markdown(cell) for cell in row] for row in rows)]
    return [f"| {' | '.join(line)} |" for line in lines]


def facts(result: Mapping[str, Any]) -> dict[str, str]:
    return {
        "result": outcomes.headline(result),
        "A": result["of"][0],
        "B": result["of"][1],
        "B against A": f"{units.slowdown(result['slowdown'])} ({units.interval(result['ci_low'], result['ci_high'])})",
        "measured": f"{result['trials']} trials in {_counted(result['questions'])}, {result['metric']}",
        "id": result["id"],
    }


def _counted(questions: Sequence[Any]) -> str:
    return "1 comparison" if len(questions) == 1 else f"{len(questions)} comparisons"


def factors(result: Mapping[str, Any]) -> list[tuple[str, ...]]:
    toggled = [
        (f["name"], f["a"], f["b"], f"{f['verdict']}{': ' + f['why_not'] if f['why_not'] else ''}")
        for f in result["factors"]
    ]
    others = [(one["name"], str(one["a"]), str(one["b"]), "not toggled") for one in result["not_toggled"]]
    return [*toggled, *others]


def questions(result: Mapping[str, Any]) -> list[tuple[str, ...]]:
    return [
        (
            one["id"].rpartition("-")[2],
            one["kind"],
            ", ".join(one["base_as_in_a"]) or "nothing",
            ", ".join(one["head_as_in_a"]) or "nothing",
            outcomes.signed(one["outcome"]),
            units.slowdown(one["slowdown"]),
            str(one["trials"]),
        )
        for one in result["questions"]
    ]
