"""The command line: parse, one call, print, exit code. Nothing heavy is imported before a command runs."""

import errno
import signal
import sys
from contextlib import suppress
from typing import Any

import typer

# Each of these registers its commands on `app`; none of them imports anything heavy at its top.
from perfguard.cli import bisecting as bisecting
from perfguard.cli import browse as browse
from perfguard.cli import builds as builds
from perfguard.cli import calibrate as calibrate
from perfguard.cli import checking as checking
from perfguard.cli import ci as ci
from perfguard.cli import clocks as clocks
from perfguard.cli import demo as demo
from perfguard.cli import doctor as doctor
from perfguard.cli import explain as explain
from perfguard.cli import extending as extending
from perfguard.cli import history as history
from perfguard.cli import importing as importing
from perfguard.cli import measure as measure
from perfguard.cli import nightly as nightly
from perfguard.cli import prune as prune
from perfguard.cli import report as report
from perfguard.cli import speculating as speculating
from perfguard.cli import stored as stored
from perfguard.cli import sweeping as sweeping
from perfguard.cli.app import app
from perfguard.cli.options import mute, place_asked
from perfguard.cli.panels import arrange
from perfguard.errors import EXIT_FAILURE, EXIT_INTERRUPTED, EXIT_OK, EXIT_REGRESSION, EXIT_USAGE, PerfguardError

arrange(app)

# Named through typer: depending on its version the class is click's or that of a copy of click inside typer.
CommandLineError: type[Exception] = typer.BadParameter.__mro__[1]
UNWRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EFBIG)


def run(arguments: list[str]) -> int:
    """Run one command line and return its exit code; every error a user can cause ends as text, not as a trace.

    `git bisect run` takes every code up to 124 but 0 for "bad": from `check` only a regression may end so.
    """
    code = _run(arguments)
    is_known = code in (EXIT_OK, EXIT_REGRESSION, EXIT_INTERRUPTED)
    return code if is_known or arguments[:1] != ["check"] else checking.CANNOT_TELL


def _run(arguments: list[str]) -> int:
    try:
        code = int(app(args=arguments, prog_name="perfguard", standalone_mode=False) or 0)
        if code == EXIT_INTERRUPTED:  # typer has taken a Ctrl-C that came before anything was measured
            _show("interrupted", "")
        return code
    except PerfguardError as error:
        from perfguard.report.next_step import located

        _show(str(error), located(error.next_step, place_asked(arguments)))
        return error.exit_code
    except CommandLineError as error:
        told: Any = error
        _show(told.format_message(), f"{told.ctx.command_path if told.ctx else 'perfguard'} --help")
        return EXIT_USAGE
    except (KeyboardInterrupt, typer.Abort):
        _show("interrupted", "")
        return EXIT_INTERRUPTED
    except (BrokenPipeError, SystemExit):
        # The reader of our output went away (`| head`), which typer and rich turn into exit code 1: our REGRESSION.
        mute()
        return 0
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            _show(f"{error.filename}: {error.strerror}", "give a shorter name")
            return EXIT_USAGE
        return _unwritten(error) if error.errno in UNWRITABLE else _failed(error)
    except Exception as error:
        return _failed(error)


def _failed(error: Exception) -> int:
    import traceback

    with suppress(OSError):
        traceback.print_exception(error)
    _show(f"perfguard itself failed: {type(error).__name__}: {error}", "what was measured is stored: perfguard runs")
    return EXIT_FAILURE


def _unwritten(error: OSError) -> int:
    """A file, or standard output on a full disk: that has no name."""
    what = error.filename or "the output"
    _show(f"{what} cannot be written: {error.strerror}", "free space, or write to another place")
    mute()
    return EXIT_FAILURE


def _show(message: str, next_step: str) -> None:
    try:
        typer.echo(f"error: {message}", err=True)
        if next_step:
            typer.echo(f" next: {next_step}", err=True)
    except OSError:  # nobody reads it, or the disk of the log is full
        mute()


def main() -> None:
    """Exit code 1 says REGRESSION: whatever goes wrong on the way out, Python's own 1 must never be taken for it."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # `timeout 1h perfguard …` ends as Ctrl-C does
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # a closed terminal does too; nohup has it ignored
        signal.signal(signal.SIGHUP, signal.default_int_handler)
    code = EXIT_FAILURE
    try:
        code = run(sys.argv[1:])
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
    except OSError as error:
        # A reader that went away has what it wanted; a full disk has not.
        if error.errno in UNWRITABLE:
            code = _unwritten(error)
        mute()
    except BaseException:
        mute()
    sys.exit(code)
