"""Stored nights -> tracks and series, and what they say of the machine. Judges by perfguard.history alone."""

from collections.abc import Mapping, Sequence
from typing import Any

from perfguard.history import Night, Series, Track, series_of
from perfguard.store import NightRun, NightValue, Store

MOVED = "MACHINE MOVED"
MAX_FIELDS = 6


def tracks_of(store: Store, workload: str) -> list[Track]:
    """One a metric, in the order they were first measured."""
    by_metric: dict[str, list[tuple[NightRun, NightValue]]] = {}
    for run, value in store.nights.values_of_workload(workload):
        by_metric.setdefault(value.metric, []).append((run, value))
    return [_track(workload, rows) for rows in by_metric.values()]


def _track(workload: str, rows: Sequence[tuple[NightRun, NightValue]]) -> Track:
    newest = rows[-1][1]
    return Track(
        metric=newest.metric,
        workload=workload,
        unit=newest.unit,
        better=newest.better,
        nights=tuple(_night(run, value) for run, value in rows),
    )


def _night(run: NightRun, value: NightValue) -> Night:
    return Night(
        time=run.started_at,
        commit=run.commit_sha,
        value=value.value,
        reference=value.reference,
        pin=run.pin,
        machine=run.machine,
        campaign=run.campaign,
    )


def all_series(store: Store, workload: str) -> list[Series]:
    """Every series of a workload; a machine that changed begins a new one."""
    return [series for track in tracks_of(store, workload) for series in series_of(track)]


def night_values(comparison: Mapping[str, Any]) -> list[NightValue]:
    """What a comparison adds to the series: medians of its primary metrics; nothing where it was not valid."""
    if comparison["outcome"] == "INVALID":
        return []
    return [
        NightValue(
            metric=m["name"],
            unit=m["unit"],
            better=m["better"],
            value=float(m["head_median"]),
            reference=float(m["base_median"]),
        )
        for m in comparison["metrics"]
        if m["primary"] and not m["exact"] and (m["head_median"] or 0) > 0 and (m["base_median"] or 0) > 0
    ]


def other_machine(then: Mapping[str, Any], now: Mapping[str, Any], since: str) -> str:
    """What differs from the machine of an earlier night, "" if nothing does."""
    before, after = _flat(then), _flat(now)
    names = [name for name in sorted(before.keys() | after.keys()) if before.get(name) != after.get(name)]
    if not names:
        return ""
    told = [f"{name} was {before.get(name, 'unknown')} and is {after.get(name, 'unknown')}" for name in names]
    more = f" and {len(told) - MAX_FIELDS} more" if len(told) > MAX_FIELDS else ""
    return f"{MOVED}: since the night of {since}, {'; '.join(told[:MAX_FIELDS])}{more}; a new series begins"


def _flat(tree: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    flat: dict[str, str] = {}
    for name, value in tree.items():
        if isinstance(value, Mapping):
            flat |= _flat(value, f"{prefix}{name}.")
        elif isinstance(value, list) and value and all(isinstance(item, Mapping) for item in value):
            for index, item in enumerate(value):
                flat |= _flat(item, f"{prefix}{name}.{index}.")
        elif value not in (None, "", [], {}):
            flat[f"{prefix}{name}"] = str(value)
    return flat
