"""The bench of a machine for a terminal: what it can do now, and whether that moved."""

from collections.abc import Mapping
from typing import Any

from rich.console import Console

from perfguard.report import machine, terminal, units

# Rates read best in thousands; the record keeps bytes, operations and seconds.
RATES = {"byte/s": (1e9, "GB/s"), "flop/s": (1e12, "Tflop/s")}


def render_bench(result: Mapping[str, Any], console: Console) -> None:
    rows = [(one["name"], _shown(one["value"], one["unit"])) for one in result["readings"]]
    terminal.render_rows(("this machine can do", "now"), rows, console)
    for note in result["notes"]:
        terminal.render_text(f"not measured: {note}", console)
    for notice in machine.notices(result):
        terminal.render_text(notice, console)


def _shown(value: float, unit: str) -> str:
    if unit in RATES:
        divisor, symbol = RATES[unit]
        return f"{units.number(value / divisor)} {symbol}"
    return units.value(value, unit)
