"""A small process of our own that speaks JSON lines: started, asked within a limit, ended, given up.

It shall do what may hang or die (NVML), so that perfguard does neither. Both directions are one socket, the child's
descriptor 0; its standard output leads nowhere, since libraries print what they like. Must not know what is asked.
"""

import contextlib
import json
import os
import select
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import IO, Any

# The child gets the search path of its parent as it is: neither a folder it happens to stand in nor another
# installed perfguard may win over the one that runs.
START = "import sys, json, importlib; sys.path[:] = json.loads(sys.argv.pop(1)); importlib.import_module({!r}).main()"
# What a killed process gets to be gone; one in an uninterruptible call of a broken driver never is.
KILL_WAIT_S = 1.0
# Of what it wrote to its standard error, where the last line is looked for.
LAST_WORDS_BYTES = 4096


class ChildGone(Exception):  # noqa: N818 - it says what happened, as Interrupted does
    """The child ended before it answered."""


@dataclass(kw_only=True)
class Child:
    """One running child; `unread` is what it said beyond the last line taken, `errors` its standard error."""

    process: "subprocess.Popen[bytes]"
    wire: socket.socket
    errors: IO[bytes]
    unread: bytes = field(default=b"")

    def tell(self, words: Any) -> None:
        """Raises ChildGone."""
        try:
            self.wire.sendall(json.dumps(words).encode() + b"\n")
        except OSError as error:
            raise ChildGone(self.how_it_ended()) from error

    def hear(self, limit_s: float) -> dict[str, Any]:
        """Its next line. Raises TimeoutError if none comes within `limit_s`, ChildGone if none ever will.

        After a TimeoutError nothing more may be asked: the answer that was late would be taken for the next one.
        """
        until_s = time.monotonic() + limit_s
        while b"\n" not in self.unread:
            left_s = until_s - time.monotonic()
            if left_s <= 0 or not select.select([self.wire], [], [], left_s)[0]:
                raise TimeoutError(f"no answer within {limit_s:g} s")
            said = self._received()
            if not said:
                raise ChildGone(self.how_it_ended())
            self.unread += said
        line, _, self.unread = self.unread.partition(b"\n")
        return _understood(line)

    def _received(self) -> bytes:
        try:
            return self.wire.recv(65536)
        except OSError:  # it ended before it had read what was asked
            return b""

    def ask(self, words: Any, limit_s: float) -> dict[str, Any]:
        self.tell(words)
        return self.hear(limit_s)

    def how_it_ended(self) -> str:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(KILL_WAIT_S)
        code = self.process.returncode
        how = f"by signal {-code}" if code is not None and code < 0 else f"with exit code {code}"
        last = self._last_words()
        return f"its process ended {how}" + (f": {last}" if last else "")

    def _last_words(self) -> str:
        """The last line of its standard error: of a traceback, what was wrong."""
        length = self.errors.seek(0, os.SEEK_END)
        self.errors.seek(max(0, length - LAST_WORDS_BYTES))
        lines = self.errors.read().decode(errors="replace").strip().splitlines()
        return lines[-1].strip() if lines else ""

    def close(self, limit_s: float) -> bool:
        """Close its input, which asks it to end; kill it after `limit_s`. False if not even that ended it."""
        for end in (self.wire, self.errors):
            with contextlib.suppress(OSError):
                end.close()
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
    with contextlib.ExitStack() as undo:
        # A file, not a pipe: nobody reads it while the child runs, and it must not block on what it complains about.
        errors = undo.enter_context(tempfile.TemporaryFile())
        ours, theirs = socket.socketpair()
        undo.enter_context(ours)
        with theirs:
            process = subprocess.Popen(
                command,
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=errors,
                start_new_session=True,
                pass_fds=tuple(keep_open),
            )
        undo.pop_all()
    return Child(process=process, wire=ours, errors=errors)


def _understood(line: bytes) -> dict[str, Any]:
    """One answer. What is none did not come from our child's own code, which is then as good as gone."""
    try:
        answer = json.loads(line)
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        raise ChildGone(f"it did not speak our protocol: {line[:60]!r}")
    return answer


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
    said = _heard()
    while said and not said.endswith(b"\n"):
        more = _heard()
        said = said + more if more else b""
    return [json.loads(line) for line in said.splitlines()] if said else None


def _heard() -> bytes:
    """b"" when perfguard is gone, be it with an answer unread."""
    try:
        return os.read(0, 65536)
    except ConnectionError:
        return b""


def answer(words: Any) -> None:
    """Called by a child. A perfguard that is gone hears nothing."""
    text = json.dumps(words).encode() + b"\n"
    with contextlib.suppress(OSError):
        while text:
            text = text[os.write(0, text) :]
