"""What the engines of two arms said of themselves -> what differs and what was not as expected. Pure.

A trial's record holds it under "engine", by mode. Must not accuse the code of what a changed default explains: it only
says that there is one. What one side does not tell is unknown, not different.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from perfguard.records import Reason, Side, Trial

SIDES: tuple[Side, Side] = ("base", "head")
FULL = "full"
PHASES = ("decode", "verify", "draft")
GRAPH_WORDS = {"none": "without CUDA graphs (eager)", "piecewise": "in piecewise CUDA graphs", "full": "in full graphs"}
GPU_DEVICES = ("cuda", "hip", "rocm")
# Asked for by a flag, other graphs than full ones are no surprise.
GRAPH_FLAGS = ("disable_cuda_graph", "enforce_eager", "cuda_graph_backend_decode", "cuda_graph_config")
GRAPH_FLAGS_NESTED = ("compilation_config", "cc", "O")
# Arguments that are known to change speed are named first.
INFLUENCE = (
    "attention_backend", "cuda_graph", "cudagraph", "enforce_eager", "moe", "quantization", "kv_cache_dtype", "dtype",
    "speculative", "tp_size", "tensor_parallel", "custom_all_reduce", "chunked_prefill", "mem_fraction", "max_running",
    "compilation",
)  # fmt: skip
SHOWN = 6
# Free memory decides how many tokens fit: below this the difference says nothing.
KV_SHARE = 0.02
TOLD = {"attention_backend": "attention backend", "moe_config": "MoE kernel settings", "quantization": "quantisation"}


@dataclass(frozen=True, kw_only=True)
class Difference:
    """An argument as each side resolved it. A side that has no such argument is None in `has`."""

    name: str
    base: Any
    head: Any
    has: tuple[bool, bool] = (True, True)

    @property
    def text(self) -> str:
        return f"{self.name} {_shown(self.base)} → {_shown(self.head)}"


def engine_json(trials: Sequence[Trial], *, is_pinned: bool = False) -> dict[str, Any]:
    """{"lines", "findings", "differences", "sides"}; empty where no engine was measured.

    `lines` are for people, the first first. `sides[side][mode]`: the record of its last launch that tells of itself.
    """
    told = {side: _told(trials, side) for side in SIDES}
    modes = list(dict.fromkeys(mode for side in SIDES for mode in told[side]))
    if not modes:
        return {}
    last = {side: {mode: records[-1] for mode, records in told[side].items()} for side in SIDES}
    findings = [one for mode in modes for one in _findings(mode, told, last)]
    found = {mode: differences(*(last[side].get(mode, {}) for side in SIDES)) for mode in modes}
    graphs = [one.text for one in findings if one.code == "ENGINE_GRAPH"]
    others = [one.text for one in findings if one.code != "ENGINE_GRAPH"]
    first = "; ".join([*graphs, *_arguments(found, last, is_pinned=is_pinned)])
    return {
        "lines": [line for line in (first, *others, *trace_lines(trials)) if line],
        "findings": [{"code": one.code, "text": one.text} for one in findings],
        "differences": {mode: [[d.name, d.base, d.head, list(d.has)] for d in of] for mode, of in found.items() if of},
        "sides": {side: {mode: _summary(record) for mode, record in last[side].items()} for side in SIDES},
    }


def trace_lines(trials: Sequence[Trial]) -> list[str]:
    """What the engines' own profilers showed, side by side, one line a mode: behind the last window of each side.

    A trial whose trace did not come is passed over for an earlier one, and why it did not is told.
    """
    told: dict[str, dict[Side, Mapping[str, Any]]] = {}
    for trial in trials:
        for mode, record in (trial.record.get("engine") or {}).items():
            trace = record.get("trace") if trial.status == "ok" else None
            if trace:
                of_mode = told.setdefault(mode, {})
                of_mode[trial.side] = trace if "seconds" in trace else {**of_mode.get(trial.side, {}), **trace}
    return [_trace_line(mode, by_side) for mode, by_side in told.items()]


def lacks_trace(trial: Trial) -> bool:
    """Whether a profiler was asked for a trace that did not come."""
    return any("error" in (record.get("trace") or {}) for record in (trial.record.get("engine") or {}).values())


def _trace_line(mode: str, by_side: Mapping[Side, Mapping[str, Any]]) -> str:
    seconds = {side: by_side.get(side, {}).get("seconds", {}) for side in SIDES}
    problems = [
        f"{side}: {'of an earlier launch, the last: ' if 'seconds' in one else ''}{one['error']}"
        for side, one in by_side.items()
        if "error" in one
    ]
    names = list(dict.fromkeys([*seconds["base"], *seconds["head"]]))
    both = ("/".join(_millis(seconds[side].get(name)) for side in SIDES) for name in names)
    parts = [f"{name.removesuffix('_s').replace('_', '-')} {pair}" for name, pair in zip(names, both, strict=True)]
    where = "" if mode == "load" else f" of {mode}"
    return f"traced cycles{where}, ms a cycle, base/head: {', '.join([*parts, *problems])}"


def _millis(seconds: float | None) -> str:
    return "unknown" if seconds is None else f"{1000 * seconds:.3g}"


def engine_note(told: Mapping[str, Any]) -> str:
    """What `engine_json` means for the conclusion; "" where nothing is to be said."""
    if told.get("differences"):
        return "Code and changed arguments of the engine are judged together: they were not taken apart."
    return ""


def _told(trials: Sequence[Trial], side: Side) -> dict[str, list[Mapping[str, Any]]]:
    """Mode -> records of the side's launches in their order; measured ones, else first runs."""
    own = [t for t in trials if t.side == side and isinstance(t.record.get("engine"), Mapping)]
    measured = [t for t in own if t.stage > 0 and t.status == "ok"] or [t for t in own if t.stage > 0] or own
    found: dict[str, list[Mapping[str, Any]]] = {}
    for trial in measured:
        for mode, record in trial.record["engine"].items():
            if isinstance(record, Mapping):
                found.setdefault(mode, []).append(record)
    return found


