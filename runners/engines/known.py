"""The engines that are known by name. A table only."""

from collections.abc import Mapping

from runners.contract import ParamsError
from runners.engines.dialect import Dialect
from runners.engines.openai import OPENAI
from runners.engines.sglang import SGLANG
from runners.engines.transformers import TRANSFORMERS
from runners.engines.vllm import VLLM

DIALECTS: Mapping[str, Dialect] = {one.name: one for one in (SGLANG, VLLM, OPENAI, TRANSFORMERS)}


def dialect_of(name: str) -> Dialect:
    """Raises ValueError for an engine that is not known."""
    if name not in DIALECTS:
        raise ParamsError(f"params: engine {name!r} is none of {', '.join(DIALECTS)}")
    return DIALECTS[name]
