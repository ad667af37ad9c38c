"""A series of nights as inline SVG: every night by its date, levels, change points. Pure.

Takes one series of the JSON of a history (perfguard/history@1).
"""

import itertools
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from math import ceil
from statistics import median
from typing import Any

from perfguard.report import svg, units

HEIGHT = 220
BOTTOM = HEIGHT - 34
LEFT = 78
DAY_S = 86400.0
# More nights than this are a line, without a mark for each.
MAX_MARKS = 1500


def ratio_plot(series: Mapping[str, Any]) -> str:
    """Head against the pinned reference, night by night; ▲ is the first night of a new level."""
    times = [_moment(time) for time, _, _ in series["nights"]]
    values = [float(value) for _, _, value in series["nights"]]
    x, y = _axes(times, values)
    parts = [
        *_grid(y, ""),
        *_dates(x),
        svg.polyline(_points(x, y, times, values), "trace"),
        *_levels(series, x, y, times),
    ]
    if len(values) <= MAX_MARKS:
        parts += [
            svg.mark("base", x.at(moment), y.at(value), f"{time[:10]} {commit[:12]}: {value:.4g}")
            for moment, (time, commit, value) in zip(times, series["nights"], strict=True)
        ]
    name = f"{series['metric']}, head divided by reference"
    return svg.drawing(name, _described(series, values), HEIGHT, parts)


def reference_plot(series: Mapping[str, Any]) -> str:
    """The reference's own level, which shows the machine; "" where none was measured."""
    found = [(_moment(n[0]), float(r)) for n, r in zip(series["nights"], series["references"], strict=True) if r]
    if not found:
        return ""
    times, raw = [moment for moment, _ in found], [value for _, value in found]
    scale = units.scale(str(series["unit"]), max(raw))
    values = [value / scale.divisor for value in raw]
    x, y = _axes(times, values)
    parts = [*_grid(y, scale.symbol), *_dates(x), svg.polyline(_points(x, y, times, values), "trace")]
    if len(values) <= MAX_MARKS:
        told = [units.value(value, series["unit"]) for value in raw]
        parts += [svg.mark("base", x.at(t), y.at(v), words) for t, v, words in zip(times, values, told, strict=True)]
    about = f"{len(raw)} nights between {units.value(min(raw), series['unit'])} and "
    about += units.value(max(raw), series["unit"])
    return svg.drawing(f"{series['metric']} of the reference alone", about, HEIGHT, parts)


def _moment(time: str) -> float:
    return datetime.fromisoformat(time).timestamp()


def _axes(times: Sequence[float], values: Sequence[float]) -> tuple[svg.Axis, svg.Axis]:
    low, high = svg.padded(min(values), max(values))
    x = svg.Axis(low=min(times) - DAY_S / 2, high=max(times) + DAY_S / 2, start=LEFT, end=svg.WIDTH - svg.RIGHT)
    return x, svg.Axis(low=low, high=high, start=BOTTOM, end=12)


def _points(x: svg.Axis, y: svg.Axis, times: Sequence[float], values: Sequence[float]) -> list[tuple[float, float]]:
    return [(x.at(moment), y.at(value)) for moment, value in zip(times, values, strict=True)]


def _grid(y: svg.Axis, symbol: str) -> list[str]:
    parts = []
    for tick in svg.ticks(y.low, y.high, 4):
        parts += [svg.line(LEFT, y.at(tick), svg.WIDTH - svg.RIGHT, y.at(tick), "grid")]
        parts += [svg.text(LEFT - 6, y.at(tick) + 4, f"{tick:.6g}", "tick", "end")]
    return [*parts, svg.text(4, 12, symbol, "note")] if symbol else parts


def _dates(x: svg.Axis) -> list[str]:
    """About five dates, whole days apart, each below its night."""
    first, last = x.low + DAY_S / 2, x.high - DAY_S / 2
    step_s = DAY_S * max(1, ceil((last - first) / DAY_S / 5))
    parts, moment = [], first
    while moment <= last + 1:
        place = x.at(moment)
        anchor = "end" if place > svg.WIDTH - 50 else "middle"
        label = datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%d")
        parts.append(svg.text(place, HEIGHT - 10, label, "tick", anchor))
        moment += step_s
    return parts


def _levels(series: Mapping[str, Any], x: svg.Axis, y: svg.Axis, times: Sequence[float]) -> list[str]:
    """The median of each level, and a mark where the next one begins."""
    values = [float(value) for _, _, value in series["nights"]]
    bounds = [0, *(change["index"] for change in series["change_points"]), len(values)]
    parts = []
    for start, end in itertools.pairwise(bounds):
        level = y.at(median(values[start:end]))
        parts.append(svg.line(x.at(times[start]), level, x.at(times[end - 1]), level, "level"))
        if start:
            parts.append(svg.line(x.at(times[start]), 12, x.at(times[start]), BOTTOM, "stage"))
            parts.append(svg.text(x.at(times[start]), BOTTOM + 12, "▲", "primary", "middle"))
    return parts


def _described(series: Mapping[str, Any], values: Sequence[float]) -> str:
    changes = "; ".join(f"{c['change']:+.1%} on {c['time'][:10]}" for c in series["change_points"])
    return f"{len(values)} nights between {min(values):.4g} and {max(values):.4g}; change points: {changes or 'none'}"
