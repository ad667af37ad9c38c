"""Options of `compare` that are of engines only: --age, --thin, --pin-args, --trace. Parses; measures nothing."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from perfguard.config import parse_duration_s, parse_pairs
from perfguard.errors import UsageError
from perfguard.records import Workload
from perfguard.workloads import with_params

# A draft of random weights is never right. A usual length, so that cycles are as many as usual.
THIN_ACCEPT_LENGTH = 2.0
THIN_KEYS = ("layers", "accept", "field")
THIN_STEP = "--thin layers=8"


def engine_workload(workload: Workload, asked: Mapping[str, Any]) -> Workload:
    """With what --age and --thin change. Raises UsageError for a workload that is no engine."""
    age, thin, pinned = (str(asked.get(name) or "") for name in ("age", "thin", "pin_args"))
    given = [option for option, value in (("--age", age), ("--thin", thin), ("--pin-args", pinned)) if value]
    given += ["--trace"] if asked.get("trace") else []
    if asked.get("no_full_size") and not thin:
        raise UsageError("--no-full-size leaves out what follows a slice, and nothing is --thin", "leave it out")
    if not given:
        return workload
    if workload.runner != "engine":
        raise UsageError(f"{given[0]} is for engines, and {workload.name} is none", "perfguard workloads")
    if pinned not in ("", "base"):
        raise UsageError(f"--pin-args {pinned!r}: only base's arguments can be pinned", "--pin-args base")
    changed = aged(thinned(workload, thin), age)
    return with_params(changed, {"trace": True}) if asked.get("trace") else changed


def aged(workload: Workload, age: str) -> Workload:
    """The load comes before the server counts as ready, so its time is added to that limit."""
    if not age:
        return workload
    age_s = parse_duration_s(age, "--age")
    longer = replace(workload, ready_timeout_s=workload.ready_timeout_s + age_s)
    return with_params(longer, {"age_s": age_s})


def thinned(workload: Workload, thin: str) -> Workload:
    """layers=8[,accept=2.5][,field=text_config.num_hidden_layers]: accept=0 leaves acceptance as it is."""
    if not thin:
        return workload
    pairs = parse_pairs(thin.split(","), "--thin")
    unknown = [name for name in pairs if name not in THIN_KEYS]
    if unknown or "layers" not in pairs or not pairs["layers"].isdecimal() or int(pairs["layers"]) < 1:
        what = f"it knows {', '.join(THIN_KEYS)}, layers as a whole number of at least 1"
        raise UsageError(f"--thin {thin!r}: {what}", THIN_STEP)
    if workload.params["engine"] not in ("sglang", "vllm"):
        raise UsageError(f"--thin: {workload.params['engine']} has no weights drawn at random", "leave --thin out")
    changed: dict[str, Any] = {"thin_layers": int(pairs["layers"])}
    if "field" in pairs:
        changed["layers_field"] = pairs["field"]
    speculates = any(mode != "plain" for mode in workload.modes)
    if speculates and not workload.params["synthetic_accept_length"]:
        changed["synthetic_accept_length"] = _accept(pairs.get("accept"))
    return with_params(workload, changed)


def _accept(text: str | None) -> float:
    try:
        length = THIN_ACCEPT_LENGTH if text is None else float(text)
    except ValueError:
        length = -1.0
    if not (length == 0 or 1 <= length <= 64):
        raise UsageError(f"--thin accept={text}: neither 0 nor an accept length of at least 1", f"{THIN_STEP},accept=2")
    return length
