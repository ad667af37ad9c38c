"""What /proc says of processes and ports. Reads only; signals nobody."""

import contextlib
import os
import random
import signal
import socket
from collections.abc import Iterable, Iterator
from pathlib import Path

# Beside what services use by habit, below net.ipv4.ip_local_port_range.
OWN_PORTS = range(20_000, 32_768)
PORT_TRIES = 20
# A number that no process has.
NOBODY = -1
# In the flags of /proc/PID/stat from the beginning of its end; while its memory is given back no signal may be pending.
PF_EXITING = 0x4
LISTENING = "0A"  # st of /proc/net/tcp, in the kernel's own numbers


def descendants(root: int) -> list[int]:
    """Every process below `root`, parents first; a zombie counts until it is waited for."""
    children: dict[int, list[int]] = {}
    for pid in _pids():
        children.setdefault(parent_of(pid), []).append(pid)
    found, waiting = [], [root]
    while waiting:
        parent = waiting.pop()
        found += children.get(parent, [])
        waiting += children.get(parent, [])
    return found


def parent_of(pid: int) -> int:
    """0 if it is gone. The name in parentheses may hold anything."""
    found = _stat(pid)  # read once: it may be gone a moment later
    return int(found[1]) if found else 0


def is_alive(pid: int) -> bool:
    """Neither gone nor a zombie, which holds nothing but its number."""
    return _stat(pid)[:1] not in ([], ["Z"], ["X"])


def is_ending(pid: int) -> bool:
    """Gone, a zombie, on its way out, or told to end by a signal that it has not followed yet: busy in the kernel, or
    stopped.
    """
    if not is_alive(pid) or _flags(pid) & PF_EXITING:
        return True
    try:
        lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return not is_alive(pid)
    pending = [int(line.split()[1], 16) for line in lines if line.startswith(("SigPnd:", "ShdPnd:"))]
    return any(mask & (1 << (number - 1)) for mask in pending for number in (signal.SIGKILL, signal.SIGTERM))


def started_at(pid: int) -> int:
    """Ticks since boot, 0 if it is gone: with its number it names a process for good."""
    found = _stat(pid)
    return int(found[19]) if len(found) > 19 else 0


def name_of(pid: int) -> str:
    """Engines rename their processes: VLLM::EngineCor."""
    try:
        return Path(f"/proc/{pid}/comm").read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def command_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        return ""


def mapped_files(pid: int) -> set[str]:
    """Files that a process has mapped; empty where we may not look."""
    try:
        lines = Path(f"/proc/{pid}/maps").read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return set()
    columns = (line.split(maxsplit=5) for line in lines)
    return {row[5] for row in columns if len(row) == 6 and row[5].startswith("/")}


def holders(port: int) -> list[int]:
    """Processes that listen on a TCP port, as far as we may see; empty where nobody does or all are hidden."""
    return owners(listening_on(port))


def listening_on(port: int) -> set[str]:
    """Inodes of the sockets that listen on a TCP port."""
    return {row[9] for row in _listening(port)}


def owners(inodes: set[str], among: Iterable[int] | None = None) -> list[int]:
    """Processes that have one of these sockets open, as far as we may see; `among`: None for all that there are."""
    if not inodes:
        return []
    return [pid for pid in (_pids() if among is None else among) if not inodes.isdisjoint(_sockets(pid))]


def is_listened_on(port: int) -> bool:
    return any(True for _ in _listening(port))


def users_of(port: int) -> set[int]:
    """Ids of the users who listen on a TCP port; the kernel tells them also where it hides the process."""
    return {int(row[7]) for row in _listening(port)}


def free_port(host: str) -> int:
    """A port nobody listens on now; another may take it first, which the identity of the listener shows.

    Drawn from below those that the system gives to outgoing connections: an engine binds it seconds later.
    """
    for port in (*random.SystemRandom().sample(OWN_PORTS, PORT_TRIES), 0):
        with socket.socket() as listener, contextlib.suppress(OSError):
            listener.bind((host, port))
            return int(listener.getsockname()[1])
    raise OSError(f"no free port on {host}")


def _pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _stat(pid: int) -> list[str]:
    """State, parent and what follows."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as stream:
            return stream.read().rpartition(b")")[2].decode("ascii").split()
    except OSError:
        return []


def _flags(pid: int) -> int:
    """0 if it is gone."""
    found = _stat(pid)
    return int(found[6]) if found else 0


def _listening(port: int) -> Iterator[list[str]]:
    """Rows of /proc/net/tcp: column 7 is the user, column 9 the socket's inode."""
    for table in ("tcp", "tcp6"):
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/net/{table}").read_text(encoding="ascii").splitlines()[1:]:
                columns = line.split()
                if columns[3] == LISTENING and int(columns[1].rpartition(":")[2], 16) == port:
                    yield columns


def _sockets(pid: int) -> Iterator[str]:
    folder = f"/proc/{pid}/fd"
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):
            with contextlib.suppress(OSError):  # closed meanwhile
                target = os.readlink(f"{folder}/{name}")
                if target.startswith("socket:["):
                    yield target[8:-1]
