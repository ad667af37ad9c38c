"""Puts a server to sleep and wakes it, and finds out whether it did: by its own word, and by the memory of the GPUs.

An answer of 200 is no evidence: an engine that was built without what it takes says it and keeps everything.
"""

import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from runners.engines.control import Ask, asker
from runners.engines.dialect import Dialect, Sleep
from runners.engines.records import Reason
from runners.engines.server import Server, exit_code, last_words

# Weights of a large model go to the host's memory and come back: minutes at most.
SLEEP_LIMIT_S = 600.0
# A sleeper keeps its context and its graphs; less than half given back is no sleep that makes room for the other one.
MIN_FREED_SHARE = 0.5
SMI = ("nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits")
SMI_LIMIT_S = 20.0
MIB = 2**20

NOT_ASLEEP, NOT_AWAKE, DIED = "not_asleep", "not_awake", "engine_died"


@dataclass(kw_only=True)
class Nap:
    """One server's turn. `seen`: bytes in use on all GPUs "before" it woke, while "awake" and when "asleep" again;
    None where no tool tells. `posting` asks with a body, which some of these paths want.
    """

    server: Server
    sleep: Sleep
    posting: Ask
    used_bytes: Callable[[], int | None]
    flush: Callable[[Ask], str] | None = None  # comes back when the server is idle: one that is not may die of sleeping
    seen: dict[str, int | None] = field(default_factory=dict)

    def look(self, when: str) -> None:
        self.seen[when] = self.used_bytes()

    def record(self) -> dict[str, Any]:
        return {f"{when}_bytes": value for when, value in self.seen.items()}


def nap_of(server: Server, dialect: Dialect) -> Nap:
    """Raises ValueError for a server that cannot sleep."""
    if dialect.sleep is None:
        raise ValueError(f"a server of kind {dialect.name} cannot be put to sleep")
    posting = asker(server.host, server.port, SLEEP_LIMIT_S, body="{}")
    return Nap(server=server, sleep=dialect.sleep, posting=posting, used_bytes=gpu_bytes, flush=dialect.flush)


def fall_asleep(nap: Nap) -> Reason | None:
    """None if it sleeps, else why it is thought awake."""
    nap.look("awake")
    if nap.flush is not None:
        nap.flush(nap.server.ask)
    reply = nap.posting("POST", nap.sleep.sleep)
    if reply.status != 200:
        return _failed(nap, NOT_ASLEEP, f"{nap.sleep.sleep} answered {reply.status}: {reply.text.strip()[:200]}")
    nap.look("asleep")
    why = thought_awake(_told(nap), nap.seen.get("before"), nap.seen["awake"], nap.seen["asleep"])
    return Reason(code=NOT_ASLEEP, text=f"{nap.sleep.sleep} answered 200, but {why}") if why else None


def wake_up(nap: Nap) -> Reason | None:
    """None if it is awake, else what was seen."""
    reply = nap.posting("POST", nap.sleep.wake)
    if reply.status != 200:
        return _failed(nap, NOT_AWAKE, f"{nap.sleep.wake} answered {reply.status}: {reply.text.strip()[:200]}")
    if _told(nap):
        text = f"{nap.sleep.wake} answered 200, but {nap.sleep.told} says that it sleeps"
        return Reason(code=NOT_AWAKE, text=text)
    return None


def thought_awake(told: bool | None, before: int | None, awake: int | None, asleep: int | None) -> str:
    """ "" if a server sleeps. `told`: what it says itself, None where it has no words for it. The bytes are those in
    use on the GPUs: before it took its own, while it was awake, and now.
    """
    if told is False:
        return "it says that it is awake"
    if before is None or awake is None or asleep is None:
        return "" if told else "nothing tells that it sleeps: it has no words for it and there is no nvidia-smi"
    taken, freed = awake - before, awake - asleep
    if taken > 0 and freed < MIN_FREED_SHARE * taken:
        return f"it gave back {max(0, freed) / MIB:.0f} of {taken / MIB:.0f} MiB on the GPUs"
    return "" if taken > 0 or told else "nothing tells that it sleeps: it took no memory of a GPU that can be seen"


def gpu_bytes() -> int | None:
    """In use on all GPUs together; None where nvidia-smi is not there or does not say a number."""
    try:
        done = subprocess.run(SMI, capture_output=True, text=True, timeout=SMI_LIMIT_S, check=True)
        used = [int(line) for line in done.stdout.split()]
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
    return sum(used) * MIB if used else None


def _told(nap: Nap) -> bool | None:
    if not nap.sleep.told:
        return None
    said = nap.server.ask("GET", nap.sleep.told).fields.get("is_sleeping")
    return said if isinstance(said, bool) else None


def _failed(nap: Nap, code: str, text: str) -> Reason:
    """A server that is gone answers nothing: that is then the finding."""
    if exit_code(nap.server) is not None:
        return Reason(code=DIED, text=f"the engine died: {text}{last_words(nap.server)}")
    return Reason(code=code, text=text)
