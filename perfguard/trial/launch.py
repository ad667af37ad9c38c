"""Start the processes of one launch under a warden, wait for ready and for the end, and record what happened.

Must not read results: what the processes mean is for ranks.py and command.py.
"""

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from perfguard.errors import SupervisorError

WARDEN = Path(__file__).with_name("warden.py")
OWNER_VARIABLE = "PERFGUARD_OWNER"
# How often the ready files are looked for: closely while a start is young, then so that nobody notices.
YOUNG_POLL_S, YOUNG_S, OLD_POLL_S = 0.002, 2.0, 0.01
# What a process gets to write its stacks before it is ended.
STACKS_S = 0.5
# The processor may be busy ending others: what the warden gets beyond its own limits.
WARDEN_SLACK_S = 5.0
TAIL_BYTES = 4096
# Libraries say at their start what they use.
HEAD_BYTES = 2**20
TAIL_LINES = 40


@dataclass(frozen=True, kw_only=True)
class Process:
    """One process to start. Without `stderr` both streams go to `stdout`."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: str
    stdout: str
    stderr: str = ""


@dataclass(frozen=True, kw_only=True)
class Launch:
    """Processes that start together. `timeout_s` counts from the moment every file of `ready` exists, or from the
    start where there is none. `answers_stacks`: SIGURG makes them write their stacks (built-in runners only).
    """

    processes: tuple[Process, ...]
    timeout_s: float
    ready: tuple[str, ...] = ()
    ready_timeout_s: float = 0.0
    answers_stacks: bool = False
    owner: str = ""
    fail_grace_s: float = 2.0
    term_grace_s: float = 2.0
    kill_wait_s: float = 30.0


@dataclass(frozen=True, kw_only=True)
class Launched:
    """What a launch came to. `wall_s`: from just before the program began (exec) until it had been waited for.

    `measured_s`: from ready (else from the start) to the last end. `before_ready`: it ended before it was ready.
    `num_leftover` processes had outlived those that were started; `unkillable` pids outlived even SIGKILL.
    """

    status: Literal["ok", "crashed", "timed_out"]
    returncodes: tuple[int | None, ...]
    wall_s: tuple[float, ...]
    measured_s: float
    before_ready: bool
    ready_s: float | None = None
    num_leftover: int = 0
    unkillable: tuple[int, ...] = ()
    log_tail: str = ""


@dataclass(kw_only=True)
class _Progress:
    """What has been seen so far; times on the monotonic clock."""

    started_s: float
    ready_s: float | None
    ended_s: float = 0.0
    exits: dict[int, dict[str, Any]] = field(default_factory=dict)
    done: dict[str, Any] | None = None
    is_over: bool = False
    unread: bytes = b""


def run_launch(launch: Launch) -> Launched:
    """Raises SupervisorError if the warden itself dies. On KeyboardInterrupt everything is ended, then it goes on."""
    now_s = time.monotonic()
    progress = _Progress(started_s=now_s, ready_s=None if launch.ready else now_s)
    warden = _start_warden(launch)
    try:
        is_timed_out = _follow(warden, launch, progress)
        if is_timed_out and launch.answers_stacks:
            _ask_for_stacks(warden, progress)
    finally:
        _end(warden, launch, progress)
    if progress.done is None:
        raise SupervisorError(f"the supervisor of a trial ended with code {warden.returncode}", "run it again")
    return _launched(launch, progress, is_timed_out=is_timed_out)


def _start_warden(launch: Launch) -> "subprocess.Popen[bytes]":
    marked = {OWNER_VARIABLE: launch.owner} if launch.owner else {}
    warden = subprocess.Popen(
        [sys.executable, "-I", "-S", str(WARDEN)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=os.environ | marked,
        start_new_session=True,  # Ctrl-C in the terminal is for perfguard alone
    )
    processes = [{**vars(process), "env": {**process.env, **marked}} for process in launch.processes]
    limits = {name: getattr(launch, name) for name in ("fail_grace_s", "term_grace_s", "kill_wait_s")}
    _tell(warden, json.dumps({"processes": processes, **limits}).encode() + b"\n")
    return warden


def _tell(warden: "subprocess.Popen[bytes]", words: bytes) -> None:
    assert warden.stdin is not None
    with contextlib.suppress(BrokenPipeError):  # it has ended; the events say how
        warden.stdin.write(words)
        warden.stdin.flush()


def _follow(warden: "subprocess.Popen[bytes]", launch: Launch, progress: _Progress) -> bool:
    """Until the warden is done (False) or a limit has passed (True)."""
    while not progress.is_over:
        now_s = time.monotonic()
        if progress.ready_s is None and _are_ready(launch):
            progress.ready_s = now_s
        left_s = _deadline_s(launch, progress) - now_s
        if left_s <= 0 and len(progress.exits) < len(launch.processes):
            return True
        if progress.ready_s is None:
            left_s = min(left_s, YOUNG_POLL_S if now_s - progress.started_s < YOUNG_S else OLD_POLL_S)
        _read_events(warden, progress, max(left_s, YOUNG_POLL_S))
    if progress.ready_s is None and _are_ready(launch):
        progress.ready_s = progress.ended_s
    return False


def _deadline_s(launch: Launch, progress: _Progress) -> float:
    if progress.ready_s is None:
        return progress.started_s + launch.ready_timeout_s
    return progress.ready_s + launch.timeout_s


def _are_ready(launch: Launch) -> bool:
    return all(os.path.exists(path) for path in launch.ready)


def _read_events(warden: "subprocess.Popen[bytes]", progress: _Progress, limit_s: float) -> None:
    """Take in what the warden says within the limit; its silence for ever is the end as well."""
    assert warden.stdout is not None
    if not select.select([warden.stdout], [], [], limit_s)[0]:
        return
    said = os.read(warden.stdout.fileno(), 65536)
    progress.is_over = not said
    *lines, progress.unread = (progress.unread + said).split(b"\n")
    for event in map(json.loads, lines):
        if event["event"] == "exited":
            progress.exits[event["index"]] = event
            progress.ended_s = time.monotonic()
        elif event["event"] == "done":
            progress.done, progress.is_over = event, True


def _ask_for_stacks(warden: "subprocess.Popen[bytes]", progress: _Progress) -> None:
    _tell(warden, b"stacks\n")
    until_s = time.monotonic() + STACKS_S
    while not progress.is_over and (left_s := until_s - time.monotonic()) > 0:
        _read_events(warden, progress, left_s)


def _end(warden: "subprocess.Popen[bytes]", launch: Launch, progress: _Progress) -> None:
    """Let the warden end everything and hear it out. It goes on by itself even if we are interrupted again."""
    assert warden.stdin is not None
    assert warden.stdout is not None
    with warden, contextlib.suppress(BrokenPipeError):
        warden.stdin.close()
        until_s = time.monotonic() + launch.term_grace_s + launch.kill_wait_s + WARDEN_SLACK_S
        while not progress.is_over and (left_s := until_s - time.monotonic()) > 0:
            _read_events(warden, progress, left_s)
        if not progress.is_over:
            warden.kill()


def _launched(launch: Launch, progress: _Progress, *, is_timed_out: bool) -> Launched:
    exits = [progress.exits.get(index, {}) for index in range(len(launch.processes))]
    codes = tuple(e.get("returncode") for e in exits)
    is_clean = all(code == 0 for code in codes)
    ended_s = progress.ended_s or time.monotonic()
    done = progress.done or {}
    return Launched(
        status="timed_out" if is_timed_out else "ok" if is_clean else "crashed",
        returncodes=codes,
        wall_s=tuple(e.get("wall_s", ended_s - progress.started_s) for e in exits),
        measured_s=0.0 if progress.ready_s is None else max(0.0, ended_s - progress.ready_s),
        before_ready=progress.ready_s is None,
        ready_s=None if progress.ready_s is None else progress.ready_s - progress.started_s,
        num_leftover=done.get("num_leftover", 0),
        unkillable=tuple(done.get("unkillable", ())),
        log_tail="" if is_clean and not is_timed_out else _log_tail(launch, codes),
    )


def _log_tail(launch: Launch, codes: tuple[int | None, ...]) -> str:
    """The end of the log of every process that did not end well, with its number where there are several."""
    parts = []
    for index, (process, code) in enumerate(zip(launch.processes, codes, strict=True)):
        if code != 0:
            head = f"process {index}: " if len(codes) > 1 else ""
            parts.append(head + tail(process.stderr or process.stdout))
    return "\n".join(parts)


def describe_exit(code: int | None) -> str:
    """A return code in words; negative ones are signals."""
    if code is None:
        return "could not be waited for"
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"was ended by signal {-code}"


def tail(path: str | Path) -> str:
    """The last lines of a log, whatever bytes it holds; empty if there is none."""
    try:
        with open(path, "rb") as stream:
            size = stream.seek(0, os.SEEK_END)
            stream.seek(max(0, size - TAIL_BYTES))
            text = stream.read().decode("utf-8", errors="replace")
    except OSError:
        return ""
    return "\n".join(text.splitlines()[-TAIL_LINES:])


def log_head(path: str | Path) -> str:
    """The beginning of a log, whatever bytes it holds; empty if there is none."""
    try:
        with open(path, "rb") as stream:
            return stream.read(HEAD_BYTES).decode("utf-8", errors="replace")
    except OSError:
        return ""
