"""A small process of our own that speaks JSON lines over pipes: started, asked within a limit, ended, given up.

It shall do what may hang or die (NVML), so that perfguard does neither. Must not know what is asked.
"""

import contextlib
import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

# The child gets the search path of its parent as it is: neither a folder it happens to stand in nor another
# installed perfguard may win over the one that runs.
START = "import sys, json, importlib; sys.path[:] = json.loads(sys.argv.pop(1)); importlib.import_module({!r}).main()"
# What a killed process gets to be gone; one in an uninterruptible call of a broken driver never is.
KILL_WAIT_S = 1.0


class ChildGone(Exception):  # noqa: N818 - it says what happened, as Interrupted does
    """The child ended before it answered."""


@dataclass(kw_only=True)
class Child:
    """One running child; `unread` is what it said beyond the last line taken."""

    process: "subprocess.Popen[bytes]"
    unread: bytes = field(default=b"")

    def tell(self, words: Any) -> None:
        """Raises ChildGone."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(json.dumps(words).encode() + b"\n")
            self.process.stdin.flush()
        except OSError as error:
            raise ChildGone(self.how_it_ended()) from error

    def hear(self, limit_s: float) -> Any:
        """Its next line. Raises TimeoutError if none comes within `limit_s`, ChildGone if none ever will."""
        assert self.process.stdout is not None
        until_s = time.monotonic() + limit_s
        while b"\n" not in self.unread:
            left_s = until_s - time.monotonic()
            if left_s <= 0 or not select.select([self.process.stdout], [], [], left_s)[0]:
                raise TimeoutError(f"no answer within {limit_s:g} s")
            said = os.read(self.process.stdout.fileno(), 65536)
            if not said:
                raise ChildGone(self.how_it_ended())
            self.unread += said
        line, _, self.unread = self.unread.partition(b"\n")
        return json.loads(line)

    def ask(self, words: Any, limit_s: float) -> Any:
        self.tell(words)
        return self.hear(limit_s)

    def how_it_ended(self) -> str:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(KILL_WAIT_S)
        code = self.process.returncode
        how = f"by signal {-code}" if code is not None and code < 0 else f"with exit code {code}"
        return f"its process ended {how}"

    def close(self, limit_s: float) -> bool:
        """Close its input, which asks it to end; kill it after `limit_s`. False if not even that ended it."""
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
        for wait_s in (limit_s, KILL_WAIT_S):
            try:
                self.process.wait(wait_s)
                return True
            except subprocess.TimeoutExpired:
                self.process.kill()
        return False


def start_child(module: str, arguments: Sequence[str] = (), *, keep_open: Sequence[int] = ()) -> Child:
    """Start `main()` of a module in a fresh interpreter, in a session of its own: Ctrl-C is for perfguard alone.

    `keep_open`: descriptors that it inherits. Raises OSError.
    """
    command = [sys.executable, "-I", "-S", "-c", START.format(module), json.dumps(_search_path()), *arguments]
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        pass_fds=tuple(keep_open),
    )
    return Child(process=process)


def _search_path() -> list[str]:
    return [os.path.abspath(folder) for folder in sys.path]


def ignore_signals_of_the_terminal() -> None:
    """Called by a child: who presses Ctrl-C, closes the terminal or stops the job means perfguard, which ends us."""
    import signal

    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)


def listen(wait_s: float | None) -> list[Any] | None:
    """Called by a child: the lines that came within `wait_s` (None: until one comes); None when perfguard is gone."""
    if not select.select([0], [], [], wait_s)[0]:
        return []
    said = os.read(0, 65536)
    while said and not said.endswith(b"\n"):
        more = os.read(0, 65536)
        said = said + more if more else b""
    return [json.loads(line) for line in said.splitlines()] if said else None


def answer(words: Any) -> None:
    """Called by a child. A perfguard that is gone hears nothing."""
    text = json.dumps(words).encode() + b"\n"
    with contextlib.suppress(OSError):
        while text:
            text = text[os.write(1, text) :]
