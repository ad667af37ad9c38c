"""Explanations and timelines for a terminal and as Markdown. Formats; decides nothing."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console

from perfguard import changes
from perfguard.report import foreign, next_step, terminal, units

COLUMNS = ("hypothesis", "state", "evidence")
CHANGE_COLUMNS = ("metric", "A", "B", "slowdown of B", "launch noise", "larger than noise")
MAX_EVENTS = 5
SHOWN = 5
DIGEST = re.compile(r"\b[0-9a-f]{40,64}\b")
# Colour is never the only signal: each state has a sign.
SIGNS = {"differs": "≠", "possible": "~", "unknown": "?", "ruled out": "="}


def render_explanation(explanation: Mapping[str, Any], console: Console) -> None:
    terminal.render_facts({side.upper(): _side(explanation[side]) for side in ("a", "b")}, console)
    console.print()
    if explanation["metrics"]:
        terminal.render_rows(CHANGE_COLUMNS, [_change(metric) for metric in explanation["metrics"]], console)
        console.print()
    render_hypotheses(rows(explanation), console)
    console.print()
    conclusions = explanation["conclusions"]
    facts = {"can be concluded": conclusions["can"], "cannot": conclusions["cannot"]}
    if explanation.get("timeline"):
        facts["meanwhile"] = _meanwhile(explanation["timeline"])
    terminal.render_facts(facts, console)
    terminal.render_next(explanation["next"], console)


def rows(explanation: Mapping[str, Any]) -> list[dict[str, str]]:
    """Rows (hypothesis, state, detail) of an explanation's JSON, as every report shows them."""
    return [
        {"hypothesis": h["hypothesis"], "state": h["state"], "detail": _evidence(h)} for h in explanation["hypotheses"]
    ]


def _evidence(hypothesis: Mapping[str, Any]) -> str:
    fields = hypothesis["fields"]
    shown = [f"{one['field']}: {_cut(one['a'])} → {_cut(one['b'])}{_noted(one)}" for one in fields[:SHOWN]]
    more = [f"and {len(fields) - SHOWN} more"] if len(fields) > SHOWN else []
    return "; ".join([*shown, *more, *([hypothesis["detail"]] if hypothesis["detail"] else [])])


def _noted(field: Mapping[str, Any]) -> str:
    return f" ({field['note']})" if field.get("note") else ""


def _cut(text: str) -> str:
    """A digest is told from another by its first digits."""
    text = DIGEST.sub(lambda found: found.group()[:12], text)
    return text if len(text) <= 60 else f"{text[:57]}..."


def render_hypotheses(found: Sequence[Mapping[str, str]], console: Console) -> None:
    """`found`: as `rows` makes them."""
    terminal.render_rows(COLUMNS, [_row(row) for row in found], console)


def explanation_markdown(explanation: Mapping[str, Any]) -> str:
    """The same for an issue or a merge request."""
    conclusions = explanation["conclusions"]
    sides = [f"- {side.upper()}: {foreign.markdown(_side(explanation[side]))}" for side in ("a", "b")]
    parts = ["\n".join(sides)]
    if explanation["metrics"]:
        parts.append(_table(CHANGE_COLUMNS, [_change(metric) for metric in explanation["metrics"]]))
    parts += [hypotheses_markdown(rows(explanation))]
    parts += [f"What can be concluded: {foreign.markdown(conclusions['can'])}"]
    parts += [f"What cannot: {foreign.markdown(conclusions['cannot'])}"]
    parts += [f"Next: {next_step.markdown(explanation['next'])}"]
    if explanation.get("timeline"):
        parts.append(f"Meanwhile: {foreign.markdown(_meanwhile(explanation['timeline']))}")
    return "\n\n".join(parts) + "\n"


def hypotheses_markdown(found: Sequence[Mapping[str, str]]) -> str:
    return _table(COLUMNS, [_row(row) for row in found])


def render_timeline(found: Mapping[str, Any], console: Console) -> None:
    terminal.render_facts({"since": found["since"], "until": found["until"], "in": found["repository"]}, console)
    console.print()
    terminal.render_rows(("what", "state", "when (UTC)", "event"), list(_events(found["items"])), console)


def _events(items: Sequence[Mapping[str, Any]]) -> list[tuple[str, str, str, str]]:
    rows = []
    for item in items:
        shown = item["events"][:MAX_EVENTS] or [{"at": "", "text": item["detail"]}]
        for place, event in enumerate(shown):
            head = (item["what"], item["state"]) if place == 0 else ("", "")
            rows.append((*head, event["at"].removesuffix("+00:00").replace("T", " "), event["text"]))
        if len(item["events"]) > MAX_EVENTS:
            rows.append(("", "", "", f"and {len(item['events']) - MAX_EVENTS} more (--json names all)"))
    return rows


def _row(row: Mapping[str, str]) -> tuple[str, str, str]:
    return row["hypothesis"], f"{SIGNS.get(row['state'], '')} {row['state']}".strip(), row["detail"]


def _side(side: Mapping[str, Any]) -> str:
    parts = (side["label"], side["commit"][:12], side["created_at"], side["workload"])
    return "  ".join(part for part in parts if part)


def _change(metric: Mapping[str, Any]) -> tuple[str, ...]:
    unit = metric["unit"]
    sides = (f"{units.value(metric[f'{s}_median'], unit)} ({metric[f'{s}_launches']})" for s in ("a", "b"))
    noise = "unknown" if metric["noise"] is None else f"{units.share(metric['noise'])} ({metric['noise_basis']})"
    slowdown = changes.slowdown(1.0, 1.0 + metric["change"], metric["better"])
    is_larger = {None: "unknown", True: "yes", False: "no"}[metric["is_larger_than_noise"]]
    return (metric["name"], *sides, changes.signed(slowdown), noise, is_larger)


def _meanwhile(timeline: Mapping[str, Any]) -> str:
    by_state = {
        state: [i["what"] for i in timeline["items"] if i["state"] == state] for state in ("changed", "unknown")
    }
    changed = ", ".join(by_state["changed"]) or "nothing that can be seen"
    more = f"; unknown: {', '.join(by_state['unknown'])}" if by_state["unknown"] else ""
    return f"changed since {timeline['since']}: {changed}{more} (perfguard timeline --since {timeline['since']})"


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [columns, (":--",) * len(columns), *(tuple(map(foreign.markdown, row)) for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
