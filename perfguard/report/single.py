"""Results of one arm for a terminal: `run` and `recheck`."""

from collections.abc import Mapping
from typing import Any

from rich.console import Console

from perfguard.report import outcomes, terminal, units
from perfguard.report.explanation import render_hypotheses, rows


def render_single(result: Mapping[str, Any], console: Console) -> None:
    """`result` follows perfguard/run@1 or perfguard/recheck@1."""
    revision = result["base"]
    facts = {
        "result": f"{result['outcome']}  {result.get('sentence', '')}".rstrip(),
        "revision": f"{revision['revision']}  {revision['commit'][:12]}  {revision['subject']}",
        "stored as": result["id"],
        **{f"because {reason['code']}": reason["text"] for reason in result["reasons"]},
    }
    if cached := outcomes.cached_builds(result):
        facts["build"] = cached
    terminal.render_facts(facts, console)
    if "explanation" in result:
        console.print()
        render_hypotheses(rows(result["explanation"]), console)
        terminal.render_next(result["explanation"]["next"], console)
    if "metrics" in result:
        console.print()
        terminal.render_rows(("metric", "median", "launches"), [_cells(m) for m in result["metrics"]], console)


def _cells(metric: Mapping[str, Any]) -> tuple[str, str, str]:
    unit = str(metric["unit"])
    launches = ", ".join(units.value(value, unit) for value in metric["values"]) or "none"
    return str(metric["name"]), units.value(metric["median"], unit), launches
