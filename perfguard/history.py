"""Nights -> series and what changed in them. Pure: no database, no file; knows stored nights and rows of a CSV alike.

A series is head against a pinned reference measured in the same night; the reference's own level tells of the
machine. A change point alarms nobody by itself: it names a window for a bisect.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from perfguard.conditions.moved import steps
from perfguard.records import Better
from perfguard.stats.changepoint import ALPHA, ChangePoint, change_points

SCHEMA = "perfguard/history@1"


@dataclass(frozen=True, kw_only=True)
class Night:
    """One night of one metric. `value`: head's; `reference`: the pinned commit's in the same night, None if unknown.

    `pin` is the reference commit, `machine` a fingerprint; "" where a CSV does not say.
    """

    time: str
    commit: str
    value: float
    reference: float | None = None
    pin: str = ""
    machine: str = ""
    campaign: str = ""


@dataclass(frozen=True, kw_only=True)
class Point:
    """`value`: what the change points are looked for in, head ÷ reference where there is one."""

    night: Night
    value: float


@dataclass(frozen=True, kw_only=True)
class Change:
    """A change point with its nights: the last one of the old level and the first of the new."""

    point: ChangePoint
    last_before: Night
    first_after: Night


@dataclass(frozen=True, kw_only=True)
class Series:
    """One metric of one workload on one machine."""

    metric: str
    workload: str = ""
    unit: str = ""
    better: Better = "lower"
    machine: str = ""
    points: tuple[Point, ...] = ()
    changes: tuple[Change, ...] = ()
    notices: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Track:
    """Nights of one metric and workload in order of time, as they were stored: machines and pins may change."""

    metric: str
    workload: str = ""
    unit: str = ""
    better: Better = "lower"
    nights: Sequence[Night] = field(default_factory=tuple)


def series_of(track: Track, *, alpha: float = ALPHA) -> list[Series]:
    """One series a machine, in the order the machines came; another machine cuts a series, it never steps in it."""
    machines = list(dict.fromkeys(night.machine for night in track.nights))
    parts = [[night for night in track.nights if night.machine == machine] for machine in machines]
    return [_series(track, nights, alpha, is_first=not index) for index, nights in enumerate(parts)]


def _series(track: Track, nights: Sequence[Night], alpha: float, *, is_first: bool) -> Series:
    kept = _alike(nights)
    points, told = _linked(kept)
    values = [point.value for point in points]
    changes = tuple(_change(point, points) for point in change_points(values, alpha=alpha))
    moved = machine_moves(track.metric, nights)
    another = () if is_first else (f"MACHINE MOVED: {track.metric} goes on on another machine from {nights[0].time}",)
    left_out = _left_out(len(nights) - len(kept))
    return Series(
        metric=track.metric,
        workload=track.workload,
        unit=track.unit,
        better=track.better,
        machine=nights[0].machine,
        points=tuple(points),
        changes=changes,
        notices=(*another, *left_out, *told, *moved),
    )


def _alike(nights: Sequence[Night]) -> Sequence[Night]:
    """Ratios only, or values only: a change from one to the other would be a step of nobody's making."""
    return [night for night in nights if night.reference is not None] or nights


def _left_out(count: int) -> tuple[str, ...]:
    nights = f"{count} nights have" if count > 1 else "1 night has"
    return (f"{nights} no reference beside others that do: left out",) if count else ()


def _change(point: ChangePoint, points: Sequence[Point]) -> Change:
    return Change(point=point, last_before=points[point.index - 1].night, first_after=points[point.index].night)


def _linked(nights: Sequence[Night]) -> tuple[list[Point], list[str]]:
    """Head ÷ reference, pins joined: nights measured against both tell what one pin is worth in the other's terms."""
    pins = list(dict.fromkeys(night.pin for night in nights))
    worth, told = {pins[0]: 1.0}, []
    for old, new in itertools.pairwise(pins):
        ratio = _overlap(nights, old, new)
        worth[new] = worth[old] * (ratio if ratio is not None else 1.0)
        if ratio is None:
            told.append(f"the reference became {new[:12]} without a night of both: a step there may be the reference's")
    points = [Point(night=night, value=_ratio(night) * worth[night.pin]) for night in nights]
    newest = {(point.night.time, point.night.commit): point for point in points}  # nights of both pins count once
    return list(newest.values()), told


def _overlap(nights: Sequence[Night], old: str, new: str) -> float | None:
    """Median of (head ÷ old) / (head ÷ new) over the nights that measured one head against both."""
    by_pin = {pin: {(n.time[:10], n.commit): _ratio(n) for n in nights if n.pin == pin} for pin in (old, new)}
    shared = by_pin[old].keys() & by_pin[new].keys()
    return median(by_pin[old][key] / by_pin[new][key] for key in shared) if shared else None


def _ratio(night: Night) -> float:
    return night.value if night.reference is None else night.value / night.reference


def machine_moves(metric: str, nights: Sequence[Night]) -> tuple[str, ...]:
    """Steps in the reference's own level: one code, so the machine moved. One notice each.

    Told by the detector that watches all other readings of a machine, so that one step is one step everywhere.
    """
    told = []
    for pin in dict.fromkeys(night.pin for night in nights):
        own = [(night, night.reference) for night in nights if night.pin == pin and night.reference is not None]
        for step in steps([level for _, level in own]):
            what = f"the reference's own {metric} went from {step.before:.4g} to {step.after:.4g}"
            since = own[step.index][0].time
            told.append(f"MACHINE MOVED: {what} ({step.change:+.1%}) on {since}; its code is unchanged")
    return tuple(told)


def history_json(series: Sequence[Series]) -> dict[str, Any]:
    """The JSON of a history, see SCHEMA."""
    return {"schema": SCHEMA, "series": [_series_json(one) for one in series]}


def _series_json(series: Series) -> dict[str, Any]:
    return {
        "metric": series.metric,
        "workload": series.workload,
        "unit": series.unit,
        "better": series.better,
        "machine": series.machine,
        "points": len(series.points),
        "nights": [[point.night.time, point.night.commit, point.value] for point in series.points],
        "references": [point.night.reference for point in series.points],
        "campaigns": [point.night.campaign for point in series.points],
        "change_points": [_change_json(change) for change in series.changes],
        "notices": list(series.notices),
    }


def _change_json(change: Change) -> Mapping[str, Any]:
    point = change.point
    return {
        "index": point.index,
        "time": change.first_after.time,
        "commit": change.first_after.commit,
        "last_good": change.last_before.commit,
        "before": point.before,
        "after": point.after,
        "change": point.change,
        # Kept for what reads the first form of this JSON: no probability of a change, see docs/nightly.md.
        "probability": 1 - point.p_value,
        "p_value": point.p_value,
    }
