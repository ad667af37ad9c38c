"""Commands of the user's that are told of a suspicion, or of a machine that moved: JSON on their standard input.

Told last, when the verdict is stored. Whatever becomes of the command, neither verdict nor exit code follow it.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LIMIT_S = 30.0


@dataclass(frozen=True, kw_only=True)
class Hook:
    """`command` is the shell's, run in `folder` with the environment of perfguard; so is `on_machine_change`."""

    command: str
    folder: Path
    limit_s: float = LIMIT_S
    on_machine_change: str = ""


def tell_of_suspicion(hook: Hook, comparison: Mapping[str, Any]) -> str:
    """Run the hook if the comparison ended SUSPECT. Returns what went wrong with it, "" if nothing did."""
    if not hook.command or comparison["outcome"] != "SUSPECT":
        return ""
    problem = _run(hook, hook.command, comparison)
    return f"on_suspect {hook.command!r}: {problem}; the verdict stands" if problem else ""


def tell_of_machine_change(hook: Hook, notices: Sequence[Mapping[str, Any]]) -> str:
    """Run its command if the machine moved: {"schema", "notices"} on its standard input. Returns what went wrong."""
    if not hook.on_machine_change or not notices:
        return ""
    document = {"schema": "perfguard/machine_moved@1", "notices": list(notices)}
    problem = _run(hook, hook.on_machine_change, document)
    return f"on_machine_change {hook.on_machine_change!r}: {problem}" if problem else ""


def _run(hook: Hook, command: str, told: Mapping[str, Any]) -> str:
    document = json.dumps(told, ensure_ascii=False, allow_nan=False).encode()
    try:
        process = subprocess.Popen(
            ["/bin/sh", "-c", command],
            cwd=hook.folder,
            stdin=subprocess.PIPE,
            stdout=_stderr(),
            start_new_session=True,
        )
    except OSError as error:
        return f"cannot be run: {error.strerror}"
    try:
        process.communicate(document, timeout=hook.limit_s)
    except subprocess.TimeoutExpired:
        _end(process)
        return f"did not end within {hook.limit_s:g} s and was ended"
    except KeyboardInterrupt:  # a person does not want to wait for it; the verdict is stored and printed
        _end(process)
        return "interrupted"
    code = process.returncode
    return "" if code == 0 else f"ended by signal {-code}" if code < 0 else f"exit code {code}"


def _stderr() -> int:
    with suppress(OSError, ValueError):
        return sys.stderr.fileno()
    return subprocess.DEVNULL


def _end(process: "subprocess.Popen[bytes]") -> None:
    """With all it started. Its leader is not reaped yet, so the number of the group still belongs to us."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
