"""Commands of the user's that are told of a regression, a suspicion or a machine that moved: JSON on standard input.

Told last, when everything is stored. Whatever becomes of a command, neither verdict nor exit code follow it.
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
# Outcome -> the hook that is told of it; nobody is told of the others.
TOLD_OF = {"REGRESSION": "on_regression", "CULPRIT": "on_regression", "SUSPECT": "on_suspect"}


@dataclass(frozen=True, kw_only=True)
class Hooks:
    """`commands`: hook -> a command of the shell's, run in `folder` with the environment of perfguard."""

    commands: Mapping[str, str]
    folder: Path
    limit_s: float = LIMIT_S


def tell_of_outcome(hooks: Hooks, result: Mapping[str, Any]) -> str:
    """Tell the hook for the outcome of a comparison or bisect. Returns what went wrong with it, "" if nothing did."""
    name = TOLD_OF.get(str(result["outcome"]), "")
    problem = _tell(hooks, name, result)
    return f"{problem}; the verdict stands" if problem else ""


def tell_of_machine_change(hooks: Hooks, notices: Sequence[Mapping[str, Any]]) -> str:
    """The same where the machine moved: {"schema", "notices"} on its standard input."""
    document = {"schema": "perfguard/machine_moved@1", "notices": list(notices)}
    return _tell(hooks, "on_machine_change", document) if notices else ""


def _tell(hooks: Hooks, name: str, document: Mapping[str, Any]) -> str:
    command = hooks.commands.get(name, "")
    if not command:
        return ""
    problem = _run(hooks, command, json.dumps(document, ensure_ascii=False, allow_nan=False).encode())
    return f"{name} {command!r}: {problem}" if problem else ""


def _run(hooks: Hooks, command: str, document: bytes) -> str:
    try:
        process = subprocess.Popen(
            ["/bin/sh", "-c", command],
            cwd=hooks.folder,
            stdin=subprocess.PIPE,
            stdout=_stderr(),
            start_new_session=True,
        )
    except OSError as error:
        return f"cannot be run: {error.strerror}"
    try:
        process.communicate(document, timeout=hooks.limit_s)
    except subprocess.TimeoutExpired:
        _end(process)
        return f"did not end within {hooks.limit_s:g} s and was ended"
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
