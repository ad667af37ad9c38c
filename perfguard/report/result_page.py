"""A sweep or a search by experiment as one HTML page: the tables of the terminal, and intervals drawn. Pure."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from perfguard.report import foreign, next_step, outcomes, plots, search, sweep
from perfguard.report.html import Plot, cut, environment, link, short

# A longer name of a setting is cut beside its interval; the table has it whole.
NAME = 26


def sweep_html(result: Mapping[str, Any]) -> str:
    """`result` follows perfguard/sweep@1."""
    drawn = plots.interval_rows(_against_the_first(result), float(result["margin"]), "setting", "the first")
    return _page(
        result,
        facts=[("ended", result["ended"]), ("id", result["id"])],
        plots=[Plot(heading="Slowdown against the first", svg=Markup(drawn))] if drawn else [],
        tables=[("Settings by rank", sweep.COLUMNS, sweep.rows(result))],
        notes=sweep.notes(result),
        next="",
    )


def _against_the_first(result: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Settings that were measured, in the form of a comparison's metrics."""
    measured = [row for row in result["settings"] if row["slowdown"] is not None]
    return [{**row, "name": foreign.shortened(f"{row['rank']}. {row['setting']}", NAME)} for row in measured]


def search_html(result: Mapping[str, Any]) -> str:
    """`result` follows perfguard/search@1."""
    return _page(
        result,
        facts=[(name, fact) for name, fact in search.facts(result).items() if name != "result"],
        plots=[],
        tables=[
            ("What differs", search.FACTORS, search.factors(result)),
            ("What was asked, by measuring", search.QUESTIONS, search.questions(result)),
        ],
        notes=[],
        next=result["next"],
    )


def _page(result: Mapping[str, Any], *, next: str, **parts: Sequence[Any]) -> str:
    return environment().get_template("result.html.j2").render(
        r=result,
        headline=outcomes.headline(result),
        outcome_kind=str(result["outcome"]).lower(),
        next_pieces=next_step.pieces(cut(foreign.one_line(next))),
        json_link=link(json.dumps(short(result), ensure_ascii=False), "application/json"),
        **parts,
    )
