"""A comparison for maintainers who will not install perfguard: claim and now, what follows, plain commands. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from perfguard.records import Trial
from perfguard.report import foreign, machine, outcomes, reproduce, units
from perfguard.report.markdown import metrics_table


def comparison_issue(comparison: Mapping[str, Any], trials: Sequence[Trial]) -> str:
    """Markdown for an issue of the subject's own project."""
    measured = [trial for trial in trials if trial.stage > 0]
    conclusions = comparison.get("conclusions") or {}
    parts = [
        f"**{foreign.markdown(outcomes.headline(comparison))}**",
        _claim(comparison),
        metrics_table(comparison),
        f"- can be concluded: {foreign.markdown(conclusions.get('can', ''))}\n"
        f"- cannot be concluded: {foreign.markdown(conclusions.get('cannot', ''))}",
        f"### How it was measured\n\n{_method(comparison, measured)}",
        f"### How to reproduce\n\n{foreign.fenced(chr(10).join(reproduce.by_hand(comparison)))}",
        f"### Environment\n\n{foreign.fenced(chr(10).join(_environment(comparison)))}",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _claim(comparison: Mapping[str, Any]) -> str:
    """What was believed, against the numbers of the same hour."""
    claimed = comparison.get("claimed") or {}
    by_name = {metric["name"]: metric for metric in comparison["metrics"]}
    lines = [
        f"Believed: {units.value(value, by_name[name]['unit'])} ({foreign.markdown(name)}). Now, side by side: base "
        f"{units.value(by_name[name]['base_median'], by_name[name]['unit'])}, head "
        f"{units.value(by_name[name]['head_median'], by_name[name]['unit'])}."
        for name, value in claimed.items()
        if name in by_name and isinstance(value, int | float)
    ]
    return "\n".join(lines)


def _method(comparison: Mapping[str, Any], measured: Sequence[Trial]) -> str:
    spent = units.duration(sum(trial.wall_s for trial in measured))
    blocks = comparison["blocks"]["used"]
    return (
        f"{len(measured)} launches of fresh processes in {spent}: {blocks} blocks of two launches of each side, the "
        "order of each block drawn at random before it ran. A change is named only if an exact test on those random "
        "orders says so, twice, the second time in fresh builds. Every launch is in the attached numbers."
    )


def _environment(comparison: Mapping[str, Any]) -> list[str]:
    return [foreign.one_line(line) for line in machine.facts(comparison.get("machine") or {})] or ["not recorded"]
