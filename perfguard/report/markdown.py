"""A comparison as Markdown for issues, merge requests and job summaries. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from perfguard import changes
from perfguard.records import Trial
from perfguard.report import foreign, machine, next_step, outcomes, speculate, strips

# GitHub refuses a comment of 65,536 characters or more.
LIMIT = 65_000
# A longer text of others is a log, not a reason.
_MAX_ITEM = 1_000
_ROOM_FOR_NOTE = 200


def comparison_markdown(comparison: Mapping[str, Any], trials: Sequence[Trial]) -> str:
    """Fewer than 65,000 characters. What does not fit is left out as a whole section and named."""
    sections = {
        "verdict": _verdict(comparison),
        "conclusions": _conclusions(comparison),
        "counts": _foreign(f"{outcomes.counts(comparison)} {outcomes.cached_builds(comparison)}".strip()),
        "metrics": metrics_table(comparison),
        "speculation": _speculation(comparison),
        "reasons": _reasons(comparison),
        "sides": _sides(comparison),
        "trials by block": _plots(comparison, trials),
        "machine": _machine(comparison),
    }
    kept = _fitting(sections)
    order = (
        "verdict",
        "sides",
        "metrics",
        "speculation",
        "reasons",
        "trials by block",
        "machine",
        "counts",
        "conclusions",
    )
    left_out = [name for name in order if sections[name] and name not in kept]
    parts = [kept[name] for name in order if kept.get(name)]
    if left_out:
        parts.append(f"Left out here because it is too long: {', '.join(left_out)}. See `perfguard report -f json`.")
    return "\n\n".join(parts) + "\n"


def _verdict(comparison: Mapping[str, Any]) -> str:
    """What engines resolved stands before the verdict: it may be all there is to know."""
    engine = [_foreign(line) for line in outcomes.engine(comparison)]
    headline = f"**{_foreign(outcomes.headline(comparison))}**"
    return "\n\n".join([*engine[:1], headline, *engine[1:]])


def _fitting(sections: Mapping[str, str]) -> dict[str, str]:
    """Sections in order of importance while there is room."""
    kept: dict[str, str] = {}
    room = LIMIT - _ROOM_FOR_NOTE
    for name, text in sections.items():
        if len(text) + 2 <= room:
            kept[name] = text
            room -= len(text) + 2
    return kept


def _speculation(comparison: Mapping[str, Any]) -> str:
    parts = ["\n".join(f"- {_foreign(line)}" for line in outcomes.speculation(comparison))]
    for columns, rows in speculate.tables(comparison):
        lines = [columns, ("--:",) * len(columns), *(tuple(map(_foreign, row)) for row in rows)]
        parts.append("\n".join(f"| {' | '.join(line)} |" for line in lines))
    return "\n\n".join(parts)


def metrics_table(comparison: Mapping[str, Any]) -> str:
    """All metrics with intervals and outcomes, as a Markdown table, and which sign means what."""
    rows = [outcomes.metric_cells(metric, comparison.get("margin")) for metric in comparison["metrics"]]
    lines = [outcomes.COLUMNS, (":--", *["--:"] * 6, ":--"), *(tuple(map(_foreign, row)) for row in rows)]
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    is_measured = any(metric.get("slowdown") is not None for metric in comparison["metrics"])
    return f"{table}\n\n{changes.LEGEND}" if is_measured else table


def _sides(comparison: Mapping[str, Any]) -> str:
    lines = [f"- {side}: {_foreign(what)}" for side, what in outcomes.sides(comparison).items()]
    workload = comparison.get("workload", {}).get("name", "")
    about = f"workload {workload}, scope {outcomes.scope(comparison)}, seed {comparison.get('seed')}"
    return "\n".join([*lines, f"- {_foreign(about)}, id {_foreign(comparison['id'])}"])


def _reasons(comparison: Mapping[str, Any]) -> str:
    return "\n".join(f"- {_foreign(line)}" for line in outcomes.reasons(comparison))


def _plots(comparison: Mapping[str, Any], trials: Sequence[Trial]) -> str:
    plots = ["\n".join(map(foreign.one_line, strips.text_lines(s))) for s in strips.strips(comparison, trials)]
    return foreign.fenced("\n\n".join(plots)) if plots else ""


def _machine(comparison: Mapping[str, Any]) -> str:
    plot = machine.plot_lines(comparison)
    parts = [foreign.fenced("\n".join(plot))] if plot else []
    rows = machine.gate_rows(comparison)
    if rows:
        table = [
            machine.GATE_COLUMNS,
            (":--",) * len(machine.GATE_COLUMNS),
            *(map(_foreign, row) for row in rows),
        ]
        parts.append("\n".join(f"| {' | '.join(line)} |" for line in table))
    parts += ["\n".join(f"- {_foreign(line)}" for line in machine.lines(comparison))]
    parts += [f"**{_foreign(notice)}**" for notice in machine.notices(comparison)]
    return "\n\n".join(part for part in parts if part)


def _conclusions(comparison: Mapping[str, Any]) -> str:
    conclusions = comparison.get("conclusions", {})
    lines = []
    if conclusions:
        lines += [f"What can be concluded: {_foreign(conclusions['can'])}"]
        lines += [f"What cannot: {_foreign(conclusions['cannot'])}"]
    if comparison.get("next"):
        lines += [f"Next: {next_step.markdown(comparison['next'][:_MAX_ITEM])}"]
    return "\n\n".join(lines)


def _foreign(text: object) -> str:
    whole = str(text)
    return foreign.markdown(whole if len(whole) <= _MAX_ITEM else f"{whole[:_MAX_ITEM]} … (cut)")
