"""The server of one mode for as long as it is needed: what starts it, whether it is ready, and its end.

Must not send it any request but the cheap one that asks whether it is ready.
"""

import os
import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from runners.contract import Launch, ParamsError
from runners.engines import ports, program
from runners.engines import server as servers
from runners.engines.control import asker
from runners.engines.dialect import Dialect, Start
from runners.engines.identity import listeners
from runners.engines.params import EngineParams, address_of, filled
from runners.engines.probe import Found, probe
from runners.engines.processes import free_port
from runners.engines.profile import profiled_start
from runners.engines.records import Reason
from runners.engines.residence import Stay, Visit, read, refuse_end, server_at, visiting
from runners.engines.server import EngineError, Server

PLAIN = "plain"
# What a workload without modes calls its only one, where something has to be called by it.
ONLY = "load"
CONNECT_S = 10.0


@dataclass(frozen=True, kw_only=True)
class Running:
    """`found`: what the arm's Python would load. `ending` is filled in when the server has been stopped."""

    server: Server
    found: Found = field(default_factory=Found)
    visit: Visit | None = None  # of a resident
    ending: dict[str, Any] = field(default_factory=dict)


@contextmanager
def running(
    launch: Launch, params: EngineParams, dialect: Dialect, mode: str, stay: Stay | None = None
) -> Iterator[Running]:
    """The server, ready, for the `with` block; then everything of it is ended. One that somebody else started
    (`params.url`) is neither started nor ended, and a resident that is visited sleeps again.

    Raises EngineError if it does not come up, NoEngineError if the arm's Python has no such engine, ValueError for
    parameters that cannot be.
    """
    if params.url:
        host, port = address_of(params.url)
        refuse_nobody(host, port, params.url)
        yield Running(server=Server(host=host, port=port, ask=asker(host, port)))
        return
    home = read(stay.file) if stay is not None and not stay.keeps else None
    port = home.port if home else params.port or free_port(params.host)
    cwd = program.folder_of(params.workdir, launch.subject_root)
    python = program.python_of(params.python, launch.subject_root)
    if params.python and shutil.which(python) is None:
        program.refuse(params.python, "no such program")
    start = starting(params, dialect, mode, python=python, port=port)
    start = start if stay is None else able_to_sleep(start, dialect)
    env = servers.environment(os.environ, start.env, python)
    found = probe(python, dialect.modules, dialect.distributions, env=env, cwd=cwd) if dialect.modules else Found()
    if found.error and not params.command:
        raise program.NoEngineError(found.error)  # it is about the arm and not about luck: no second try helps
    if params.trace:
        start = profiled_start(start, dialect, trace_folder(launch, mode), params.concurrency, found.folder)
    if stay is not None and home is not None:
        server = replace(server_at(home), argv=start.argv, env=env)
        with visiting(stay, server, dialect) as visit:
            yield Running(server=server, found=found, visit=visit)
        return
    ask = asker(params.host, port)
    whole = Running(server=servers.start(start, env=env, cwd=cwd, host=params.host, port=port, ask=ask), found=found)
    try:
        servers.wait_ready(whole.server, lambda: is_ready(whole.server, dialect, stay, is_fixed=bool(params.port)))
        yield whole
    finally:
        whole.ending.update(servers.stop(whole.server, params.stop_grace_s))


def refuse_nobody(host: str, port: int, url: str) -> None:
    """Raises ParamsError if nobody listens there."""
    try:
        socket.create_connection((host, port), timeout=CONNECT_S).close()
    except (OSError, UnicodeError) as error:
        raise ParamsError(f"params: url is {url!r}, and nobody answers there: {error}") from None


def left_behind(run_: Running) -> Iterator[Reason]:
    """Processes that outlive SIGKILL, or a port that stays taken, disturb whatever is measured next."""
    left = run_.ending.get("left")
    if left:
        yield Reason(code="engine_left_behind", text=f"processes {left} of the engine outlived SIGKILL")
    elif run_.ending and not run_.ending["port_is_free"]:
        yield Reason(code="engine_left_behind", text=f"port {run_.server.port} is still held after the engine ended")


def trace_folder(launch: Launch, mode: str) -> Path:
    """Beside the trial's result."""
    return Path(launch.spec.result).parent.resolve() / f"trace-{mode or ONLY}"


def starting(params: EngineParams, dialect: Dialect, mode: str, *, python: str, port: int) -> Start:
    """Raises ValueError if nothing says how it is started, or acceptance cannot be made synthetic."""
    command = params.command or dialect.command
    if not command:
        raise ParamsError(f"params: command is empty, and a server of kind {dialect.name} has no usual one")
    fields = {
        "python": python,
        "model": params.model,
        "draft": params.draft,
        "tp": str(params.tp),
        "host": params.host,
        "port": str(port),
    }
    texts = [command, params.args, params.speculative_args if mode != PLAIN else ""]
    texts.append(params.pinned_args.get(mode or ONLY, ""))
    start = Start(argv=tuple(word for text in texts for word in filled(text, fields)))
    if params.thin_layers:
        if dialect.thin is None:
            raise ParamsError(f"params: a server of kind {dialect.name} cannot be started with few layers")
        start = dialect.thin(start, params)
    if not params.synthetic_accept_length or mode == PLAIN:
        return start
    if dialect.synthetic is None:
        raise ParamsError(f"params: a server of kind {dialect.name} has no synthetic acceptance")
    return dialect.synthetic(start, params)


def able_to_sleep(start: Start, dialect: Dialect) -> Start:
    """Raises ParamsError for a kind of server that cannot."""
    if dialect.sleep is None:
        raise ParamsError(f"params: a server of kind {dialect.name} cannot be put to sleep")
    return replace(start, argv=(*start.argv, *dialect.sleep.flags), env={**start.env, **dialect.sleep.env})


def is_ready(server: Server, dialect: Dialect, stay: Stay | None = None, *, is_fixed: bool = False) -> bool:
    """Whether it serves requests. Whoever else holds the port is found out at once, whatever he answers.

    Raises EngineError for him: another start takes another port. ParamsError where the port is a fixed one.
    """
    refuse_end(stay)
    if ports.is_refused(server.host, server.port):
        return False  # seen so in a moment, also where the kernel's table of connections is long
    found, foreign = listeners(server)
    if foreign and found:
        servers.refuse_dead(server)
        raise ParamsError(ports.taken(server.port)) if is_fixed else EngineError(foreign.text)
    for path in dialect.ready:
        status = server.ask("GET", path).status
        if status == 200 and foreign:
            raise EngineError(foreign.text)
        if status != 404:
            return status == 200
    return False
