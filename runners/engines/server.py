"""The server of an arm as a child of this process: started in a session of its own, waited for, ended with all it has.

Ends only what descends from this process, whatever session, group or name it took. Must not measure.
"""

import contextlib
import ctypes
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from perfguard.protocol import matters
from runners.contract import PlainError
from runners.engines import lastwords, ports, processes, program
from runners.engines.control import Ask
from runners.engines.dialect import Start

# linux/prctl.h
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
# torchrun's contract and what perfguard tells its own ranks: they are the client's, and an engine would take them for
# its own. PERFGUARD_OWNER stays: by it the next start finds what a killed perfguard left.
NOT_INHERITED = (
    "RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "PERFGUARD_ASKED",
    "VIRTUAL_ENV",
)  # fmt: skip
# Ours, for ranks that compute; an engine chooses by itself unless somebody asks.
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
# Engines rename their processes, and the library that they do it with writes the title over the environment in /proc.
# It is needed there: the next start knows by PERFGUARD_OWNER whose an orphan is, and workers are asked what arrived.
KEPT_READABLE = {"SPT_NOENV": "1"}
# Small servers are there at once; a large one loads for minutes and should not be asked often.
FIRST_POLL_S, LATER_POLL_S, YOUNG_S = 0.02, 0.5, 5.0
# Most ends are at once, some take a minute.
FIRST_LOOK_S, LOOK_S = 0.002, 0.05
# What a child that lost its parent may take to follow it, before it is killed.
ORPHAN_GRACE_S = 2.0
# Taking a GPU's memory down holds a killed process for half a minute and more.
KILL_WAIT_S = 120.0
# How long after its connections a server's process may end.
FOLLOW_S = 1.0
PORT_WAIT_S = 60.0
IN_USE = re.compile(r"address (is )?already in use|EADDRINUSE|errno 98", re.I)
# In place of an exit code, for a process that is not our child.
GONE = -1
NUM_ERRORS, ERROR_CHARS = 3, 300


class EngineError(PlainError):
    """The server did not come up, or not as itself; the text ends with its last words."""


@dataclass(frozen=True, kw_only=True)
class Server:
    """A running server. `process` is None for one that somebody else started. `log_start`: where its part of the log
    begins, in bytes.
    """

    host: str
    port: int
    ask: Ask
    process: "subprocess.Popen[bytes] | None" = None
    argv: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    log: Path | None = None
    log_start: int = 0
    kept_pid: int = 0  # of a resident: another process of ours started it and ends it

    @property
    def is_ours(self) -> bool:
        return self.process is not None or self.kept_pid != 0


def environment(inherited: Mapping[str, str], own: Mapping[str, str], python: str) -> dict[str, str]:
    """What the server gets: ours without what is meant for ranks; what the engine's dialect adds never wins over what
    the arm asks for. The folder of the arm's Python comes first on the path, since engines call compilers by name.
    """
    asked = set(inherited.get("PERFGUARD_ASKED", "").split(","))
    dropped = {name for name in (*NOT_INHERITED, *THREADS) if name not in asked}
    kept = {name: value for name, value in inherited.items() if name not in dropped}
    path = os.pathsep.join(filter(None, [os.path.dirname(python), kept.get("PATH", "")]))
    return {**KEPT_READABLE, **own, **kept, "PATH": path}


def start(start_: Start, *, env: Mapping[str, str], cwd: Path, host: str, port: int, ask: Ask) -> Server:
    """Raises ParamsError if the port is held by somebody, program.refuse's if there is no such program, EngineError if
    it cannot be started now.
    """
    _become_subreaper()
    ports.wait_free(port)
    log, log_start = _own_log()
    try:
        process = subprocess.Popen(
            start_.argv,
            env=dict(env),
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            preexec_fn=_die_with_us,
        )
    except OSError as error:
        if error.errno in program.NO_PROGRAM:
            program.refuse(start_.argv[0], str(error.strerror))
        raise EngineError(f"cannot start {start_.argv[0]!r} in {cwd}: {error.strerror}") from error
    return Server(
        host=host, port=port, ask=ask, process=process, argv=start_.argv, env=env, log=log, log_start=log_start
    )


def wait_ready(server: Server, is_ready: Callable[[], bool]) -> None:
    """Until it answers. There is no limit of our own: the harness ends a start that takes too long.

    Raises EngineError if it ended, or if somebody else answers in its place.
    """
    began_s = time.monotonic()
    while True:
        refuse_dead(server)
        if is_ready():
            refuse_dead(server)
            return
        time.sleep(FIRST_POLL_S if time.monotonic() - began_s < YOUNG_S else LATER_POLL_S)


