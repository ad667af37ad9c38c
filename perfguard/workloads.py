"""The workloads perfguard brings, and how parameters and commands become one. Pure; reads no file."""

import difflib
import math
import re
import shlex
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from perfguard.engine_workloads import ENGINES
from perfguard.engine_workloads import PARAMS as ENGINE_PARAMS
from perfguard.errors import UsageError
from perfguard.records import Better, Metric, Workload

MODES = ("plain", "eagle3")
NAME_LENGTH = 80
_RATES = r"(^|[\W_])(per[_ ]?s(ec(ond)?)?|throughput|bandwidth|speed|[tqrf]ps)($|[\W_])"
RATE = re.compile(rf"{_RATES}|/ ?s(ec(ond)?)?$", re.IGNORECASE)

_PLAIN = (
    Metric(name="plain_throughput", unit="token/s", better="higher"),
    Metric(name="plain_token_s", unit="s", better="lower", primary=False),
    Metric(name="plain_ttft_s", unit="s", better="lower", primary=False),
)
_EAGLE3 = (
    Metric(name="eagle3_throughput", unit="token/s", better="higher"),
    Metric(name="eagle3_accept_length", unit="token", better="higher", primary=False, exact=True),
    Metric(name="eagle3_cycle_s", unit="s", better="lower", primary=False),
    Metric(name="eagle3_draft_s", unit="s", better="lower", primary=False),
    Metric(name="eagle3_verify_s", unit="s", better="lower", primary=False),
    Metric(name="eagle3_accept_s", unit="s", better="lower", primary=False),
    Metric(name="eagle3_ttft_s", unit="s", better="lower", primary=False),
)

# Twelve layers of each fit one GPU of 80 GB and leave the widths, hence the kernels, as they are.
PRESETS = ("qwen3-30b-a3b", "qwen3-235b-a22b", "mixtral-8x7b")
PRESET_LAYERS = 12


def _preset(name: str) -> Workload:
    """Random weights of real widths in bf16: the timing is real, what is accepted is set by the workload."""
    return Workload(
        name=name,
        runner="tp_moe",
        modes=MODES,
        metrics=_PLAIN + _EAGLE3,
        params={
            "tp": 1,
            "prompts": 4,
            "tokens": 64,
            "num_draft_tokens": 2,
            "dtype": "bfloat16",
            "device": "cuda",
            "num_threads": 1,
            "planted_slowdown": 1.0,
            "batch": 1,
            "target": f"preset:{name}",
            "draft": "",
            "prompt_file": "",
            "layers": PRESET_LAYERS,
            "weights_seed": 0,
            "accept_length": 2.0,
            "accept_rates": "",
            "temperature": 0.0,
            "sampling_seed": 0,
            "kernels": "auto",
            "graphs": "auto",
            "all_reduce": "nccl",
            "pathology": "",
        },
    )


BUILT_IN = (
    Workload(
        name="moe-eagle3",
        runner="tp_moe",
        modes=MODES,
        metrics=_PLAIN + _EAGLE3,
        params={
            "tp": 1,
            "prompts": 4,
            "tokens": 64,
            "num_draft_tokens": 3,
            "dtype": "float32",
            "device": "cpu",
            "num_threads": 1,
            "planted_slowdown": 1.0,
            "batch": 1,
            "pathology": "",
        },
    ),
    *(_preset(name) for name in PRESETS),
    Workload(
        name="fake",
        runner="fake",
        modes=MODES,
        metrics=(_PLAIN[0], _EAGLE3[0], _EAGLE3[1]),
        params={"speed": 100.0, "noise": 0.01, "tp": 1},
    ),
    *ENGINES,
)


