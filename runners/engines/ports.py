"""The port of a server that is about to be started, or starting: whether somebody else has it, and who.

Waits for a predecessor that is ending, and for nobody else. Must not end or signal anybody.
"""

import os
import socket
import time

from runners.contract import ParamsError
from runners.engines import processes

# What a server that was told to end may take before it lets go, where nothing shows that it is ending.
GRACE_S = 3.0
# Taking a GPU's memory down holds the port of a killed process for half a minute and more.
ENDING_WAIT_S = 60.0
LOOK_S = 0.05
# The kernel answers at once, unless the queue of whoever listens is full.
CONNECT_S = 1.0


def wait_free(port: int) -> None:
    """Raises ParamsError, with the holder, once it is clear that the port is not about to be free."""
    began_s = time.monotonic()
    while processes.is_listened_on(port):
        limit_s = ENDING_WAIT_S if is_being_freed(port) else GRACE_S
        if time.monotonic() - began_s >= limit_s:
            raise ParamsError(taken(port))
        time.sleep(LOOK_S)


def is_refused(host: str, port: int) -> bool:
    """Whether nobody listens there, by the word of the kernel; False as well where that cannot be told."""
    try:
        socket.create_connection((host, port), timeout=CONNECT_S).close()
    except (OSError, UnicodeError) as error:
        return isinstance(error, ConnectionRefusedError)
    return False


def is_being_freed(port: int) -> bool:
    """Whether those who hold it are ending. One whose files are gone already is not found any more, though it could be
    looked at.
    """
    found = processes.holders(port)
    if found:
        return all(processes.is_ending(pid) for pid in found)
    return os.geteuid() == 0 or processes.users_of(port) == {os.geteuid()}


def taken(port: int) -> str:
    """One line: who holds it, and what to do."""
    return f"params: port {port} is held by {holder(port)}: end it, or take a free one with port = 0"


def holder(port: int) -> str:
    found = processes.holders(port)
    if found:
        return f"process {found[0]} ({processes.command_of(found[0])[:100]})"
    users = processes.users_of(port)
    return f"a process of user {min(users)}, which we may not look at" if users else "a process that is gone by now"
