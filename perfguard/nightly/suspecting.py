"""What a night's verdicts and series make worth a search, and what is known already. Pure; a suspicion alarms nobody.

Two findings are the same change if the later one is against the same reference and not worse than the earlier one by
more than the margin: that one rule says what an ack covers and what needs no second search.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from perfguard.history import Change, Series
from perfguard.nightly.plan import last_good
from perfguard.stats.changepoint import MIN_SEGMENT
from perfguard.store import NightRun, Suspicion

ACCUSED = frozenset({"REGRESSION", "SUSPECT"})
CHANGE_POINT = "change point"
# Change points further back than so many nights are history: nobody is woken for them.
RECENT_NIGHTS = 30


@dataclass(frozen=True, kw_only=True)
class Window:
    """Two commits between which something got slower, by which metric, and who says so."""

    metric: str
    cause: str
    good: str
    bad: str
    since: str


def accused_metrics(comparison: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Primary metrics by name that are slower or suspected to be."""
    metrics = comparison["metrics"]
    return {m["name"]: m for m in metrics if m.get("primary", True) and m["outcome"] in ACCUSED and _is_slower(m)}


def _is_slower(metric: Mapping[str, Any]) -> bool:
    return metric["slowdown"] is None or metric["slowdown"] > 1  # an exact metric has none


def is_same_change(known: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    """Is what `now` accuses what `known` found already, and no worse than that by the margin?"""
    before, after = accused_metrics(known), accused_metrics(now)
    is_comparable = (known["workload"]["name"], known["base"]["commit"]) == (
        now["workload"]["name"],
        now["base"]["commit"],
    )
    margin = float(now["margin"])
    return (
        is_comparable
        and bool(after)
        and after.keys() <= before.keys()
        and not any(_is_worse(before[name], after[name], margin) for name in after)
    )


def _is_worse(before: Mapping[str, Any], after: Mapping[str, Any], margin: float) -> bool:
    least = after["ci_low"] if after["ci_low"] is not None else after["slowdown"]
    if least is None or before["slowdown"] is None:
        return False
    return float(least) > float(before["slowdown"]) * (1 + margin)


def verdict_window(
    comparison: Mapping[str, Any],
    run: NightRun,
    earlier: Sequence[NightRun],
    known: Sequence[tuple[Suspicion, Mapping[str, Any]]],
) -> Window | None:
    """What to search after a verdict that accuses head; None where nothing is, or a search of it is known.

    From the last good night, or from the reference where none was good, or where that search found a phantom.
    `known`: suspicions of this workload with the comparison that each rests on.
    """
    accused = accused_metrics(comparison)
    if not accused:
        return None
    good = last_good(earlier, run.pin)
    since = "" if good is None else good.started_at
    same = [one for one, its in known if one.since > since and is_same_change(its, comparison)]
    for start in dict.fromkeys((run.pin if good is None else good.commit_sha, run.pin)):
        tried = next((one for one in same if one.good == start), None)
        if tried is not None and tried.answer != "PHANTOM":
            return None
        if tried is None and start != run.commit_sha:
            outcome = str(comparison["outcome"])
            return Window(
                metric=next(iter(accused)), cause=outcome, good=start, bad=run.commit_sha, since=run.started_at
            )
    return None


def change_windows(series: Sequence[Series], known: Sequence[Suspicion]) -> list[Window]:
    """Change points for the worse that nobody has searched yet. `known`: suspicions of this workload."""
    found: list[Window] = []
    for one in series:
        for change in one.changes:
            is_recent = len(one.points) - change.point.index <= RECENT_NIGHTS
            if is_recent and _is_for_the_worse(one, change) and not _is_known(one, change, [*known, *found]):
                found.append(
                    Window(
                        metric=one.metric,
                        cause=CHANGE_POINT,
                        good=change.last_before.commit,
                        bad=change.first_after.commit,
                        since=change.first_after.time,
                    )
                )
    return [window for window in found if window.good != window.bad]


def _is_for_the_worse(series: Series, change: Change) -> bool:
    return (change.point.after > change.point.before) == (series.better == "lower")


def _is_known(series: Series, change: Change, known: Sequence[Suspicion | Window]) -> bool:
    """A change point may move by some nights as the series grows."""
    times = [point.night.time for point in series.points]
    places = [sum(time < one.since for time in times) for one in known]
    return any(abs(place - change.point.index) <= MIN_SEGMENT for place in places)
