"""A slice of a model: few layers with weights drawn at random, started by the engine's own flags. Pure.

TP, collectives and kernels stay real. What depends on weights (accept length, routing, memory) does not.
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from runners.contract import ParamsError
from runners.engines.dialect import Start
from runners.engines.params import EngineParams

DUMMY = ("--load-format", "dummy")


def sglang(start: Start, params: EngineParams) -> Start:
    return _with_override(start, params, "--json-model-override-args")


def vllm(start: Start, params: EngineParams) -> Start:
    return _with_override(start, params, "--hf-overrides")


def _with_override(start: Start, params: EngineParams, option: str) -> Start:
    """The layers on top of what the arguments override already. Raises ValueError where that is no JSON object."""
    before, given = _taken(start.argv, option)
    tree: dict[str, Any] = {}
    if given:
        try:
            tree = json.loads(given)
        except ValueError:
            tree = {}
        if not isinstance(tree, dict) or not tree:
            raise ParamsError(f"params: {option} {given!r} is not a JSON object, and thin_layers has to add to it")
    inner = tree
    *path, last = params.layers_field.split(".")
    for name in path:
        inner = inner.setdefault(name, {})
    inner[last] = params.thin_layers
    return replace(start, argv=(*before, *DUMMY, option, json.dumps(tree)))


def _taken(argv: Sequence[str], option: str) -> tuple[tuple[str, ...], str]:
    """The words without the option, and the last value it had."""
    kept: list[str] = []
    value, is_value = "", False
    for word in argv:
        name, sign, inline = word.partition("=")
        if is_value:
            value, is_value = word, False
        elif word == option:
            is_value = True
        elif name == option and sign:
            value = inline
        else:
            kept.append(word)
    return tuple(kept), value
