"""Servers that outlive a trial: each kept by a process of its own, and asleep but for the trials that visit it.

Its keeper (keeping.py) puts it to sleep and writes down where it is. A visitor makes sure that every other resident
sleeps, wakes its own, and puts it to sleep again. Must not measure.
"""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from runners.engines import processes
from runners.engines.control import asker
from runners.engines.dialect import Dialect
from runners.engines.records import Reason
from runners.engines.server import EngineError, Server, exit_code, last_words
from runners.engines.sleeping import DIED, Nap, fall_asleep, nap_of, wake_up

# Keys of a spec's parameters that the harness sets and no person: the record's file, and whether to keep or to visit.
FILE, KEEPS = "residence", "keeps"


@dataclass(frozen=True, kw_only=True)
class Stay:
    """`file` holds the record of the server; beside it lies a mark while it is awake, and one when it has to end."""

    file: Path
    keeps: bool

    @property
    def awake(self) -> Path:
        return self.file.with_suffix(".awake")

    @property
    def end(self) -> Path:
        return self.file.with_suffix(".end")


@dataclass(frozen=True, kw_only=True)
class Home:
    """Where a resident is. `started`: of its process, in ticks since boot, so that a number used again is noticed."""

    host: str
    port: int
    pid: int
    started: int
    log: str
    log_start: int


@dataclass(kw_only=True)
class Visit:
    """`before`: why nothing can be measured. `after`: what went wrong with falling asleep again. `record`: memory."""

    before: tuple[Reason, ...] = ()
    after: list[Reason] = field(default_factory=list)
    record: dict[str, Any] = field(default_factory=dict)


def stay_of(params: Mapping[str, Any]) -> tuple[Stay | None, dict[str, Any]]:
    """How this launch has to do with a resident, None if it has not; and the parameters that are left."""
    left = {name: value for name, value in params.items() if name not in (FILE, KEEPS)}
    if not params.get(FILE):
        return None, left
    return Stay(file=Path(params[FILE]), keeps=bool(params.get(KEEPS))), left


def refuse_end(stay: Stay | None) -> None:
    """Raises EngineError if a server that is still loading is wanted no more."""
    if stay is not None and stay.keeps and stay.end.exists():
        raise EngineError("not wanted any more")


def write(stay: Stay, server: Server) -> None:
    """All of it or nothing: whoever waits reads it as soon as it is there."""
    assert server.process is not None  # we started it
    pid = server.process.pid
    home = Home(
        host=server.host,
        port=server.port,
        pid=pid,
        started=processes.started_at(pid),
        log=str(server.log or ""),
        log_start=server.log_start,
    )
    temporary = stay.file.with_suffix(".part")
    temporary.write_text(json.dumps(asdict(home)), encoding="utf-8")
    os.replace(temporary, stay.file)


def read(file: Path) -> Home:
    return Home(**json.loads(file.read_text(encoding="utf-8")))


def server_at(home: Home) -> Server:
    """The server of a record; one whose process is gone, or another by now, counts as ended."""
    is_there = home.started != 0 and processes.started_at(home.pid) == home.started
    return Server(
        host=home.host,
        port=home.port,
        ask=asker(home.host, home.port),
        kept_pid=home.pid if is_there else processes.NOBODY,
        log=Path(home.log) if home.log else None,
        log_start=home.log_start,
    )


@contextmanager
def visiting(stay: Stay, server: Server, dialect: Dialect) -> Iterator[Visit]:
    """The server awake for the `with` block, every other one asleep."""
    visit = Visit(before=(*_all_asleep(stay, dialect), *_alive(server, "asleep")))
    nap = nap_of(server, dialect)
    if not visit.before:
        visit.before = tuple(filter(None, [_woken(stay, nap)]))
    try:
        yield visit
    finally:
        visit.after += _asleep_again(stay, nap, visit)
        visit.record = nap.record()


def _woken(stay: Stay, nap: Nap) -> Reason | None:
    """The mark comes first: whoever finds it knows what was in use before."""
    nap.look("before")
    stay.awake.write_text(json.dumps(nap.seen["before"]), encoding="utf-8")
    return wake_up(nap)


def _asleep_again(stay: Stay, nap: Nap, visit: Visit) -> list[Reason]:
    if not stay.awake.exists():
        return []
    if failed := fall_asleep(nap):
        return [] if any(reason.code == DIED for reason in visit.before) else [failed]
    stay.awake.unlink()
    return []


def _all_asleep(stay: Stay, dialect: Dialect) -> Iterator[Reason]:
    """A visitor that was ended in mid-trial left its server awake."""
    for mark in sorted(stay.file.parent.glob("*.awake")):
        left = Stay(file=mark.with_suffix(".json"), keeps=False)
        nap = nap_of(server_at(read(left.file)), dialect)
        nap.seen["before"] = json.loads(mark.read_text(encoding="utf-8"))
        if reason := next(_alive(nap.server, "awake"), None) or fall_asleep(nap):
            whose = "" if left.file == stay.file else "the other side's server: "
            yield replace(reason, text=f"{whose}{reason.text}")
        else:
            mark.unlink()


def _alive(server: Server, when: str) -> Iterator[Reason]:
    if exit_code(server) is not None:
        yield Reason(code=DIED, text=f"the engine died while it was {when}{last_words(server)}")
