"""A Chrome trace of an engine's own profiler -> what the time of a cycle went to. Pure; reads no file.

Kernels are sorted by what their names say, which is a habit of their authors and no promise: what no pattern knows is
"other". Overlapping kernels count in full in their kinds, and once in `busy_s`.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

# The first that fits.
KINDS = {
    "all_reduce": re.compile(
        r"nccl|all_?reduce|cross_device_reduce|one_?shot|two_?shot|all_?gather|reduce_?scatter", re.I
    ),
    "moe": re.compile(r"moe|expert|grouped_?gemm|topk_?softmax|marlin_moe", re.I),
    "attention": re.compile(r"attn|attention|fmha|mla|paged|flash|kv_cache", re.I),
    "gemm": re.compile(r"gemm|cutlass|cublas|matmul|nvjet|marlin", re.I),
}
# Annotations of the engine that name a phase of a cycle.
PHASES = {
    "draft": re.compile(r"draft", re.I),
    "verify": re.compile(r"verify", re.I),
    "decode": re.compile(r"decode", re.I),
}
# What vLLM (0.10 to 0.32) calls one step of its scheduler. SGLang marks forwards, of which a cycle has several.
STEP = re.compile(r"^execute_(context|new)_\d")
ANNOTATIONS = ("gpu_user_annotation", "user_annotation")
MICRO = 1e-6


def num_steps(trace: Any) -> int:
    """Steps that the host began while it was traced; 0 where the engine does not mark them."""
    begun = [e for e in _events(trace) if e.get("cat") == "user_annotation" and STEP.search(str(e["name"]))]
    return len(_of_one_device(begun))


def _events(trace: Any) -> list[Mapping[str, Any]]:
    found = trace.get("traceEvents") if isinstance(trace, Mapping) else None
    return [event for event in found if _is_whole(event)] if isinstance(found, list) else []


def summed(trace: Any, cycles: int) -> dict[str, float]:
    """Seconds a cycle: "busy_s", "gaps_s", "all_reduce_s", "moe_s", "attention_s", "gemm_s", "other_s", of one device;
    "decode_s", "verify_s", "draft_s" where annotations name them. Empty where the trace holds no kernel.

    `cycles`: how many were profiled.
    """
    events = _events(trace)
    kernels = _of_one_device([event for event in events if event.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")])
    if not kernels or cycles < 1:
        return {}
    found = {"busy_s": _covered(kernels), "gaps_s": _span(kernels) - _covered(kernels)}
    for event in kernels:
        name = f"{kind_of(str(event['name']))}_s"
        found[name] = found.get(name, 0.0) + float(event["dur"])
    for phase, pattern in PHASES.items():
        own = _annotated(events, pattern)
        if own:
            found[f"{phase}_s"] = _covered(own)
    return {name: micros * MICRO / cycles for name, micros in found.items()}


def kind_of(name: str) -> str:
    return next((kind for kind, pattern in KINDS.items() if pattern.search(name)), "other")


def _is_whole(event: Any) -> bool:
    if not isinstance(event, Mapping) or event.get("ph") != "X" or "name" not in event:
        return False
    start, length = event.get("ts"), event.get("dur")
    return _is_number(start) and _is_number(length) and length >= 0


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _of_one_device(kernels: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """A merged trace holds several ranks: the first speaks for all."""
    first = min((str(event.get("pid")) for event in kernels), default="")
    return [event for event in kernels if str(event.get("pid")) == first]


def _annotated(events: Iterable[Mapping[str, Any]], pattern: re.Pattern[str]) -> list[Mapping[str, Any]]:
    """As the device saw them, else as the host did."""
    named = [event for event in events if event.get("cat") in ANNOTATIONS and pattern.search(str(event["name"]))]
    of_device = [event for event in named if event["cat"] == ANNOTATIONS[0]]
    return _of_one_device(of_device or named)


def _span(events: Sequence[Mapping[str, Any]]) -> float:
    return max(float(e["ts"]) + float(e["dur"]) for e in events) - min(float(e["ts"]) for e in events)


def _covered(events: Sequence[Mapping[str, Any]]) -> float:
    """Length of the union of the events' intervals."""
    total, until = 0.0, float("-inf")
    for event in sorted(events, key=lambda e: float(e["ts"])):
        start, end = float(event["ts"]), float(event["ts"]) + float(event["dur"])
        total += max(0.0, end - max(start, until))
        until = max(until, end)
    return total
