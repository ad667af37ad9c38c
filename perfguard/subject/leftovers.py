"""Processes that a perfguard which is gone has left behind.

A process is ours only if it carries PERFGUARD_OWNER with the token of a dead owner: never by its name, its command
line or its folder.
"""

import contextlib
import os
from collections.abc import Iterator

import psutil

OWNER_VARIABLE = "PERFGUARD_OWNER"
GRACE_S = 1.0
KILL_WAIT_S = 5.0


def owned_processes(owner: str) -> list[psutil.Process]:
    """Processes that carry this owner's token, without ourselves and those who started us."""
    spared = {os.getpid(), *(parent.pid for parent in psutil.Process().parents())}
    return [process for process in _running() if process.pid not in spared and _carries(process, owner)]


def _running() -> Iterator[psutil.Process]:
    """Looked up anew: psutil's own iterator keeps those of earlier calls, and would not signal one that got the number
    of a process that has ended since.
    """
    for pid in psutil.pids():
        with contextlib.suppress(psutil.Error):
            yield psutil.Process(pid)


def end_processes(owner: str) -> tuple[int, ...]:
    """End every process with this owner's token: politely, then firmly. Returns their pids.

    psutil compares start times before it signals, so a pid that was given to somebody else is safe.
    """
    processes = owned_processes(owner)
    for process in processes:
        _signal(process, is_firm=False)
    _, alive = psutil.wait_procs(processes, timeout=GRACE_S)
    for process in alive:
        _signal(process, is_firm=True)
    psutil.wait_procs(alive, timeout=KILL_WAIT_S)
    return tuple(process.pid for process in processes)


def _carries(process: psutil.Process, owner: str) -> bool:
    try:
        return bool(process.environ().get(OWNER_VARIABLE) == owner)
    except (psutil.Error, OSError):
        return False  # another user's, or gone


def _signal(process: psutil.Process, *, is_firm: bool) -> None:
    with contextlib.suppress(psutil.NoSuchProcess):
        process.kill() if is_firm else process.terminate()
