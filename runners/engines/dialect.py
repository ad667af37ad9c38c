"""What differs between engines, as one record each: how it is started, asked, and what its counters are called.

The records themselves are in sglang.py, vllm.py, openai.py and transformers.py. Must not start or ask anything itself.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from runners.engines.control import Ask
from runners.engines.params import EngineParams


@dataclass(frozen=True, kw_only=True)
class Start:
    """A server that is about to be started: its words, and variables of the engine's own that it needs."""

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class RequestNames:
    """Keys in what an answer says of itself (Answer.meta), newest first."""

    cycles: tuple[str, ...]
    accepted: tuple[str, ...]
    drafted: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class CounterNames:
    """Prometheus counters, by their whole names: a prefix would also match their `_created` twins."""

    cycles: str
    drafted: str
    accepted: str
    accepted_by_position: str


@dataclass(frozen=True, kw_only=True)
class Sleep:
    """How a server gives its GPU memory back and takes it again: what it is started with, and the paths that do it.
    `told` answers {"is_sleeping": bool}; "" where it has no words for it.
    """

    flags: tuple[str, ...]
    sleep: str
    wake: str
    told: str = ""
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Dialect:
    """One kind of server. Empty texts and None: it has no such thing.

    `modules` is the engine's package, `kernels` are those that hold its kernels. `ready`: cheap paths that answer 200
    once requests are served, newest first. `version` asks for the version, `models` for the names under which the model
    is offered. `flush` empties the prefix cache: "" if it did, else what
    was answered. `synthetic` makes acceptance as long as asked; raises ValueError where it cannot. `thin`
    starts few layers with weights drawn at random. `sleep`: how it can be a resident.
    """

    name: str
    wire: str
    command: str
    modules: tuple[str, ...] = ()
    distributions: tuple[str, ...] = ()
    kernels: tuple[str, ...] = ()
    ready: tuple[str, ...] = ("/health",)
    version: Callable[[Ask], str] | None = None
    models: Callable[[Ask], tuple[str, ...]] | None = None
    flush: Callable[[Ask], str] | None = None
    prefix_cache: str = "unique"
    synthetic: Callable[[Start, EngineParams], Start] | None = None
    thin: Callable[[Start, EngineParams], Start] | None = None
    sleep: Sleep | None = None
    by_request: RequestNames | None = None
    by_counter: CounterNames | None = None
    generated_tokens: str = ""


def openai_models(ask: Ask) -> tuple[str, ...]:
    """The ids of /v1/models; and the paths they were loaded from, where the server tells them (`root`)."""
    offered = ask("GET", "/v1/models").fields.get("data", [])
    entries = [entry for entry in offered if isinstance(entry, dict)] if isinstance(offered, list) else []
    return tuple(str(entry["id"]) for entry in entries if "id" in entry)
