"""The findings of `perfguard doctor` as a table, and what telemetry costs. A word and a sign say how bad, no colour."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from rich.console import Console

from perfguard.report import units
from perfguard.report.terminal import render_rows

SIGNS = {"ok": "✓ ok", "warn": "! warn", "fail": "✗ fail", "unknown": "? unknown"}
SHOWN_COSTS = 5


def render_doctor(report: Mapping[str, Any], console: Console) -> None:
    """`report`: see perfguard.doctor.examine."""
    findings = report["findings"]
    rows = [(SIGNS[f["severity"]], f["about"], f["text"], f["advice"]) for f in findings]
    render_rows(("", "about", "found", "what to do"), rows, console)
    console.print()
    if "self_cost" in report:
        console.print(cost_line(report["self_cost"]))
    console.print(conclusion(findings))


def conclusion(findings: list[Mapping[str, Any]]) -> str:
    """One sentence: whether to measure here, and what weakens it."""
    count = Counter(str(finding["severity"]) for finding in findings)
    if count["fail"]:
        return f"✗ Not fit to measure now: {count['fail']} to mend first, {count['warn']} to look at."
    rest = f"{count['warn']} to look at, {count['unknown']} unknown" if count["warn"] + count["unknown"] else "all well"
    return f"✓ One can measure here: {rest}."


def cost_line(cost: Mapping[str, Any]) -> str:
    """What telemetry takes, with the dearest fields."""
    if "reason" in cost:
        return f"Telemetry costs nothing here: {cost['reason']}."
    dearest = sorted(cost["fields_s"].items(), key=lambda item: -item[1])[:SHOWN_COSTS]
    names = ", ".join(f"{name} {units.value(seconds, 's')}" for name, seconds in dearest)
    return (
        f"Telemetry of {cost['num_gpus']} GPU(s): {units.value(cost['sample_s'], 's')} a sample, "
        f"{cost['share_of_a_core']:.2%} of a core at one sample in {units.value(cost['interval_s'], 's')}; "
        f"{units.value(cost['before_and_after_s'], 's')} before and after a trial. Dearest: {names}."
    )
