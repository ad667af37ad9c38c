"""What differs between engines, as one record each: how it is started, asked, read, and what its counters are called.

The records themselves are in sglang.py, vllm.py, openai.py and transformers.py; known.py names them. Nothing else may
know an engine by its name. Must not start or ask anything itself.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from runners.engines.control import Ask
from runners.engines.facts import Told, of_command
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
class Profiler:
    """The engine's own profiler, behind POST /start_profile.

    `body`: (folder, cycles) -> what is asked there. `start`: what the server has to be started with for it, for
    (start, folder, cycles, steps to leave out in front of them); `known_by`: a file of the package, and what stands in
    it where the version knows these words. `is_stopped`: it writes its trace when it is told to stop, if it has not
    before. `first_rank`: how traces of rank 0 are called, `other_files`: those that hold no decoding.
    """

    body: Callable[[Path, int], dict[str, Any]]
    first_rank: re.Pattern[str]
    start: Callable[[Start, Path, int, int], Start] | None = None
    known_by: tuple[str, str] | None = None
    is_stopped: bool = False
    other_files: re.Pattern[str] | None = None


@dataclass(frozen=True, kw_only=True)
class Dialect:
    """One kind of server. Empty texts and None: it has no such thing.

    `modules` is the engine's package, `kernels` are those that hold its kernels. `ready`: cheap paths that answer 200
    once requests are served, newest first. `version` asks for the version, `models` for the names under which the model
    is offered. `info`: paths that tell its arguments as resolved, newest first, and `facts` makes the record of what it
    says of itself. `flush` empties the prefix cache: "" if it did, else what was answered. `synthetic` makes acceptance
    as long as asked; raises ValueError where it cannot. `thin` starts few layers with weights drawn at random.
    `sleep`: how it can be a resident.
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
    info: tuple[str, ...] = ()
    facts: Callable[[Told], dict[str, Any]] = of_command
    flush: Callable[[Ask], str] | None = None
    prefix_cache: str = "unique"
    synthetic: Callable[[Start, EngineParams], Start] | None = None
    thin: Callable[[Start, EngineParams], Start] | None = None
    profiler: Profiler | None = None
    sleep: Sleep | None = None
    by_request: RequestNames | None = None
    by_counter: CounterNames | None = None
    generated_tokens: str = ""


def openai_models(ask: Ask) -> tuple[str, ...]:
    """The ids of /v1/models; none where it knows no such path. Raises ValueError for an answer without a list."""
    reply = ask("GET", "/v1/models")
    if reply.status != 200:
        return ()
    offered = reply.fields.get("data")
    if not isinstance(offered, list):
        raise ValueError(f"/v1/models answered {reply.text[:100]!r}, and no list of models")
    return tuple(str(entry["id"]) for entry in offered if isinstance(entry, dict) and "id" in entry)
