"""What an explanation lets people conclude, what it does not, the command to run next, and its JSON. Pure words."""

import math
import re
import shlex
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from perfguard import changes
from perfguard.explaining import facts as f
from perfguard.explaining.explanation import NOT_SET, REDACTED, Difference, Explanation, MetricChange
from perfguard.protocol import matters

SCHEMA = "perfguard/explanation@1"
DIGEST = re.compile(r"\b[0-9a-f]{40,64}\b")


def explanation_json(found: Explanation, timeline: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Schema perfguard/explanation@1. `timeline`: what changed meanwhile, where something is unknown."""
    can, cannot = conclusions(found)
    return {
        "schema": SCHEMA,
        "a": _side(found.a),
        "b": _side(found.b),
        "metrics": [_metric(change) for change in found.changes],
        "hypotheses": [
            {
                "hypothesis": hypothesis.name,
                "state": hypothesis.state,
                "detail": hypothesis.detail,
                "fields": [_difference(difference) for difference in hypothesis.differences],
            }
            for hypothesis in found.hypotheses
        ],
        "conclusions": {"can": can, "cannot": cannot},
        "next": next_step(found),
        "timeline": dict(timeline) if timeline else None,
    }


def _side(facts: f.Facts) -> dict[str, Any]:
    names = ("label", "id", "side", "commit", "created_at", "workload")
    return {name: getattr(facts, name) for name in names}


def _metric(change: MetricChange) -> dict[str, Any]:
    judged = change.judged
    return {
        "name": change.metric.name,
        "unit": change.metric.unit,
        "better": change.metric.better,
        "a_median": median(change.a),
        "b_median": median(change.b),
        "a_launches": len(change.a),
        "b_launches": len(change.b),
        "change": math.expm1(judged.change),
        "noise": judged.noise,
        "noise_basis": judged.basis,
        "tolerance": None if judged.tolerance is None else math.expm1(judged.tolerance),
        "is_larger_than_noise": judged.is_larger,
    }


def _difference(difference: Difference) -> dict[str, Any]:
    names = ("field", "a", "b", "influence", "kind", "note")
    return {name: getattr(difference, name) for name in names}


def conclusions(found: Explanation) -> tuple[str, str]:
    """What can be concluded, and what cannot: a few sentences each."""
    differing = [h.name for h in found.hypotheses if h.state == "differs"]
    ruled_out = [h.name for h in found.hypotheses if h.state == "ruled out" and h.name != f.NOISE]
    unknown = [h.name for h in found.hypotheses if h.state == "unknown" and h.name != f.NOISE]
    can = [_numbers(found)]
    if differing:
        first = found.differences[0]
        can.append(
            f"The records differ in {_listed(differing)}, first in {first.field} ({cut(first.a)} → {cut(first.b)})."
        )
    elif not unknown:
        can.append("Nothing that was recorded differs.")
    if ruled_out:
        can.append(f"Ruled out: {_listed(ruled_out)}.")
    cannot = []
    if differing:
        cannot.append("That any of these made the difference: records show what differs, measuring shows what matters.")
    if unknown:
        cannot.append(f"Anything about {_listed(unknown)}: it was not recorded.")
    if not differing:
        cannot.append("That either number is right: A was not measured now.")
    return " ".join(part for part in can if part), " ".join(cannot)


def _numbers(found: Explanation) -> str:
    noise = next(h for h in found.hypotheses if h.name == f.NOISE)
    if not found.changes:
        return "No metric was measured on both sides, so there is no difference in numbers to explain."
    primary = [change for change in found.changes if change.metric.primary] or list(found.changes)
    change = max(primary, key=lambda one: abs(one.judged.change))
    slowdown = changes.slowdown(1.0, math.exp(change.judged.change), change.metric.better)
    moved = f"{change.metric.name} went from {median(change.a):.4g} to {median(change.b):.4g} {change.metric.unit}"
    basis = {
        "ruled out": "more than launch noise makes",
        "possible": "no more than launch noise makes by itself, so there may be nothing to explain",
        "unknown": "and how much launch noise makes is not known",
    }[noise.state]
    return f"{moved} (slowdown {changes.signed(slowdown)}), {basis}."


def without_values(explanation: Mapping[str, Any]) -> dict[str, Any]:
    """Of variables that a command inherited and that no library is known to read, a stranger learns the names."""

    def masked(field: Mapping[str, Any]) -> dict[str, Any]:
        values = {side: field[side] if field[side] == "not set" else "set" for side in ("a", "b")}
        return dict(field) if matters(field["field"]) or not field["field"].isidentifier() else {**field, **values}

    hypotheses = [
        {**one, "fields": [masked(field) for field in one["fields"]]} if one["hypothesis"] == "environment" else one
        for one in explanation["hypotheses"]
    ]
    return {**explanation, "hypotheses": hypotheses}


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def cut(text: str) -> str:
    """A digest is told from another by its first digits."""
    text = DIGEST.sub(lambda found: found.group()[:12], text)
    return text if len(text) <= 60 else f"{text[:57]}..."


def next_step(found: Explanation) -> str:
    """The command that brings most now: it measures, for a record never convicts.

    A stored run as base brings its workload, tree, parameters and environment along. Where several settings differ,
    the experiment tells them apart.
    """
    a, b = found.a, found.b
    if not a.id:
        return f"perfguard compare {b.id}:{b.side} HEAD"
    whole = " ".join([f"perfguard compare {a.id}:{a.side} {b.commit[:12] or 'HEAD'}", *_asked(b)])
    noise = next(h for h in found.hypotheses if h.name == f.NOISE)
    if noise.state == "possible" or not b.id:
        return whole
    if _num_factors(found) > 1:
        return f"perfguard explain {a.id}:{a.side} {b.id}:{b.side} --experiment"
    first = next((difference for difference in found.differences if difference.kind), None)
    if first is not None and first.kind == "env" and first.a == NOT_SET and not first.b.startswith("0: "):
        inherited = () if first.field in b.asked else (f"--head-env {shlex.quote(f'{first.field}={first.b}')}",)
        return " ".join([whole, *inherited])
    if first is None or first.kind not in ("env", "param") or first.a == NOT_SET or first.a.startswith("0: "):
        return whole
    # Only the first field is toggled: everything else is B's on both sides.
    name = first.field.removeprefix("param ")
    option = f"--base-{'env' if first.kind == 'env' else 'set'} {shlex.quote(f'{name}={first.a}')}"
    return " ".join([f"perfguard compare {b.id}:{b.side} {b.commit[:12]}", option, *_asked(b)])


def _num_factors(found: Explanation) -> int:
    """How many differing things an experiment could set: a variable or parameter each, commit, patch, Python."""
    kinds = [(d.kind, d.field if d.kind in ("env", "param") else "") for d in found.differences if d.kind]
    return len(set(kinds))


def _asked(facts: f.Facts) -> list[str]:
    """Its variables for head. The value of a secret is not stored: its name takes it from the environment."""
    return [
        f"--head-env {name if value == REDACTED else shlex.quote(f'{name}={value}')}"
        for name, value in sorted(facts.asked.items())
    ]
