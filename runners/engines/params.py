"""The parameters of an engine's workload as one record. Must not start or ask anything."""

import math
import shlex
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from runners.contract import ParamsError, parse_params
from runners.engines.limits import MAX_WAIT_SHARE

# The least value that makes sense. Where it is 0, that switches something off or leaves a choice to the engine.
LEAST: Mapping[str, float] = {
    "tp": 1, "requests": 1, "tokens": 1, "concurrency": 1, "warmup_rounds": 1, "port": 0, "prompt_tokens": 0,
    "rate_per_s": 0, "warmup_requests": 0, "stop_grace_s": 0, "synthetic_accept_length": 0, "max_wait_share": 0,
    "age_s": 0, "thin_layers": 0,
}  # fmt: skip
# Beyond what any load needs, and below what takes the client's memory before a request is sent.
MOST: Mapping[str, float] = {
    "port": 65_535, "requests": 10**6, "tokens": 10**6, "concurrency": 10**5, "warmup_requests": 10**5,
    "prompt_tokens": 10**6, "warmup_rounds": 1000, "rate_per_s": 10**6, "age_s": 30 * 86_400,
}  # fmt: skip
# Lists of words; a text is taken apart as a shell would.
WORD_LISTS = ("args", "speculative_args")
PREFIX_CACHES = ("", "flush", "unique", "keep")


@dataclass(frozen=True, kw_only=True)
class EngineParams:
    """What is started and what is asked of it; docs/workloads.md describes each. Empty texts: the engine's own choice.

    `args` go to every server, `speculative_args` only to one whose mode is not plain. Whatever begins with {model},
    {draft}, {tp}, {host}, {port}, {python} in them or in `command` is filled in.
    """

    engine: str = "openai"
    model: str = ""
    draft: str = ""
    served_model: str = ""  # the name under which the server has to offer the model, where it is not `model`
    tp: int = 1
    python: str = ""
    command: str = ""
    args: str = ""
    speculative_args: str = ""
    workdir: str = ""  # relative to the checkout; the checkout itself where empty
    version: str = ""  # what the server has to call itself, where the arm's Python cannot tell
    host: str = "127.0.0.1"
    port: int = 0  # 0: a free one
    url: str = ""  # a running server: nothing is started or stopped
    wire: str = ""
    requests: int = 16
    tokens: int = 128  # new tokens of each request
    prompt_tokens: int = 0  # of the shipped token ids; 0: as they are
    text_prompts: bool = False  # the shipped texts in place of the shipped token ids, which mean nothing
    prompt_file: str = ""
    concurrency: int = 1
    rate_per_s: float = 0.0  # above 0: an open loop
    prefix_cache: str = ""  # flush, unique (prompts) or keep
    request_timeout_s: float = 120.0
    warmup_requests: int = 4  # of one round; rounds go on until steady
    warmup_rounds: int = 5  # at most
    stop_grace_s: float = 10.0
    synthetic_accept_length: float = 0.0  # 0: as the draft does
    ignore_eos: bool = True  # where the wire can say it
    realtime: bool = False
    max_wait_share: float = MAX_WAIT_SHARE  # of the client for a processor, before a trial is void
    age_s: float = 0.0  # of load before the measured window
    thin_layers: int = 0  # above 0: so many layers with weights drawn at random
    layers_field: str = "num_hidden_layers"  # where the model's configuration holds their number
    trace: bool = False  # some cycles under the engine's profiler, after everything is measured
    pinned_args: Mapping[str, str] = field(default_factory=dict)  # by mode, last on the command line


def read_params(given: Mapping[str, Any]) -> EngineParams:
    """Raises ValueError naming the parameter."""
    params: EngineParams = parse_params(EngineParams, {name: _joined(name, value) for name, value in given.items()})
    if params.prefix_cache not in PREFIX_CACHES:
        raise ParamsError(f"params: prefix_cache is {params.prefix_cache!r}, none of flush, unique, keep")
    _check_numbers(params)
    _check_words(params)
    if not params.url and not params.model:
        raise ParamsError("params: model is empty: name what the server has to load, or the url of a running one")
    return params


def _check_numbers(params: EngineParams) -> None:
    for name, value in vars(params).items():
        if isinstance(value, float) and not math.isfinite(value):
            raise ParamsError(f"params: {name} is {value}, not a finite number")
        if name in LEAST and value < LEAST[name]:
            raise ParamsError(f"params: {name} is {value}, not at least {LEAST[name]:g}")
        if name in MOST and value > MOST[name]:
            raise ParamsError(f"params: {name} is {value}, not at most {MOST[name]:.0f}")
    if params.tokens < 2:
        raise ParamsError("params: tokens is 1, and one token has no time between tokens")
    if params.request_timeout_s <= 0:
        raise ParamsError(f"params: request_timeout_s is {params.request_timeout_s}, not above 0")
    if 0 < params.synthetic_accept_length < 1:
        text = f"params: synthetic_accept_length is {params.synthetic_accept_length}: every cycle has its own token"
        raise ParamsError(f"{text}, so that 1 is the least (0: as the draft does)")


def _check_words(params: EngineParams) -> None:
    if not all(params.layers_field.split(".")):
        raise ParamsError(f"params: layers_field is {params.layers_field!r}, not names with dots in between")
    for mode, words in params.pinned_args.items():
        if not isinstance(words, str):
            raise ParamsError(f"params: pinned_args of {mode} is {words!r}, not a text")
    if not params.host:
        raise ParamsError("params: host is empty")
    try:
        socket.getaddrinfo(params.host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise ParamsError(f"params: host is {params.host!r}: {error}") from None


def address_of(url: str) -> tuple[str, int]:
    """Host and port of http://HOST[:PORT]. Raises ParamsError."""
    parts = urlsplit(url)
    try:
        port = parts.port or 80
    except ValueError as error:
        raise ParamsError(f"params: url is {url!r}: {error}") from None
    if parts.scheme != "http" or not parts.hostname or parts.path.strip("/") or parts.query:
        raise ParamsError(f"params: url is {url!r}, not like http://127.0.0.1:8000")
    return parts.hostname, port


def filled(words: str, fields: Mapping[str, str]) -> tuple[str, ...]:
    """The words of a command line with {model} and the like filled in; other braces (JSON) stay as they are.

    Raises ParamsError for a quote that is not closed.
    """
    try:
        given = shlex.split(words)
    except ValueError as error:
        raise ParamsError(f"params: {words!r}: {error}") from None
    found = []
    for word in given:
        for name, value in fields.items():
            word = word.replace(f"{{{name}}}", value)
        found.append(word)
    return tuple(found)


def _joined(name: str, value: Any) -> Any:
    if name in (*WORD_LISTS, "command") and isinstance(value, list) and all(isinstance(word, str) for word in value):
        return shlex.join(value)
    return value
