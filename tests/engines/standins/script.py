"""What a stand-in does: standin.json of its checkout, so that commits differ in behaviour. Standard library only."""

import json
import os
import signal
import sys
import tempfile
import time
from typing import Any, NamedTuple

FILE = "standin.json"


class Script(NamedTuple):  # a dataclass takes 10 ms to import, and every launch of a test has a server
    """Seconds and counts; what is empty or 0 does not happen.

    `accept`: tokens of the verify cycles of a request, over and over; with speculation an event is a cycle. `names`:
    new (0.5.23), old, older (old names, zeros without speculation). `orphan`: a child in a session of its own that
    ignores SIGTERM. `missing`: paths that this version does not know yet.
    """

    version: str = ""
    model: str = ""  # offered in place of what was asked for
    start_s: float = 0.0  # not listening
    load_s: float = 0.0  # listening, not ready
    first_s: float = 0.002
    gap_s: float = 0.002
    tokens_per_event: int = 1
    accept: tuple[int, ...] = (2, 3)
    names: str = "new"
    missing: tuple[str, ...] = ()
    unread_models: bool = False  # answers for its list of models what is none
    usage: bool = True
    ids: bool = True  # older versions send text alone
    between: str = "inter_token_latency_seconds"  # what this version calls the time between tokens
    stop_after: int = 0  # tokens of every answer, whatever is asked
    fail_share: float = 0.0  # of requests: refused with 500
    error_after: int = 0  # tokens, then an error object inside the stream
    cut_after: int = 0  # tokens, then the connection is closed
    die_after: int = 0  # tokens of one request, then the whole server is gone
    die_at_request: int = 0
    die_at_start: int = 0  # exit code
    raise_at_start: str = ""  # an error that nobody catches
    die_once: str = ""  # a file: the first start dies before it is ready
    linger_s: float = 0.0  # after SIGTERM, with the port still held
    orphan: bool = False
    left: str = ""  # a name in /dev/shm and among temporary files that is left behind
    busy_s: float = 0.0  # after an answer, in which a cache is not flushed and nobody may fall asleep
    sleepless: bool = False  # answers that it sleeps and stays awake
    drowsy: bool = False  # answers that it woke and sleeps on
    dies_asleep_s: float = 0.0  # after it fell asleep: gone
    memory: str = ""  # a folder for a file with the MiB that this server holds, by its pid
    unsynthetic: bool = False  # forgets the accept length that it is asked to simulate
    extra_tokens: int = 0  # counted for somebody else's requests
    pids: str = ""  # a file into which every process of the server writes its pid
    trace: tuple[dict[str, object], ...] = ()  # events that its profiler writes
    arguments: dict[str, Any] = {}  # noqa: RUF012 (nobody changes it) as this version resolves them
    more: dict[str, str] = {}  # noqa: RUF012


HELD: list[int] = []  # for as long as we live


def read_script() -> Script:
    values = {}
    if os.path.exists(FILE):
        with open(FILE, encoding="utf-8") as stream:
            values = json.load(stream)
    return Script(**{name: tuple(value) if isinstance(value, list) else value for name, value in values.items()})


def misbehave_at_start(script: Script) -> None:
    if script.die_once and not os.path.exists(script.die_once):
        write(script.die_once, "")
        sys.exit("standin: out of memory, once")
    if script.raise_at_start:
        raise RuntimeError(script.raise_at_start)
    if script.die_at_start:
        print("standin: CUDA error: out of memory", file=sys.stderr)
        sys.exit(script.die_at_start)
    note_pid(script, os.getpid())
    if script.orphan:
        code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
        import subprocess

        child = subprocess.Popen([sys.executable, "-c", code], start_new_session=True)
        note_pid(script, child.pid)
    if script.left:
        write(shared := os.path.join("/dev/shm", script.left), "weights")
        HELD.append(os.open(shared, os.O_RDONLY))
        write(os.path.join(tempfile.gettempdir(), script.left), "a socket, say")
    if script.linger_s:
        signal.signal(signal.SIGTERM, lambda *_: linger(script))
    time.sleep(script.start_s)


def linger(script: Script) -> None:
    time.sleep(script.linger_s)
    os._exit(0)


def write(path: str, text: str) -> None:
    with open(path, "w", encoding="utf-8") as stream:
        stream.write(text)


def note_memory(script: Script, mib: int) -> None:
    if script.memory:
        write(os.path.join(script.memory, str(os.getpid())), str(mib))


def note_pid(script: Script, pid: int) -> None:
    if script.pids:
        with open(script.pids, "a") as stream:
            stream.write(f"{pid}\n")