def find(name: str, workloads: Mapping[str, Workload]) -> Workload:
    """The workload called `name`; an unknown one names the nearest known."""
    if name in workloads:
        return workloads[name]
    near = difflib.get_close_matches(name, workloads, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else f"; known: {', '.join(sorted(workloads))}"
    raise UsageError(f"no workload {name!r}{hint}", "perfguard workloads")


def of_command(
    command: tuple[str, ...], *, metric: str, better: Better, unit: str, read: str, setup: str = ""
) -> Workload:
    """A workload of one's own: without a metric the wall time of the command is measured."""
    if not command:
        raise UsageError("no command after --", "perfguard compare HEAD~1 HEAD -- python bench.py")
    if metric:
        name, read = metric, read or "json"
    elif better != "lower" or unit not in ("", "s") or read not in ("", "wall"):
        raise UsageError("--better, --unit and --read describe a metric, and none is named", "--metric NAME")
    else:
        name, unit, read = "wall", "s", "wall"
    metrics = (Metric(name=name, unit=unit, better=better),)
    label = shlex.join(command)[:NAME_LENGTH]  # its history is found by this name
    return Workload(name=label, runner="command", command=command, metrics=metrics, read=read, setup=setup)


def refuse_unsaid_rate(name: str, unit: str, next_step: str, where: str = "") -> None:
    """Nothing was said of a metric's direction, and lower is better by default: taken so, a rate that fell would be
    called an improvement. Raises UsageError for what looks like a rate.
    """
    if RATE.search(name) or RATE.search(unit):
        what = f"{name} ({unit})" if unit else name
        raise UsageError(f"{where}{what} looks like a rate: say whether lower or higher is better", next_step)


def built_in_paths(workload: Workload) -> tuple[str, ...]:
    """The folders of a commit that a built-in runner loads; () where any file may matter."""
    return ("model",) if workload.runner == "tp_moe" else ()


def with_modes(workload: Workload, choice: str) -> Workload:
    """Keep one mode and its metrics; "both" keeps all. A metric belongs to the mode its name starts with."""
    if choice in ("", "both") or not workload.modes:
        return workload
    if choice not in workload.modes:
        raise UsageError(f"--modes {choice!r}: {workload.name} has {', '.join(workload.modes)}", "perfguard workloads")
    metrics = tuple(m for m in workload.metrics if m.name.startswith(choice))
    return replace(workload, modes=(choice,), metrics=metrics)


def own_params(workload: Workload) -> Mapping[str, Any]:
    """The parameters that tell a workload from others; of an engine those that are not as for any server."""
    if workload.runner != "engine":
        return workload.params
    usual = {name: value for name, value in ENGINE_PARAMS.items() if name != "engine"}
    return {name: value for name, value in workload.params.items() if value != usual.get(name)}


def default_modes(workload: Workload) -> str:
    """What is measured where nobody chooses: of an engine, whose every mode is a server that has to load, the first."""
    return workload.modes[0] if workload.runner == "engine" and workload.modes else ""


def _refuse_words(defaults: Mapping[str, Any], params: Mapping[str, Any]) -> None:
    """Raises UsageError for what is no number where one is expected: prices and limits are made of some of them."""
    for key, value in params.items():
        is_number = isinstance(defaults[key], int | float) and not isinstance(defaults[key], bool)
        if is_number and (isinstance(value, bool) or not isinstance(value, int | float)):
            raise UsageError(f"{key}={value!r} is not a number", "perfguard workloads")


def with_params(workload: Workload, params: Mapping[str, Any]) -> Workload:
    """Parameters changed; `tp` sets the world size. An unknown parameter names the nearest known."""
    for key in params:
        if workload.runner != "fake" and key not in workload.params:
            near = difflib.get_close_matches(key, workload.params, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(workload.params) or 'none'}"
            raise UsageError(f"workload {workload.name!r} has no parameter {key!r}; {hint}", "perfguard workloads")
    endless = [key for key, value in params.items() if isinstance(value, float) and not math.isfinite(value)]
    if endless:
        raise UsageError(f"{endless[0]}={params[endless[0]]!r} is not a finite number", "perfguard workloads")
    if workload.runner == "engine":
        _refuse_words(workload.params, params)
    merged = {**workload.params, **params}
    tp = merged.get("tp", 1)
    if not isinstance(tp, int) or tp < 1:
        raise UsageError(f"tp={tp!r} is not a whole number of ranks of at least 1", "--set tp=2")
    # An engine starts its own ranks: of ours there is one, the client.
    return replace(workload, params=merged, world_size=1 if workload.runner == "engine" else tp)
