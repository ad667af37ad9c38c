"""The drawings of a comparison: intervals against the margin, every trial in the order run, parts of a cycle. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from perfguard.records import Trial
from perfguard.report import svg, units

ROW = 30
PLOT_HEIGHT = 220
PARTS = ("draft", "verify", "accept", "all_reduce", "host")


def intervals(comparison: Mapping[str, Any]) -> str:
    """The 95 % interval of every metric's slowdown against the margin; "" where none was computed."""
    shown = [m for m in comparison["metrics"] if m.get("slowdown") is not None and not m.get("exact")]
    return interval_rows(shown, float(comparison.get("margin") or 0.0), "head", "base")


def interval_rows(shown: Sequence[Mapping[str, Any]], margin: float, what: str, against: str) -> str:
    """A row for each of `shown` (name, slowdown, ci_low, ci_high); "" without any."""
    if not shown:
        return ""
    ends = [m[key] for m in shown for key in ("ci_low", "ci_high", "slowdown") if m.get(key) is not None]
    low, high = svg.padded(min([*ends, 1 / (1 + margin)]), max([*ends, 1 + margin]))
    axis = svg.Axis(low=low, high=high, start=svg.LEFT + 60, end=svg.WIDTH - svg.RIGHT)
    bottom = ROW * len(shown) + 16
    parts = [_margin_band(axis, margin, bottom), *_percent_axis(axis, bottom)]
    for index, metric in enumerate(shown):
        parts += _interval_row(metric, axis, y=index * ROW + 28)
    parts.append(svg.text(svg.WIDTH - svg.RIGHT, bottom + 34, f"{what} slower →", "note", "end"))
    parts.append(svg.text(svg.LEFT + 60, bottom + 34, f"← {what} faster", "note"))
    told = "; ".join(f"{m['name']} {units.slowdown(m['slowdown'])}, {_interval(m)}" for m in shown)
    return svg.drawing(f"Slowdown of {what} against {against} with 95 % intervals", told, bottom + 44, parts)


def _margin_band(axis: svg.Axis, margin: float, bottom: float) -> str:
    left, right = axis.at(1 / (1 + margin)), axis.at(1 + margin)
    return svg.rectangle(left, 8, right - left, bottom - 8, "margin", f"margin {units.share(margin)}")


def _percent_axis(axis: svg.Axis, bottom: float) -> list[str]:
    parts = [svg.line(axis.at(1.0), 8, axis.at(1.0), bottom, "zero")]
    for tick in svg.ticks((axis.low - 1) * 100, (axis.high - 1) * 100, 6):
        x = axis.at(1 + tick / 100)
        label = f"{tick:+.3g} %" if tick else "0 %"
        parts += [svg.line(x, bottom, x, bottom + 5, "tick"), svg.text(x, bottom + 18, label, "tick", "middle")]
    return parts


def _interval_row(metric: Mapping[str, Any], axis: svg.Axis, y: float) -> list[str]:
    told = f"{metric['name']}: {units.slowdown(metric['slowdown'])}, 95 % interval {_interval(metric)}"
    kind = "primary" if metric.get("primary", True) else "secondary"
    parts = [svg.text(svg.LEFT + 50, y + 4, metric["name"], kind, "end")]
    if metric.get("ci_low") is not None and metric.get("ci_high") is not None:
        low, high = axis.at(metric["ci_low"]), axis.at(metric["ci_high"])
        parts += [svg.line(low, y, high, y, f"bar {kind}")]
        parts += [svg.line(x, y - 5, x, y + 5, f"bar {kind}") for x in (low, high)]
    return [*parts, svg.rectangle(axis.at(metric["slowdown"]) - 4, y - 4, 8, 8, f"estimate {kind}", told)]


def _interval(metric: Mapping[str, Any]) -> str:
    return units.interval(metric.get("ci_low"), metric.get("ci_high"))


def trials(metric: Mapping[str, Any], ran: Sequence[Trial]) -> str:
    """Every launch of a metric in the order run, blocks side by side; failed ones as crosses at the bottom."""
    name = str(metric["name"])
    measured = [trial for trial in ran if trial.stage > 0]
    values = [trial.values[name] for trial in measured if trial.status == "ok" and name in trial.values]
    if not values:
        return ""
    scale = units.scale(str(metric["unit"]), max(values))
    y = svg.Axis(**_range(values, scale.divisor), start=PLOT_HEIGHT - 40, end=12)
    x = svg.Axis(low=-0.5, high=len(measured) - 0.5, start=70, end=svg.WIDTH - svg.RIGHT)
    parts = [*_value_axis(y, scale.symbol), *_blocks(measured, x)]
    for position, trial in enumerate(measured):
        is_ok = trial.status == "ok" and name in trial.values
        height = y.at(trial.values[name] / scale.divisor) if is_ok else PLOT_HEIGHT - 48
        parts.append(svg.mark(trial.side if is_ok else "void", x.at(position), height, _told(trial, metric)))
    told = f"{len(values)} launches between {units.value(min(values), metric['unit'])} and "
    return svg.drawing(f"{name} by launch", told + units.value(max(values), metric["unit"]), PLOT_HEIGHT, parts)


