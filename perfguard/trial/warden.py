"""Supervisor of one trial: `python -I -S warden.py`, standard library only, imports nothing of perfguard.

Input: the job, one JSON line on stdin; then "stacks" asks running processes for their stacks (SIGURG), and the end
of stdin (perfguard stopped or died) ends everything. Output: one JSON line an event on stdout.

    job      {"processes": [{"argv", "env", "cwd", "stdout", "stderr"}], "fail_grace_s", "term_grace_s", "kill_wait_s"}
    events   {"event": "started", "index", "pid"}    {"event": "exited", "index", "returncode", "wall_s"}
             {"event": "done", "num_leftover", "unkillable": [pid]}

It ends its own descendants, also those that changed session or were left by their parent (it is their subreaper), and
nothing else. Where there is no /proc (macOS) it ends the process groups that it started.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import signal
import sys
import time

TYPE_CHECKING = False  # typing itself would cost a fifth of the start
if TYPE_CHECKING:
    from typing import Any, NoReturn

    Json = dict[str, Any]

# linux/prctl.h
PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
# What runners/__main__.py answers. LLVM, in a process that compiles kernels, takes SIGUSR1 and SIGUSR2 for itself; this
# one is ignored by whoever does not answer.
ASK_STACKS = signal.SIGURG
# What a process may take to follow its parent before it counts as left over.
SETTLE_S = 0.1
# Children are looked at this often even if no signal came: once two ended ranks stayed unnoticed until a time-out,
# which was never seen again. It costs four wake-ups a second.
LOOK_S = 0.25
# Between two rounds of SIGKILL: new children of a forking process are found in the next.
KILL_ROUND_S = 0.02

Running = dict[int, tuple[int, int]]  # pid -> index in the job, pipe from which its start can be read


def main() -> int:
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    job = json.loads(read_line())
    wake = watch_signals()
    running: Running = {}
    for index, process in enumerate(job["processes"]):
        pid, stamp = start(process)
        running[pid] = (index, stamp)
        tell({"event": "started", "index": index, "pid": pid})
    supervise(running, wake, fail_grace_s=job["fail_grace_s"])
    # After a regular end: give helpers that follow their parent a moment.
    num_leftover = 0 if settle(running, wake) else end_descendants(running, wake, job)
    unkillable = [] if not reap(running) else [pid for pid, _ in descendants()]
    tell({"event": "done", "num_leftover": num_leftover, "unkillable": unkillable})
    return 0


def read_line() -> bytes:
    """Unbuffered: poll() must see what comes later. The launcher writes nothing behind the job for a while."""
    line = b""
    while not line.endswith(b"\n") and (piece := os.read(0, 65536)):
        line += piece
    return line


def prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def watch_signals() -> int:
    """A descriptor that becomes readable, with the signal's number, when a child ends or we shall stop."""
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer)
    for number in (signal.SIGCHLD, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    # Ctrl-C and a closed terminal reach perfguard, which then closes our stdin.
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    return reader


def start(process: Json) -> tuple[int, int]:
    """Its pid, and a pipe with the moment at which it turned into the program."""
    warden = os.getpid()
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        become(process, warden, writer)
    os.close(writer)
    return pid, reader


def become(process: Json, warden: int, stamp: int) -> NoReturn:
    """The child turns into the program, or ends with the exit codes of a shell and a line in the log."""
    try:
        prepare(process, warden)
        # Here and not before the fork: that costs some milliseconds, which are ours and not the command's.
        os.write(stamp, repr(time.perf_counter()).encode())
        os.execvpe(process["argv"][0], process["argv"], process["env"])
    except OSError as error:
        os.write(2, f"cannot start {process['argv'][0]!r}: {error.strerror}\n".encode())
        os._exit(127 if isinstance(error, FileNotFoundError) else 126)
    finally:
        os._exit(125)


def prepare(process: Json, warden: int) -> None:
    os.setsid()
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != warden:
        os._exit(125)  # it died before we could ask to die with it
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(open_log(process["stdout"]), 1)
    os.dup2(open_log(process["stderr"]) if process["stderr"] else 1, 2)
    os.chdir(process["cwd"])


def open_log(path: str) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)


def supervise(running: Running, wake: int, *, fail_grace_s: float) -> None:
    """Return when all have ended, when one has failed and the others had their grace, or when we shall stop."""
    give_up_s = float("inf")
    while running and time.perf_counter() < give_up_s:
        if shall_stop(running, wake, give_up_s - time.perf_counter()):
            return
        if has_failed(running) and give_up_s == float("inf"):
            give_up_s = time.perf_counter() + fail_grace_s


