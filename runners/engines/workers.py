"""The environment of every process of a server, as the kernel keeps it, held against what was asked for.

Reads /proc only. It shows what a process began with: what an engine writes into its own environment later is seen in
the processes that it starts afterwards.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from perfguard.protocol import matters
from runners.engines.facts import is_secret

PROC = Path("/proc")
# Python's own helper keeps an eye on shared memory and needs nothing.
HELPERS = ("resource_tracker", "forkserver")
MAX_NAME = 60
# Of which an engine may give each worker its share.
LISTS = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES")


@dataclass(frozen=True, kw_only=True)
class Process:
    """One process of a server. `name` as it calls itself; `environment` holds what matters and what was asked for."""

    pid: int
    name: str
    environment: Mapping[str, str]


def read_processes(pids: Iterable[int], asked: Iterable[str] = (), proc: Path = PROC) -> list[Process]:
    """Those of `pids` that are still there, may be read, and are no helper of Python; in the order given."""
    wanted = frozenset(asked)
    found = []
    for pid in pids:
        try:
            raw = (proc / str(pid) / "environ").read_bytes()
            command = (proc / str(pid) / "cmdline").read_bytes()
        except OSError:
            continue
        if b"=" not in raw:
            continue  # a zombie, or a program that wrote its title over it
        name = command.replace(b"\0", b" ").decode(errors="replace").strip()
        if not any(helper in name for helper in HELPERS):
            found.append(Process(pid=pid, name=name[:MAX_NAME], environment=_kept(raw, wanted)))
    return found


def _kept(raw: bytes, wanted: frozenset[str]) -> dict[str, str]:
    pairs = (os.fsdecode(pair).partition("=") for pair in raw.split(b"\0") if pair)
    return {name: value for name, sign, value in pairs if sign and is_shown(name, wanted)}


def is_shown(name: str, wanted: frozenset[str]) -> bool:
    """Also a key that was asked for stays where it is: a record is handed on."""
    return (matters(name) or name in wanted) and not is_secret(name)


def workers_json(processes: Sequence[Process]) -> list[dict[str, object]]:
    """As a record keeps them."""
    return [{"pid": p.pid, "name": p.name, "environment": dict(p.environment)} for p in processes]


def overwritten(processes: Sequence[Process]) -> dict[str, dict[str, str]]:
    """Variable -> {"server", "worker"}: what the engine set anew between its own start and that of a worker.

    The first process is the server. "" stands for not set. Variables of one rank alone (device, rank) are left out.
    """
    if len(processes) < 2:
        return {}
    server, workers = processes[0].environment, [p.environment for p in processes[1:]]
    found = {}
    for name in sorted({name for worker in workers for name in worker} | set(server)):
        values = {worker.get(name, "") for worker in workers}
        if len(values) == 1 and (value := values.pop()) != server.get(name, ""):
            found[name] = {"server": server.get(name, ""), "worker": value}
    return found


def undelivered(asked: Mapping[str, str], processes: Sequence[Process]) -> list[str]:
    """A sentence for each variable that was asked for and that a process of the server does not see, with the place.

    The first process is the server itself.
    """
    texts = []
    for place, process in enumerate(processes):
        for name, value in asked.items():
            if is_secret(name):
                continue
            seen = process.environment.get(name)
            if seen == value or (place and name in LISTS and seen and _is_part(seen, value)):
                continue
            at_start = processes[0].environment.get(name)
            who = "the server" if place == 0 else f"worker {process.pid} ({process.name})"
            what = f"sees {name}={seen!r}" if seen is not None else f"does not see {name}"
            texts.append(f"{who} {what}, asked for {value!r}: {_where(place, at_start == value)}")
    return texts


def _is_part(seen: str, asked: str) -> bool:
    return set(seen.split(",")) <= set(asked.split(","))


def _where(place: int, reached_server: bool) -> str:
    if place == 0 or not reached_server:
        return "it had not arrived when the server began (a wrapper in front of it)"
    return "lost between the server's start and the worker's, by the engine or what starts its workers"
