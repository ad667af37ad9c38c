"""Base's arguments as its engine resolved them -> the flags that make head run with them. Pure.

Only what both versions have and resolved differently becomes a flag: head's own resolved arguments tell which it knows.
What no flag can say is left as it is and shows in the report, since the engine says afterwards what it resolved.
"""

import ast
import json
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from perfguard.errors import NotComparableError
from perfguard.records import Trial

# Of an enumeration as Python shows it: <CUDAGraphMode.FULL_AND_PIECEWISE: (2, 1)> -> FULL_AND_PIECEWISE.
ENUM = re.compile(r"<\w+\.(\w+): (.*)>")
CUT = "…"
# Names in vLLM's configuration whose flag is called otherwise; of the rest the flag has the name itself.
VLLM_NAMES = {"max_seq_len": "max_model_len"}
# In vLLM's configuration, but resolved from others or chosen for the platform: no flag sets them.
VLLM_FIXED = ("device_config", "tokenizer", "model", "pooler_config", "quantization_config")
# Not the speculative one: its log has other names than its flag (num_spec_tokens, seen in 0.32).
VLLM_NESTED = ("compilation_config", "structured_outputs_config", "kernel_config")


def pins(base: Mapping[str, Any], head: Mapping[str, Any]) -> str:
    """Words of a command line, "" where nothing has to be pinned. Both records are of the same engine and mode.

    Raises ValueError, naming the side, where one did not tell its arguments.
    """
    for side, record in (("base", base), ("head", head)):
        if not record.get("args"):
            raise ValueError(f"{side} did not tell which arguments its engine resolved")
    differing = {
        name: value for name, value in base["args"].items() if name in head["args"] and head["args"][name] != value
    }
    flags_of = FLAGS.get(str(base.get("name")))
    return shlex.join(flags_of(differing)) if flags_of else ""


def pins_of_first_runs(trials: Sequence[Trial]) -> dict[str, str]:
    """Mode -> words, from the unmeasured first runs of both sides. Raises NotComparableError."""
    told = {t.side: t.record.get("engine") or {} for t in trials if t.stage == 0 and t.status == "ok"}
    if len(told) < 2:
        return {}  # a side that does not run at all is told of as such
    found = {}
    for mode, base in told["base"].items():
        try:
            found[mode] = pins(base, told["head"].get(mode, {}))
        except ValueError as error:
            raise NotComparableError(f"--pin-args base: {error}", "compare without --pin-args") from None
    return found


def _sglang(found: Mapping[str, Any]) -> list[str]:
    """Flags have the names of the arguments; nested ones are one JSON text."""
    words: list[str] = []
    nested: dict[str, Any] = {}
    for name, value in sorted(found.items()):
        if "." in name:
            if _is_sayable(value):
                _put(nested, name.split("."), value)
        elif value is True:
            words.append(_flag(name))
        elif isinstance(value, str) and value.startswith("["):
            words += _listed(name, value)
        elif value is not False and _is_sayable(value):
            words += [_flag(name), str(value)]
    for name, values in nested.items():
        words += [_flag(name), json.dumps(values)]
    return words


def _vllm(found: Mapping[str, Any]) -> list[str]:
    """Switches have a twin that begins with --no-; a field of a nested configuration is a dotted flag."""
    words: list[str] = []
    for name, value in sorted(found.items()):
        first = name.split(".")[0]
        is_text = isinstance(value, str) and value.startswith(("[", "{"))
        if first in VLLM_FIXED or ("." in name and first not in VLLM_NESTED) or is_text or not _is_sayable(value):
            continue
        flag = _flag(VLLM_NAMES.get(name, name))
        if isinstance(value, bool) and "." not in name:
            words.append(flag if value else f"--no-{flag[2:]}")
        else:
            words += [flag, _vllm_value(name, value)]
    return words


def _vllm_value(name: str, value: Any) -> str:
    """The level of compilation is taken as a number, other enumerations by name."""
    if isinstance(value, bool):
        return str(value).lower()
    text = str(value)
    enum = ENUM.fullmatch(text)
    if enum:
        return enum.group(2) if name == "compilation_config.mode" else enum.group(1)
    return text.removeprefix("torch.")


FLAGS: Mapping[str, Callable[[Mapping[str, Any]], list[str]]] = {"sglang": _sglang, "vllm": _vllm}


def _flag(name: str) -> str:
    return "--" + ".".join(part.replace("_", "-") if place == 0 else part for place, part in enumerate(name.split(".")))


def _is_sayable(value: Any) -> bool:
    """None means that nothing was chosen, which no flag says; a text that was cut is not whole."""
    return value is not None and not (isinstance(value, str) and (not value or value.endswith(CUT)))


def _listed(name: str, text: str) -> list[str]:
    """ "[1, 2, 4]" -> --name 1 2 4; nothing for a list that was cut or is nested."""
    try:
        items = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return []
    if not items or any(isinstance(item, list | dict | tuple) for item in items):
        return []
    return [_flag(name), *map(str, items)]


def _put(tree: dict[str, Any], path: list[str], value: Any) -> None:
    for part in path[:-1]:
        tree = tree.setdefault(part, {})
    tree[path[-1]] = value
