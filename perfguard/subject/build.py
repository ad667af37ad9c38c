"""The `--setup` command of a workload: builds a checkout once, its log kept.

Must not judge what was built (origin does, from what a run loads).
"""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from perfguard.errors import BuildError

GUARD = Path(__file__).with_name("setup_guard.py")
TAIL_LINES = 30
# Logs of failed setups that are kept; a long bisect over commits that do not build fills no disk.
MAX_LOGS = 100


def run_setup(command: str, checkout: Path, *, log: Path, env: Mapping[str, str], timeout_s: float) -> None:
    """Run `command` with the shell in `checkout`, under `env` alone. Raises BuildError with the log's tail and path."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with open(log, "wb") as stream:
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(GUARD), command],
            cwd=checkout,
            env=dict(env),
            stdin=subprocess.PIPE,  # its end ends the setup, however perfguard ends
            stdout=stream,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            code = process.wait(timeout_s)
        except BaseException as error:  # also Ctrl-C
            _end_group(process)
            if isinstance(error, subprocess.TimeoutExpired):
                raise _failed(command, f"did not end within {timeout_s:g} s", log) from error
            raise
        finally:
            if process.stdin is not None:
                process.stdin.close()
    if code != 0:
        raise _failed(command, f"ended by signal {-code}" if code < 0 else f"exit code {code}", log)


def keep_log(log: Path, root: Path, commit: str) -> Path | None:
    """Move the log of a failed setup to where it outlives its checkout; None if that is not possible."""
    folder = root / "failed"
    kept = folder / f"{datetime.now(UTC):%Y%m%d-%H%M%S-%f}-{commit[:12]}.log"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        log.replace(kept)
        for old in sorted(folder.glob("*.log"))[:-MAX_LOGS]:
            old.unlink(missing_ok=True)
    except OSError:
        return None
    return kept


def _end_group(process: "subprocess.Popen[bytes]") -> None:
    """Its leader is not reaped yet, so the number of the group still belongs to us."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _failed(command: str, what: str, log: Path) -> BuildError:
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()[-TAIL_LINES:]
    tail = "\n".join(lines) or "(no output)"
    return BuildError(
        f"--setup {command!r}: {what}\n{tail}",
        "run the setup by hand in a checkout of that commit; the end of its log is above",
    )