def refuse_dead(server: Server) -> None:
    if (code := exit_code(server)) is None:
        return
    is_taken = IN_USE.search(log_text(server)) and processes.is_listened_on(server.port)
    why = f", port {server.port} is held by {ports.holder(server.port)}" if is_taken else ""
    raise EngineError(f"the engine ended with code {code} before it was ready{why}{last_words(server)}")


def exit_code(server: Server) -> int | None:
    """None while it runs, or where it is not ours; of a resident only that it is gone can be told."""
    if server.kept_pid:
        return None if processes.is_alive(server.kept_pid) else GONE
    return None if server.process is None else server.process.poll()


def exit_code_soon(server: Server) -> int | None:
    """The same for a server that failed: connections end before their process does."""
    _wait(lambda: exit_code(server) is not None, FOLLOW_S)
    return exit_code(server)


def pids(server: Server) -> list[int]:
    """The server's processes, children that lost their parent included."""
    if server.kept_pid:
        return [server.kept_pid, *processes.descendants(server.kept_pid)]
    return processes.descendants(os.getpid()) if server.is_ours else []


def names(server: Server) -> dict[int, str]:
    """The server's processes that run, with their names as the kernel has them."""
    return {pid: processes.name_of(pid) for pid in pids(server) if processes.is_alive(pid)}


def stop(server: Server, grace_s: float) -> dict[str, Any]:
    """SIGTERM to the server; after the grace SIGKILL to its group and then to each descendant that is left.

    Returns what it took: {"seconds", "code", "num_killed", "left": pids that outlived SIGKILL, "port_is_free"}.
    """
    if server.process is None:
        return {}
    began_s = time.monotonic()
    with _suppressed():
        server.process.send_signal(signal.SIGTERM)
    _wait(lambda: exit_code(server) is not None, grace_s)
    _wait(lambda: not _alive(server), ORPHAN_GRACE_S if exit_code(server) is not None else 0.0)
    num_killed = len(_alive(server))
    with _suppressed():
        os.killpg(server.process.pid, signal.SIGKILL)
    is_gone = _wait(lambda: _killed(server), KILL_WAIT_S)
    is_free = _wait(lambda: not processes.is_listened_on(server.port), PORT_WAIT_S if is_gone else 0.0)
    return {
        "seconds": time.monotonic() - began_s,
        "code": exit_code(server),
        "num_killed": num_killed,
        "left": _alive(server),
        "port_is_free": is_free,
    }


def last_words(server: Server) -> str:
    """ "; its log: …": in one line what went wrong first in it and what it says at last; the harness keeps all of it.
    Empty where its log is somebody else's.
    """
    return "" if server.log is None else f"; its log: {lastwords.told(log_text(server).splitlines())}"


def log_text(server: Server, limit: int = 2**22) -> str:
    """What the server wrote so far, its first megabytes and its last ones; "" where nobody keeps it."""
    if server.log is None:
        return ""
    with open(server.log, "rb") as stream:
        size = stream.seek(0, os.SEEK_END)
        stream.seek(server.log_start)
        head = stream.read(limit)
        stream.seek(max(stream.tell(), size - limit))
        return (head + stream.read()).decode("utf-8", errors="replace")


def shown_environment(env: Mapping[str, str]) -> dict[str, str]:
    """The variables that may change speed."""
    return {name: value for name, value in sorted(env.items()) if matters(name)}


def _become_subreaper() -> None:
    """Children whose parent dies become ours, so that none of them is lost."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _die_with_us() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)


def _own_log() -> tuple[Path | None, int]:
    """The file into which we, and so the server, write; None for a terminal or a pipe."""
    try:
        path = Path(os.readlink("/proc/self/fd/1"))
        return (path, path.stat().st_size) if path.is_file() else (None, 0)
    except OSError:
        return None, 0


def _alive(server: Server) -> list[int]:
    """Our descendants that are more than a zombie; zombies that we adopted are collected."""
    exit_code(server)  # the server's own code is for its Popen, so that is asked first
    found = []
    for pid in processes.descendants(os.getpid()):
        if processes.is_alive(pid):
            found.append(pid)
        elif pid != (server.process and server.process.pid) and processes.parent_of(pid) == os.getpid():
            with _suppressed():
                os.waitpid(pid, os.WNOHANG)
    return found


def _killed(server: Server) -> bool:
    """One round of SIGKILL; a forking process may need several."""
    for pid in _alive(server):
        with _suppressed():
            os.kill(pid, signal.SIGKILL)
    return not _alive(server)


def _wait(is_over: Callable[[], bool], limit_s: float) -> bool:
    until_s, pause_s = time.monotonic() + limit_s, FIRST_LOOK_S
    while not is_over():
        if time.monotonic() >= until_s:
            return False
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, LOOK_S)
    return True


@contextmanager
def _suppressed() -> Iterator[None]:
    """It may have ended meanwhile."""
    with contextlib.suppress(ProcessLookupError, PermissionError, ChildProcessError):
        yield
