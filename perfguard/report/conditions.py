"""Clock, temperature and power of every trial by arm, drawn for a page from a comparison's conditions. Pure.

A trial without a reading is left out, never drawn as 0.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from perfguard.report import machine, svg

HEIGHT = 150


def plots(comparison: Mapping[str, Any]) -> list[tuple[str, str]]:
    """(heading, SVG) for each reading that trials have under load."""
    trials = (comparison.get("conditions") or {}).get("trials") or ()
    shown = [plot for plot in machine.PLOTTED if any(trial.get(plot[0]) is not None for trial in trials)]
    return [(words, _plot(words, unit, name, trials)) for name, words, unit in shown]


def _plot(words: str, unit: str, name: str, trials: Sequence[Mapping[str, Any]]) -> str:
    points = [(i, trial, float(trial[name])) for i, trial in enumerate(trials) if trial.get(name) is not None]
    values = [value for _, _, value in points]
    low, high = svg.padded(min(values), max(values))
    y = svg.Axis(low=low, high=high, start=HEIGHT - 24, end=12)
    x = svg.Axis(low=-0.5, high=len(trials) - 0.5, start=70, end=svg.WIDTH - svg.RIGHT)
    parts = []
    for tick in svg.ticks(low, high, 3):
        parts += [svg.line(70, y.at(tick), svg.WIDTH - svg.RIGHT, y.at(tick), "grid")]
        parts += [svg.text(64, y.at(tick) + 4, f"{tick:g}", "tick", "end")]
    parts.append(svg.polyline([(x.at(i), y.at(value)) for i, _, value in points], "trace"))
    for i, trial, value in points:
        told = f"{trial['side']} {value:,.0f} {unit}, block {trial['stage']}.{trial['block']}, {trial['status']}"
        parts.append(svg.mark(trial["side"], x.at(i), y.at(value), told))
    parts += [svg.text(4, 12, unit, "note"), svg.text(70, HEIGHT - 4, "launches in the order run", "note")]
    told = f"between {min(values):,.0f} and {max(values):,.0f} {unit}"
    return svg.drawing(f"{words} under load by launch", told, HEIGHT, parts)
