"""What vLLM says of itself, from its log and, in its development mode, GET /server_info: 0.11 to 0.32. Pure.

See facts.py. The line "Initializing a V1 LLM engine" holds the configuration as resolved before memory is known;
graphs are resolved after it, with a warning for each step down.
"""

import re
from collections.abc import Mapping
from typing import Any

from runners.engines.facts import FULL, NONE, PIECEWISE, Told, asked_flags, known, plain_args, written_args

ENGINE = re.compile(r"Initializing a V1 LLM engine \(v?([^)]*)\) with config: (.*)$", re.MULTILINE)
BACKEND = re.compile(r"Using (?:AttentionBackendEnum\.)?(\w+) (?:attention )?backend\b")
STEP_DOWN = re.compile(r"setting cudagraph_mode=(\w+)|Overriding to (?:CUDAGraphMode\.)?(\w+)")
MODE = re.compile(r"(?:CUDAGraphMode\.)?(FULL_AND_PIECEWISE|FULL_DECODE_ONLY|FULL|PIECEWISE|NONE)\b")
CACHE = re.compile(r"KV cache size: ([\d,]+) tokens")
MOE_FILE = re.compile(r"Using configuration from (.+?\.json) for MoE layer")
MOE_DEFAULT = re.compile(r"Using default MoE config")
# What a uniform batch of decodes runs under, by the mode of the whole.
# As the JSON form of the configuration writes the modes: the values of their enumeration.
BY_VALUE = {"2": "FULL", "1": "PIECEWISE", "0": "NONE", "[2, 0]": "FULL_DECODE_ONLY", "[2, 1]": "FULL_AND_PIECEWISE"}
DECODE = {"FULL_AND_PIECEWISE": FULL, "FULL_DECODE_ONLY": FULL, "FULL": FULL, "PIECEWISE": PIECEWISE, "NONE": NONE}


def facts(told: Told) -> dict[str, Any]:
    """The record of one server; see docs/protocol.md."""
    raw, origin, version = _args(told)
    args = plain_args(raw)
    backends = [name for name in BACKEND.findall(told.log) if name.isupper() or "_" in name]
    caches = [int(tokens.replace(",", "")) for tokens in CACHE.findall(told.log)]
    moe = [name.rsplit("/", 1)[-1] for name in MOE_FILE.findall(told.log)]
    return known(
        {
            "name": told.name,
            "version": told.version or version,
            "args": args,
            "args_origin": origin,
            "asked": asked_flags(told.command),
            "device": _device(args),
            "attention_backend": ", ".join(dict.fromkeys(backends)),
            "graphs": graphs(args, told.log),
            "moe_config": "; ".join(dict.fromkeys(moe)) or ("default" if MOE_DEFAULT.search(told.log) else ""),
            "quantization": _quantization(args),
            # A line for each engine of a data-parallel server: their sum is what it holds.
            "kv_tokens": sum(caches) or None,
        }
    )


def _args(told: Told) -> tuple[Mapping[str, Any], str, str]:
    """Arguments, where they come from, and the version that the log names."""
    logged = ENGINE.search(told.log)
    config = told.info.get("vllm_config")
    version = logged.group(1) if logged else ""
    if isinstance(config, Mapping):
        return config, "server_info", version
    if isinstance(config, str):
        return written_args(config), "server_info", version
    return (written_args(logged.group(2)), "log", version) if logged else ({}, "", version)


def _first(args: Mapping[str, Any], *names: str) -> Any:
    """The first that is there: text and JSON form of the configuration name things at different depths."""
    return next((args[name] for name in names if name in args), None)


def _device(args: Mapping[str, Any]) -> str:
    """ "cuda" of "cuda:0"."""
    found = _first(args, "device_config", "device_config.device", "device_config.device_type")
    return str(found or "").split(":")[0]


def _quantization(args: Mapping[str, Any]) -> str:
    """None in the configuration means that weights are as they are: it was resolved from the checkpoint."""
    for name in ("quantization", "model_config.quantization"):
        if name in args:
            return str(args[name] or "none")
    return ""


def graphs(args: Mapping[str, Any], log: str) -> dict[str, str]:
    """{"decode" or "verify"} -> full, piecewise or none. Of the draft's graphs vLLM says nothing that is read here."""
    mode = _mode(args, log)
    if not mode:
        return {}
    speculative = _first(args, "speculative_config") or any(name.startswith("speculative_config.") for name in args)
    return {"verify" if speculative else "decode": DECODE[mode]}


def _mode(args: Mapping[str, Any], log: str) -> str:
    """The last step down counts; without one, what was configured."""
    if _first(args, "enforce_eager", "model_config.enforce_eager") is True:
        return "NONE"
    steps = [one or other for one, other in STEP_DOWN.findall(log)]
    known_steps = [step for step in steps if step in DECODE]
    if known_steps:
        return str(known_steps[-1])
    configured = str(_first(args, "compilation_config.cudagraph_mode"))
    found = MODE.search(configured)
    return str(found.group(1)) if found else BY_VALUE.get(configured, "")