def differences(base: Mapping[str, Any], head: Mapping[str, Any]) -> list[Difference]:
    """Arguments that the sides resolved differently, what is known to change speed first.

    One that a side does not have counts where the other has it set to something.
    """
    one, other = base.get("args"), head.get("args")
    if not one or not other:
        return []
    found = []
    for name in {**one, **other}:
        has = (name in one, name in other)
        before, after = one.get(name), other.get(name)
        if before != after and (all(has) or (before or after) not in (None, False, "", "[]", "{}")):
            found.append(Difference(name=name, base=before, head=after, has=has))
    return sorted(found, key=lambda d: (not all(d.has), _place(d.name), d.name))


def _place(name: str) -> int:
    return next((place for place, part in enumerate(INFLUENCE) if part in name), len(INFLUENCE))


def _arguments(
    found: Mapping[str, Sequence[Difference]], last: Mapping[Side, Mapping[str, Mapping[str, Any]]], *, is_pinned: bool
) -> list[str]:
    """One text for modes that differ in the same."""
    by_text: dict[str, list[str]] = {}
    for mode, of_mode in found.items():
        records = [last[side].get(mode, {}) for side in SIDES]
        by_text.setdefault(_words(of_mode, records, is_pinned=is_pinned), []).append(mode)
    if len(by_text) == 1:
        return list(by_text)
    return [f"{', '.join(modes)}: {text}" for text, modes in by_text.items()]


def _words(found: Sequence[Difference], records: Sequence[Mapping[str, Any]], *, is_pinned: bool) -> str:
    lacking = [side for side, record in zip(SIDES, records, strict=True) if not record.get("args")]
    if lacking:
        return f"arguments as the engine resolved them: {' and '.join(lacking)} did not tell, so a default may differ"
    if not found:
        return f"arguments as the engine resolved them: the same on both sides ({len(records[0]['args'])} compared)"
    common = [d for d in found if all(d.has)]
    shown = "; ".join(d.text for d in common[:SHOWN])
    more = f" and {len(common) - SHOWN} more" if len(common) > SHOWN else ""
    only = [_only(side, place, found) for place, side in enumerate(SIDES)]
    parts = [part for part in (f"{shown}{more}", *only) if part]
    advice = "" if is_pinned or not common else " (--pin-args base takes them out)"
    return f"arguments as the engine resolved them differ: {'; '.join(parts)}{advice}"


def _only(side: Side, place: int, found: Sequence[Difference]) -> str:
    own = [d for d in found if not all(d.has) and d.has[place]]
    if not own:
        return ""
    named = ", ".join(f"{d.name}={_shown((d.base, d.head)[place])}" for d in own[:2])
    more = f" and {len(own) - 2} more" if len(own) > 2 else ""
    return f"only {side} has {named}{more}"


def _shown(value: Any) -> str:
    text = "none" if value is None else str(value)
    return text if len(text) <= 40 else f"{text[:37]}…"


