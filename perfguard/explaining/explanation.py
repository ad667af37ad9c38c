"""Facts of two runs -> hypotheses: ruled out, differs (with fields, most influential first), unknown. Pure.

A difference in a record is no cause: only an experiment shows what matters. Must not say more than that.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import log1p
from typing import Any, Literal

from perfguard.explaining import facts as f
from perfguard.explaining.facts import Facts
from perfguard.explaining.influence import ORDER, influence_of
from perfguard.explaining.surroundings import is_alike
from perfguard.records import Metric
from perfguard.stats.stored import StoredChange, judge_stored

# "possible" is a state of noise alone: the numbers do not differ by more than it.
State = Literal["ruled out", "differs", "unknown", "possible"]
# What an experiment can set; "" for what it cannot.
Kind = Literal["", "env", "param", "commit", "patch", "python"]
# Beginning of fields that are no variables: what NCCL told, where it told anything.
NCCL_SAYS = "NCCL says "
NOT_SET, NOT_RECORDED = "not set", "not recorded"
REDACTED = "<redacted>"
SHOWN = 3


@dataclass(frozen=True, kw_only=True)
class Difference:
    """One field in which the records differ. `influence`: place in the documented order, 0 first. `note`: where a
    variable was changed on its way.
    """

    hypothesis: str
    field: str
    a: str
    b: str
    influence: int
    kind: Kind = ""
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class Hypothesis:
    """`detail`: the evidence in words, without the fields of `differences`."""

    name: str
    state: State
    detail: str
    differences: tuple[Difference, ...] = ()


@dataclass(frozen=True, kw_only=True)
class MetricChange:
    metric: Metric
    a: tuple[float, ...]
    b: tuple[float, ...]
    judged: StoredChange


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """`hypotheses`: what differs first (by its most influential field), then what is unknown, then the ruled out."""

    a: Facts
    b: Facts
    changes: tuple[MetricChange, ...]
    hypotheses: tuple[Hypothesis, ...]

    @property
    def differences(self) -> tuple[Difference, ...]:
        """Of all hypotheses, most influential first."""
        found = (difference for hypothesis in self.hypotheses for difference in hypothesis.differences)
        return tuple(sorted(found, key=lambda difference: difference.influence))


@dataclass(frozen=True, kw_only=True)
class Acquittal:
    """A stored comparison that measured two trees as EQUIVALENT within `margin` (0.02 is two percent)."""

    id: str
    margin: float


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What is known beside the two records. `noise[metric]`: launch noise from this machine's history.

    `num_changed_files` between the two trees, where the repository could tell. `acquittal`: of these two trees.
    """

    noise: Mapping[str, float] = field(default_factory=dict)
    num_changed_files: int | None = None
    acquittal: Acquittal | None = None


def explain(a: Facts, b: Facts, evidence: Evidence | None = None) -> Explanation:
    """A is the run that is believed, B the one that is questioned."""
    known = evidence or Evidence()
    changes = _changes(a, b, known.noise)
    hypotheses = [_code(a, b, known, changes)]
    hypotheses += [_hypothesis(name, a, b) for name in f.HYPOTHESES if name not in (f.CODE, f.NOISE)]
    hypotheses.append(_noise(changes))
    return Explanation(a=a, b=b, changes=changes, hypotheses=tuple(sorted(hypotheses, key=_order)))


def _order(hypothesis: Hypothesis) -> tuple[int, int, int]:
    states = {"differs": 0, "possible": 1, "unknown": 2, "ruled out": 3}
    first = min((difference.influence for difference in hypothesis.differences), default=len(ORDER))
    return states[hypothesis.state], first, f.HYPOTHESES.index(hypothesis.name)


def _changes(a: Facts, b: Facts, noise: Mapping[str, float]) -> tuple[MetricChange, ...]:
    metrics = [m for m in (a.metrics or b.metrics) if not m.exact and a.values.get(m.name) and b.values.get(m.name)]
    return tuple(
        MetricChange(
            metric=metric,
            a=tuple(a.values[metric.name]),
            b=tuple(b.values[metric.name]),
            judged=judge_stored(a.values[metric.name], b.values[metric.name], noise.get(metric.name)),
        )
        for metric in metrics
    )


def _code(a: Facts, b: Facts, known: Evidence, changes: Sequence[MetricChange]) -> Hypothesis:
    plain = _hypothesis(f.CODE, a, b)
    one, other = a.fields.get(f.CODE, {}), b.fields.get(f.CODE, {})
    if plain.state == "unknown":
        return plain
    if one.get("tree") == other.get("tree"):
        return Hypothesis(name=f.CODE, state="ruled out", detail=f"the same tree {str(one.get('tree'))[:12]}")
    if a.loaded and a.loaded == b.loaded:
        text = f"the trees differ, but all {len(a.loaded)} files that ran are the same to the byte"
        return Hypothesis(name=f.CODE, state="ruled out", detail=text)
    if known.acquittal is not None and _suffices(known.acquittal, changes):
        measured = f"{known.acquittal.id} measured them as EQUIVALENT within {known.acquittal.margin * 100:g} %"
        return Hypothesis(name=f.CODE, state="ruled out", detail=f"the trees differ, but {measured}")
    count = known.num_changed_files
    text = "" if count is None else f"{count} changed file{'s' if count != 1 else ''}"
    kept = tuple(d for d in plain.differences if d.field != "tree") or plain.differences
    return Hypothesis(name=f.CODE, state="differs", detail=text, differences=kept)