def shall_stop(running: Running, wake: int, limit_s: float) -> bool:
    """Wait for a child's end or a word of the launcher; True at the end of stdin and at SIGTERM."""
    poll = select.poll()
    poll.register(0, select.POLLIN)
    poll.register(wake, select.POLLIN)
    is_over = False
    for descriptor, _ in poll.poll(max(0, int(1000 * min(limit_s, LOOK_S)) + 1)):
        said = os.read(descriptor, 65536)
        if descriptor == 0 and b"stacks" in said:
            for pid in running:
                os.kill(pid, ASK_STACKS)  # a child that we have not waited for keeps its pid
        is_over = is_over or (not said if descriptor == 0 else signal.SIGTERM in said)
    return is_over


def has_failed(running: Running) -> bool:
    """Collect what has ended; True if one of the given processes ended badly."""
    codes: list[int] = []
    reap(running, codes)
    return any(codes)


def reap(running: Running, codes: list[int] | None = None) -> bool:
    """Collect ended children and report those of the job. False when there is no child left at all."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return False
        now_s = time.perf_counter()
        if pid == 0:
            return True
        if pid in running:
            index, stamp = running.pop(pid)
            started_s = float(os.read(stamp, 64) or now_s)
            os.close(stamp)
            code = os.waitstatus_to_exitcode(status)
            tell({"event": "exited", "index": index, "returncode": code, "wall_s": now_s - started_s})
            if codes is not None:
                codes.append(code)


def settle(running: Running, wake: int) -> bool:
    """True if, after a regular end of the job, its last helpers end by themselves."""
    return not reap(running) or (not running and not wait_for_children(running, wake, SETTLE_S))


def wait_for_children(running: Running, wake: int, limit_s: float) -> bool:
    """Wait until no child is left (False) or the limit has passed (True)."""
    until_s = time.perf_counter() + limit_s
    while has_children := reap(running):
        wait_s = until_s - time.perf_counter()
        if wait_s <= 0:
            break
        if select.select([wake], [], [], wait_s)[0]:
            os.read(wake, 65536)
    return has_children


def end_descendants(running: Running, wake: int, job: Json) -> int:
    """SIGTERM, grace, SIGKILL until none is left or the limit has passed. Returns how many there were."""
    asked = signal_descendants(running, signal.SIGTERM)
    if wait_for_children(running, wake, job["term_grace_s"]):
        until_s = time.perf_counter() + job["kill_wait_s"]
        while True:
            signal_descendants(running, signal.SIGKILL)
            if not wait_for_children(running, wake, KILL_ROUND_S) or time.perf_counter() > until_s:
                break
    return asked


def signal_descendants(running: Running, number: int) -> int:
    if not os.path.isdir("/proc/self"):
        for pid in running:
            os.killpg(pid, number)
        return len(running)
    found = descendants()
    for pid, parent in found:
        send(pid, parent, number)
    return len(found)


def send(pid: int, parent: int, number: int) -> None:
    """Signal `pid` if it still is the child of `parent`, or ours by now: its number may have gone to somebody else."""
    handle = -1
    try:
        handle = open_pidfd(pid)
        if parent_of(pid) not in (parent, os.getpid()):
            return
        if handle < 0:
            os.kill(pid, number)
        else:
            signal.pidfd_send_signal(handle, number)
    except OSError:
        return  # gone, or it became another user
    finally:
        if handle >= 0:
            os.close(handle)


def open_pidfd(pid: int) -> int:
    """-1 where the kernel (before 5.3) or a container does not offer it. Raises ProcessLookupError."""
    try:
        return os.pidfd_open(pid)
    except ProcessLookupError:
        raise
    except OSError:
        return -1


def descendants() -> list[tuple[int, int]]:
    """(pid, parent) of every process below us, parents first."""
    if not os.path.isdir("/proc/self"):
        return []
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            children.setdefault(parent_of(int(name)), []).append(int(name))
    found: list[tuple[int, int]] = []
    waiting = [os.getpid()]
    while waiting:
        parent = waiting.pop()
        found += [(child, parent) for child in children.get(parent, [])]
        waiting += children.get(parent, [])
    return found


def parent_of(pid: int) -> int:
    """Parent of `pid`, 0 if it is gone. The name in parentheses may hold anything."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as stream:
            return int(stream.read().rpartition(b")")[2].split()[1])
    except OSError:
        return 0


def tell(event: Json) -> None:
    try:
        os.write(1, json.dumps(event).encode() + b"\n")
    except OSError:
        return  # perfguard is gone; what remains is to end its processes


if __name__ == "__main__":
    code = main()
    # Nothing is left to clean: skip the interpreter's own end.
    os._exit(code)
