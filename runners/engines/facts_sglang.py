"""What SGLang says of itself, from GET /server_info and its log: 0.4 to 0.5.23. Pure; see facts.py."""

import re
from collections.abc import Mapping
from typing import Any

from runners.engines.facts import FULL, NONE, PIECEWISE, Told, asked_flags, known, plain_args, written_args
from runners.engines.wires import whole_number

LOGGED_ARGS = re.compile(r"server_args=ServerArgs\((.*)$", re.MULTILINE)
# "Capture cuda graph begin", "Capture target verify CUDA graph begin. backend=full", "Capture draft cuda graph begin".
CAPTURE = re.compile(
    r"Capture (target verify |draft extend |draft )?cuda graph begin(?:\. backend=(\w+))?", re.IGNORECASE
)
DECODE_BATCH = re.compile(r"Decode batch.*?cuda graph: (True|False)")
MOE_FILE = re.compile(r"Using MoE kernel config from (.+?\.json)")
MOE_FALLBACK = re.compile(r"Fallback to triton version [\d.]+ and use (\S+\.json)")
MOE_DEFAULT = re.compile(r"Using default MoE (?:kernel )?config")
QUANTISED = re.compile(r"Load weight end\..*?\bquant=(\w+)")
# Backends of cuda_graph_config, which 0.5.2x resolves by phase.
BACKENDS = {"full": FULL, "tc_piecewise": PIECEWISE, "breakable": PIECEWISE, "disabled": NONE}


def facts(told: Told) -> dict[str, Any]:
    """The record of one server; see docs/protocol.md."""
    raw, origin = _args(told)
    args = plain_args(raw)
    moe = [name.rsplit("/", 1)[-1] for name in (*MOE_FILE.findall(told.log), *MOE_FALLBACK.findall(told.log))]
    return known(
        {
            "name": told.name,
            "version": told.version or str(told.info.get("version") or ""),
            "args": args,
            "args_origin": origin,
            "asked": asked_flags(told.command),
            "device": args.get("device"),
            "attention_backend": _attention(args),
            "graphs": graphs(args, told.log),
            "moe_config": "; ".join(dict.fromkeys(moe)) or ("default" if MOE_DEFAULT.search(told.log) else ""),
            "quantization": _quantization(args, told.log),
            "kv_tokens": whole_number(told.info.get("max_total_num_tokens")),
        }
    )


def _args(told: Told) -> tuple[Mapping[str, Any], str]:
    """As resolved: the endpoint's, else those of the log, which older versions print before they resolve them all."""
    if len(told.info) > 1:
        states = told.info.get("internal_states")
        inner = states[0] if isinstance(states, list) and states and isinstance(states[0], Mapping) else {}
        # The scheduler resolves more than the front end, and repeats the rest.
        resolved = {name: inner[name] for name in told.info if name in inner}
        return {**told.info, **resolved}, "server_info"
    logged = LOGGED_ARGS.search(told.log)
    return (written_args(logged.group(1)), "log") if logged else ({}, "")


def _attention(args: Mapping[str, Any]) -> str:
    """One backend, or those of prefill and decode where they differ; with the draft's, where it has its own."""
    common = args.get("attention_backend")
    prefill, decode = (args.get(f"{phase}_attention_backend") or common for phase in ("prefill", "decode"))
    draft = args.get("speculative_draft_attention_backend")
    said = str(decode or "") if prefill == decode else f"prefill {prefill}, decode {decode}"
    return f"{said}, draft {draft}" if said and draft else said


def graphs(args: Mapping[str, Any], log: str) -> dict[str, str]:
    """{"decode", "verify", "draft"} -> full, piecewise or none; what is not known is left out.

    Under speculation the target's decode graph is the verify graph. A decode batch that the log tells ran without a
    graph is worth more than what was captured.
    """
    captured = {(phase or "").strip().lower(): backend for phase, backend in CAPTURE.findall(log)}
    has_draft = bool(args.get("speculative_algorithm"))
    target = _target(args, captured)
    if "False" in DECODE_BATCH.findall(log):
        target = NONE
    draft = ""
    if has_draft:
        is_captured = "draft" in captured or "draft extend" in captured
        draft = _mode(captured.get("draft", "")) if is_captured else NONE if target == NONE else ""
    return known({"decode": "" if has_draft else target, "verify": target if has_draft else "", "draft": draft})


def _target(args: Mapping[str, Any], captured: Mapping[str, str]) -> str:
    if args.get("disable_cuda_graph") is True:
        return NONE
    backend = args.get("cuda_graph_config.decode.backend")
    if backend in BACKENDS:
        return BACKENDS[backend]
    for phase in ("target verify", ""):
        if phase in captured:
            return _mode(captured[phase])
    return ""


def _mode(backend: str) -> str:
    """Versions that do not name a backend have only the full one."""
    return BACKENDS.get(backend, FULL)


def _quantization(args: Mapping[str, Any], log: str) -> str:
    """An argument that was not given says nothing: then it is the checkpoint's, which the log of loading names."""
    found = QUANTISED.findall(log)
    return str(args.get("quantization") or (found[0].lower() if found else ""))
