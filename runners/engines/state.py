"""Asks a server, outside of the measured window, what it resolved, and looks at its processes' environments.

Must not judge beyond a variable that did not arrive; what the words mean is for the dialect's `facts`.
"""

import os
from collections.abc import Iterator, Mapping
from typing import Any

from runners.engines import server as servers
from runners.engines.control import first_known
from runners.engines.dialect import Dialect
from runners.engines.facts import Told, known
from runners.engines.records import Reason
from runners.engines.server import Server
from runners.engines.workers import Process, overwritten, read_processes, undelivered, workers_json


def state_of(server: Server, dialect: Dialect, version: str) -> tuple[dict[str, Any], tuple[Reason, ...]]:
    """What a running server says of itself, as a record, and the variables that did not reach one of its processes."""
    told = Told(
        name=dialect.name,
        version=version,
        command=server.argv,
        info=first_known(server.ask, dialect.info).fields if dialect.info else {},
        log=servers.log_text(server),
    )
    record = dialect.facts(told)
    # What the server was given: the folder of its interpreter stands in front of the PATH that was asked for.
    asked = {name: server.env.get(name, value) for name, value in asked_variables(os.environ).items()}
    processes = processes_of(server, asked)
    seen = known({"workers": workers_json(processes), "overwritten": overwritten(processes)})
    return {**record, **seen}, tuple(lost(asked, processes))


def asked_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """Those that the arm asks for: they are ours to hold the server to."""
    names = (name for name in environ.get("PERFGUARD_ASKED", "").split(",") if name)
    return {name: environ[name] for name in names if name in environ}


def processes_of(server: Server, asked: Mapping[str, str]) -> list[Process]:
    """The server first. Of one that somebody else started nothing is known."""
    if server.process is None:
        return []
    own = server.process.pid
    return read_processes([own, *(pid for pid in servers.pids(server) if pid != own)], asked)


def lost(asked: Mapping[str, str], processes: list[Process]) -> Iterator[Reason]:
    for text in undelivered(asked, processes):
        yield Reason(code="environment", text=text)