def _suffices(acquittal: Acquittal, changes: Sequence[MetricChange]) -> bool:
    """A margin says nothing of a difference that is hardly larger: code may then be most of it."""
    sizes = [abs(change.judged.change) for change in changes if change.judged.is_larger is not False]
    return all(log1p(acquittal.margin) <= size / 2 for size in sizes)


def _hypothesis(name: str, a: Facts, b: Facts) -> Hypothesis:
    lacking = [f"{side}: {why}" for side, facts in (("A", a), ("B", b)) if (why := facts.unknown.get(name))]
    differences = _differences(name, a, b)
    if differences:
        return Hypothesis(name=name, state="differs", detail="; ".join(lacking), differences=differences)
    if lacking:
        return Hypothesis(name=name, state="unknown", detail="; ".join(lacking))
    return _alike(name, _fields(name, a, b), _fields(name, b, a))


def _fields(name: str, facts: Facts, other: Facts) -> Mapping[str, Any]:
    """Those recorded; of the environment also what the other side was asked for and this one inherited."""
    found = facts.fields.get(name, {})
    if name != f.ENVIRONMENT or not facts.given:
        return found
    return {variable: facts.given[variable] for variable in other.asked if variable in facts.given} | dict(found)


def _alike(name: str, one: Mapping[str, Any], other: Mapping[str, Any]) -> Hypothesis:
    """Nothing differs and nothing is said to lack: ruled out, unless nothing was there to be put side by side."""
    both, alone = one.keys() & other.keys(), sorted(one.keys() ^ other.keys())
    if not both and not alone:
        nothing = "no GPU was there on either side" if name == f.GPU_STATE else "nothing was set on either side"
        return Hypothesis(name=name, state="ruled out", detail=nothing)
    apart = f"recorded on one side only: {', '.join(alone[:SHOWN])}" if alone else ""
    if not both:
        return Hypothesis(name=name, state="unknown", detail=apart)
    alike = f"{len(both)} recorded field{'s are' if len(both) > 1 else ' is'} alike"
    return Hypothesis(name=name, state="ruled out", detail=f"{alike}; {apart}" if apart else alike)


def _differences(name: str, a: Facts, b: Facts) -> tuple[Difference, ...]:
    one, other = _fields(name, a, b), _fields(name, b, a)
    found = []
    for key in sorted(one.keys() | other.keys()):
        if _differs(name, key, one, other, a, b):
            found.append(
                Difference(
                    hypothesis=name,
                    field=key,
                    a=_shown(name, key, one),
                    b=_shown(name, key, other),
                    influence=influence_of(name, key),
                    kind=_kind(name, key),
                    note=_note(key, a, b) if name == f.ENVIRONMENT else "",
                )
            )
    return tuple(sorted(found, key=lambda difference: difference.influence))


def _differs(name: str, key: str, one: Mapping[str, Any], other: Mapping[str, Any], a: Facts, b: Facts) -> bool:
    """A field that one side never recorded is no difference; a variable or package that one side lacks is."""
    if key not in one or key not in other:
        whole = name == f.ENVIRONMENT and all(_would_be_known(key, x) for x in (a, b))
        listed = whole or (name == f.SOFTWARE and key.startswith("package "))
        listed = listed or (name == f.METHOD and key.startswith(("param ", "metric ")))
        return listed and not (a.unknown.get(name) or b.unknown.get(name))
    x, y = one[key], other[key]
    if REDACTED in (x, y):
        return False  # nothing can be told of a value that is not stored
    if name in (f.GPU_STATE, f.NEIGHBOURS):
        return not is_alike(key, x, y)
    return bool(x != y)


def _would_be_known(variable: str, facts: Facts) -> bool:
    is_whole = facts.given is not None and not variable.startswith(NCCL_SAYS)
    return is_whole or variable.startswith(facts.reported) or variable in facts.asked


def _shown(name: str, key: str, fields: Mapping[str, Any]) -> str:
    if key in fields:
        return str(fields[key]) or "none"
    return {f.ENVIRONMENT: NOT_SET, f.SOFTWARE: "not installed", f.METHOD: "none"}.get(name, NOT_RECORDED)


def _kind(name: str, key: str) -> Kind:
    if name == f.ENVIRONMENT and not key.startswith(NCCL_SAYS):
        return "env"
    if name == f.METHOD and key.startswith("param "):
        return "param"
    if name == f.SOFTWARE and (key == "interpreter" or key.startswith(("package ", "torch", "python"))):
        return "python"
    return {"commit": "commit", "tree": "commit", "patch": "patch"}.get(key, "") if name == f.CODE else ""  # type: ignore[return-value]


def _note(variable: str, a: Facts, b: Facts) -> str:
    notes = [f"in {side} {facts.places[variable]}" for side, facts in (("A", a), ("B", b)) if variable in facts.places]
    return "; ".join(notes)


def _noise(changes: Sequence[MetricChange]) -> Hypothesis:
    """Of the primary metric that moved most against what noise makes."""
    if not changes:
        return Hypothesis(name=f.NOISE, state="unknown", detail="no metric was measured on both sides")
    primary = [change for change in changes if change.metric.primary] or list(changes)
    judged = [change for change in primary if change.judged.tolerance is not None]
    if not judged:
        return Hypothesis(name=f.NOISE, state="unknown", detail="too few launches, and no history of launch noise here")
    larger = [change for change in judged if change.judged.is_larger]
    names = ", ".join(change.metric.name for change in larger or judged)
    if larger:
        return Hypothesis(
            name=f.NOISE, state="ruled out", detail=f"{names}: the difference is larger than launch noise"
        )
    return Hypothesis(name=f.NOISE, state="possible", detail=f"{names}: it moved by no more than launch noise")