def _range(values: Sequence[float], divisor: float) -> dict[str, float]:
    low, high = svg.padded(min(values) / divisor, max(values) / divisor)
    return {"low": low, "high": high}


def _value_axis(y: svg.Axis, symbol: str) -> list[str]:
    parts = []
    for tick in svg.ticks(y.low, y.high, 4):
        parts += [svg.line(70, y.at(tick), svg.WIDTH - svg.RIGHT, y.at(tick), "grid")]
        parts += [svg.text(64, y.at(tick) + 4, f"{tick:.6g}", "tick", "end")]
    return [*parts, svg.text(4, 12, symbol, "note")]


def _blocks(measured: Sequence[Trial], x: svg.Axis) -> list[str]:
    """A band for every other block, its number below, and a line where confirmation begins."""
    parts, starts = [], [i for i, t in enumerate(measured) if i == 0 or _block(measured[i - 1]) != _block(t)]
    step = max(1, len(starts) // 20)
    for number, (first, last) in enumerate(zip(starts, [*starts[1:], len(measured)], strict=True)):
        left, right = x.at(first - 0.5), x.at(last - 0.5)
        if number % 2:
            parts.append(svg.rectangle(left, 8, right - left, PLOT_HEIGHT - 48, "block"))
        if number % step == 0:
            label = f"{measured[first].stage}.{measured[first].block}"
            parts.append(svg.text((left + right) / 2, PLOT_HEIGHT - 22, label, "tick", "middle"))
        if number and measured[first].stage != measured[first - 1].stage:
            parts.append(svg.line(left, 4, left, PLOT_HEIGHT - 36, "stage"))
    return [*parts, svg.text(70, PLOT_HEIGHT - 4, "stage.block, in the order run", "note")]


def _block(trial: Trial) -> tuple[int, int]:
    return trial.stage, trial.block


def _told(trial: Trial, metric: Mapping[str, Any]) -> str:
    if trial.status != "ok" or metric["name"] not in trial.values:
        return f"{trial.side}, block {trial.stage}.{trial.block}: {trial.status.replace('_', ' ')}"
    shown = units.value(trial.values[metric["name"]], metric["unit"])
    return f"{trial.side} {shown}, block {trial.stage}.{trial.block}, slot {trial.slot + 1}, build {trial.build}"


@dataclass(frozen=True, kw_only=True)
class Part:
    """One part of a decode cycle: its name and its median seconds on either side."""

    name: str
    base_s: float
    head_s: float


def cycle_parts(comparison: Mapping[str, Any]) -> dict[str, list[Part]]:
    """Mode -> the measured parts of its cycle (metrics named MODE_PART_s), where both sides have them."""
    found: dict[str, list[Part]] = {}
    for metric in comparison["metrics"]:
        mode, _, rest = str(metric["name"]).partition("_")
        part, medians = rest.removesuffix("_s"), (metric.get("base_median"), metric.get("head_median"))
        if rest.endswith("_s") and part in PARTS and None not in medians:
            found.setdefault(mode, []).append(Part(name=part, base_s=medians[0], head_s=medians[1]))
    return found


def cycle(mode: str, parts: Sequence[Part]) -> str:
    """The parts of a cycle as two stacked bars, base above head, on one scale."""
    total = max(sum(p.base_s for p in parts), sum(p.head_s for p in parts))
    axis = svg.Axis(low=0.0, high=total, start=70, end=svg.WIDTH - svg.RIGHT)
    drawn = []
    for row, side in enumerate(("base", "head")):
        drawn += [svg.text(60, 30 + row * 44, side, "primary", "end"), *_stacked(side, parts, axis, 10 + row * 44)]
    told = "; ".join(f"{p.name} {units.value(p.base_s, 's')} → {units.value(p.head_s, 's')}" for p in parts)
    return svg.drawing(f"Parts of one cycle, {mode}", told, 100, drawn)


def _stacked(side: str, parts: Sequence[Part], axis: svg.Axis, y: float) -> list[str]:
    """One bar; a part wide enough carries its name and time."""
    drawn, start_s = [], 0.0
    for index, part in enumerate(parts):
        length_s = part.base_s if side == "base" else part.head_s
        left, right = axis.at(start_s), axis.at(start_s + length_s)
        shown = f"{part.name} {units.value(length_s, 's')}"
        drawn.append(svg.rectangle(left, y, right - left, 30, f"part part{index % 5}", f"{side} {shown}"))
        if right - left > 90:
            drawn.append(svg.text((left + right) / 2, y + 20, shown, "onpart", "middle"))
        start_s += length_s
    return drawn
