"""Strip plot of a metric: where each trial of each block lies on a common axis. Pure; drawn as text or as SVG."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from perfguard.records import Side, Trial
from perfguard.report import units

BASE, HEAD, BOTH = "○", "●", "◐"
# Columns between the bars of a text plot; with labels and notes a line stays below 100.
TRACK = 60


@dataclass(frozen=True, kw_only=True)
class StripRow:
    """One block. `marks`: side and place from 0 (left) to 1 (right). `note` counts trials that are not ok."""

    label: str
    order: str
    marks: tuple[tuple[Side, float], ...]
    note: str


@dataclass(frozen=True, kw_only=True)
class Strip:
    """`low` and `high`: values at the ends of the axis, in the unit of the metric."""

    name: str
    unit: str
    better: str
    low: float
    high: float
    rows: tuple[StripRow, ...]


def strips(comparison: Mapping[str, Any], trials: Sequence[Trial]) -> list[Strip]:
    """Of every primary metric that varies by nature and was measured; an exact one has nothing to plot."""
    plotted = [m for m in comparison["metrics"] if m.get("primary", True) and not m.get("exact", False)]
    found = (_strip(metric, trials) for metric in plotted)
    return [strip for strip in found if strip is not None]


def _strip(metric: Mapping[str, Any], trials: Sequence[Trial]) -> Strip | None:
    name = str(metric["name"])
    blocks: dict[tuple[int, int], list[Trial]] = defaultdict(list)
    for trial in trials:
        if trial.stage > 0:  # stage 0: unmeasured first runs
            blocks[trial.stage, trial.block].append(trial)
    values = [t.values[name] for ran in blocks.values() for t in ran if _is_shown(t, name)]
    if not values:
        return None
    low, high = min(values), max(values)
    rows = tuple(_row(key, ran, name, low, high) for key, ran in sorted(blocks.items()))
    return Strip(name=name, unit=metric["unit"], better=metric["better"], low=low, high=high, rows=rows)


def _is_shown(trial: Trial, metric: str) -> bool:
    return trial.status == "ok" and metric in trial.values


def _row(key: tuple[int, int], ran: Sequence[Trial], metric: str, low: float, high: float) -> StripRow:
    slots = {t.slot: t.side for t in ran}
    statuses = Counter(t.status for t in ran if t.status != "ok")
    return StripRow(
        label=f"{key[0]}.{key[1]}",
        order="".join({"base": "A", "head": "B"}[slots[slot]] for slot in sorted(slots)),
        marks=tuple((t.side, _place(t.values[metric], low, high)) for t in ran if _is_shown(t, metric)),
        note=", ".join(f"{count} {status.replace('_', ' ')}" for status, count in sorted(statuses.items())),
    )


def _place(value: float, low: float, high: float) -> float:
    return 0.5 if low == high else (value - low) / (high - low)


def text_lines(strip: Strip) -> list[str]:
    """The plot as lines of equal layout: heading, one line a block, the axis with its ends and middle."""
    direction = "slower" if strip.better == "lower" else "faster"
    lines = [f"{strip.name}  ({BASE} base, {HEAD} head, {BOTH} both; further right is {direction})"]
    lines += [f"{row.label:>5} {row.order:<4} │{_track(row)}│ {row.note}".rstrip() for row in strip.rows]
    return [*lines, *_axis(strip)]


def _track(row: StripRow) -> str:
    cells = [" "] * TRACK
    for side, place in row.marks:
        cell, mark = round(place * (TRACK - 1)), BASE if side == "base" else HEAD
        cells[cell] = mark if cells[cell] in (" ", mark) else BOTH
    return "".join(cells)


def _axis(strip: Strip) -> list[str]:
    margin = " " * 11
    line = f"{margin}└{'─' * (TRACK // 2 - 1)}┴{'─' * (TRACK - TRACK // 2)}┘"
    left, middle, right = axis_labels(strip)
    start = len(margin) + 1 + TRACK // 2 - len(middle) // 2
    labels = f"{margin}{left}".ljust(start) + middle
    end = len(margin) + TRACK + 2 - len(right)
    return [line, f"{labels.ljust(end)}{right}" if end > len(labels) else f"{labels}  {right}"]


def axis_labels(strip: Strip) -> tuple[str, str, str]:
    """Both ends and the middle, with digits enough to tell them apart."""
    chosen = units.scale(strip.unit, strip.high)
    spread = abs(strip.high - strip.low) / max(abs(strip.high), abs(strip.low), 1e-300)
    digits = next((d for d in range(4, 12) if spread >= 10.0 ** (2 - d)), 12)
    points = (strip.low, (strip.low + strip.high) / 2, strip.high)
    left, middle, right = (f"{units.number(p / chosen.divisor, digits)} {chosen.symbol}".rstrip() for p in points)
    return left, middle, right
