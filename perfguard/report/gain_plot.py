"""Gain of speculation over accept length as inline SVG, with break-even and what was measured. Pure."""

from collections.abc import Mapping
from typing import Any

from perfguard.report import svg

HEIGHT = 240
LEFT, BOTTOM = 78, 200


def gain_plot(comparison: Mapping[str, Any]) -> str:
    """A line: at a cycle time of c plain steps, accept length L gains L / c - 1. "" where either is unknown."""
    told = comparison.get("speculate") or {}
    even, here = told.get("break_even"), told.get("accept_length")
    if not even or here is None:
        return ""
    middle = float(even["accept_length"])
    last = max(2.0, here, middle, *(row["accept_length"] for row in _rows(told))) + 0.25
    x = svg.Axis(low=1.0, high=last, start=LEFT, end=svg.WIDTH - svg.RIGHT)
    low, high = svg.padded(100 * (1 / middle - 1), 100 * (last / middle - 1))
    y = svg.Axis(low=low, high=high, start=BOTTOM, end=12)
    ends = [(x.at(length), y.at(_gain(length, middle))) for length in (1.0, last)]
    parts = [*_axes(x, y), *_band(even, x), svg.polyline(ends, "trace")]
    parts += _marked("base", x, y, middle, middle, f"break-even {middle:.3g}")
    parts += _marked("head", x, y, here, middle, f"here {here:.3g}, {_gain(here, middle):+.0f} %")
    about = f"break-even at {middle:.3g} tokens a cycle, here {here:.3g}: {_gain(here, middle):+.0f} %"
    return svg.drawing("Gain over plain decoding by accept length", about, HEIGHT, parts)


def _rows(told: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    rows: list[Mapping[str, Any]] = (told.get("advice") or {}).get("gain_table", {}).get("rows", [])
    return rows


def _gain(length: float, even: float) -> float:
    """Percent."""
    return 100 * (length / even - 1)


def _axes(x: svg.Axis, y: svg.Axis) -> list[str]:
    parts = []
    for tick in svg.ticks(y.low, y.high, 4):
        parts += [svg.line(LEFT, y.at(tick), svg.WIDTH - svg.RIGHT, y.at(tick), "grid")]
        parts += [svg.text(LEFT - 6, y.at(tick) + 4, f"{tick:+.3g} %", "tick", "end")]
    for tick in svg.ticks(x.low, x.high, 6):
        parts += [svg.line(x.at(tick), BOTTOM, x.at(tick), BOTTOM + 5, "tick")]
        parts += [svg.text(x.at(tick), BOTTOM + 18, f"{tick:g}", "tick", "middle")]
    zero = y.at(0.0)
    parts.append(svg.line(LEFT, zero, svg.WIDTH - svg.RIGHT, zero, "zero"))
    return [*parts, svg.text(LEFT, HEIGHT - 4, "accept length, tokens a cycle with the bonus", "note")]


def _band(even: Mapping[str, Any], x: svg.Axis) -> list[str]:
    if even["ci_low"] is None or even["ci_low"] < x.low:
        return []
    left, right = x.at(even["ci_low"]), x.at(even["ci_high"])
    return [svg.rectangle(left, 12, right - left, BOTTOM - 12, "margin", "95 % interval of break-even")]


def _marked(side: str, x: svg.Axis, y: svg.Axis, length: float, even: float, told: str) -> list[str]:
    place, height = x.at(length), y.at(_gain(length, even))
    anchor = "end" if place > svg.WIDTH - 150 else "start"
    offset = -8 if anchor == "end" else 8
    return [svg.mark(side, place, height, told), svg.text(place + offset, height + 16, told, "primary", anchor)]