def _findings(
    mode: str,
    told: Mapping[Side, Mapping[str, Sequence[Mapping[str, Any]]]],
    last: Mapping[Side, Mapping[str, Mapping[str, Any]]],
) -> list[Reason]:
    head_of = f"{mode}: " if mode not in ("", "load") else ""
    records = {side: last[side].get(mode, {}) for side in SIDES}
    texts = [("ENGINE_GRAPH", text) for text in _graphs(records)]
    texts += [("ENGINE_DIFFERS", text) for text in _differing(records)]
    texts += [("ENGINE_OVERWROTE", text) for text in _overwrote(records)]
    texts += [("ENGINE_UNSTABLE", text) for side in SIDES for text in _unstable(side, told[side].get(mode, ()))]
    return [Reason(code=code, text=f"{head_of}{text}") for code, text in texts]


def _graphs(records: Mapping[Side, Mapping[str, Any]]) -> list[str]:
    """Phases that ran eager or piecewise where full graphs could be expected."""
    found = []
    for phase in PHASES:
        ran = {side: str(record.get("graphs", {}).get(phase, "")) for side, record in records.items()}
        short = [side for side in SIDES if ran[side] and ran[side] != FULL and _is_full_expected(side, ran, records)]
        if not short:
            continue
        if len(short) == len(SIDES) and ran["base"] == ran["head"]:
            found.append(f"{phase} of both sides ran {GRAPH_WORDS[ran['base']]} where full ones were expected")
            continue
        for side in short:
            other = ran["head" if side == "base" else "base"]
            against = f"{'base' if side == 'head' else 'head'} {GRAPH_WORDS[other]}" if other else "full ones expected"
            found.append(f"{phase} of {side} ran {GRAPH_WORDS[ran[side]]}, {against}")
    return found


def _is_full_expected(side: Side, ran: Mapping[Side, str], records: Mapping[Side, Mapping[str, Any]]) -> bool:
    """The other side has them, or it is a GPU and nobody asked for anything else."""
    if FULL in ran.values():
        return True
    record = records[side]
    return str(record.get("device", "")) in GPU_DEVICES and not is_graph_asked(record.get("asked", {}))


def is_graph_asked(asked: Mapping[str, str]) -> bool:
    """Whether the command line itself chose how graphs are captured."""
    nested = any("graph" in str(asked.get(name, "")) for name in GRAPH_FLAGS_NESTED)
    return nested or any(name in asked for name in GRAPH_FLAGS)


def _differing(records: Mapping[Side, Mapping[str, Any]]) -> list[str]:
    base, head = records["base"], records["head"]
    found = [
        f"{words}: base {base[key]}, head {head[key]}"
        for key, words in TOLD.items()
        if base.get(key) and head.get(key) and base[key] != head[key]
    ]
    sizes = [record.get("kv_tokens") for record in (base, head)]
    one, other = sizes
    if isinstance(one, int) and isinstance(other, int) and abs(one - other) > KV_SHARE * max(one, other):
        found.append(f"room for tokens in the KV cache: base {one:,}, head {other:,}")
    return found


def _overwrote(records: Mapping[Side, Mapping[str, Any]]) -> list[str]:
    """Variables that the engine itself set anew for its workers, where the sides came out differently."""
    base, head = (records[side].get("overwritten", {}) for side in SIDES)
    found = []
    for name in sorted({**base, **head}):
        one, other = (_without_folder(side.get(name, {}).get("worker")) for side in (base, head))
        if one != other:
            words = [f"{side} {_set(value)}" for side, value in zip(SIDES, (one, other), strict=True)]
            found.append(f"{name} in the workers is the engine's own doing: {', '.join(words)}")
    return found


def _without_folder(value: str | None) -> str | None:
    """Each side's libraries and caches lie in places of its own."""
    return value.rstrip("/:").rpartition("/")[2] if value else value


def _set(value: str | None) -> str:
    return "left as it was" if value is None else f"set to {value!r}" if value else "removed"


def _unstable(side: Side, records: Sequence[Mapping[str, Any]]) -> list[str]:
    """What launches of one side chose differently: a reason for modes between launches."""
    found = []
    for key, words in {**TOLD, "graphs": "CUDA graphs"}.items():
        chosen = Counter(_plain(record[key]) for record in records if record.get(key))
        if len(chosen) > 1:
            counts = ", ".join(f"{value} in {number}" for value, number in chosen.most_common())
            found.append(f"launches of {side} chose different {words}: {counts}")
    return found


def _plain(value: Any) -> str:
    return ", ".join(f"{k} {v}" for k, v in value.items()) if isinstance(value, Mapping) else str(value)


def _summary(record: Mapping[str, Any]) -> dict[str, Any]:
    """What a report shows of a server; all of it is in the trial's record."""
    shown = ("name", "version", "model", "device", "graphs", "kv_tokens", "args_origin", "prefix_cache", *TOLD)
    return {name: record[name] for name in shown if record.get(name) not in (None, "", {})}
