"""The error tree and the exit codes that scripts rely on. Imports nothing of perfguard.

PerfguardError                 what a user can act on: what happened, where, what to do next
├── UsageError           (2)   wrong argument, option, file or configuration
│   └── RevisionError    (2)   a revision, range or repository that git cannot resolve
├── NotComparableError   (4)   environment, method or origin does not allow a comparison
├── HarnessError         (5)   perfguard itself, or something it rests on, failed
│   ├── BuildError       (5)   the subject does not check out, build or import at a commit
│   │   └── StorageError (5)   a folder that we need cannot be written: no fault of the commit
│   ├── SupervisorError  (5)   the process over a measured one was killed: no fault of what it ran
│   ├── StoreError       (5)   results.db cannot be read or written
│   ├── BusyError        (5)   another measuring job holds this machine
│   └── ClockError       (5)   a GPU refused to have its clocks set or told
└── Interrupted          (130) Ctrl-C: what was measured is stored
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

EXIT_OK = 0
EXIT_REGRESSION = 1
EXIT_USAGE = 2
EXIT_UNDECIDED = 3
EXIT_INVALID = 4
EXIT_FAILURE = 5
EXIT_INTERRUPTED = 130

EXIT_CODES = {
    "EQUIVALENT": EXIT_OK,
    "IMPROVEMENT": EXIT_OK,
    "REGRESSION": EXIT_REGRESSION,
    "INCONCLUSIVE": EXIT_UNDECIDED,
    "SUSPECT": EXIT_UNDECIDED,
    "INVALID": EXIT_INVALID,
    "CALIBRATED": EXIT_OK,
    # recheck retires a number and never accuses a commit: a number that is not reproduced is no regression.
    "REPRODUCED": EXIT_OK,
    "NOT_REPRODUCED": EXIT_OK,
    "CULPRIT": EXIT_REGRESSION,
    "PHANTOM": EXIT_OK,
    "RANKED": EXIT_OK,
    "EXPLAINED": EXIT_OK,
    "NOT_REPRODUCIBLE": EXIT_OK,
}


class PerfguardError(Exception):
    """An error a user can act on. `next_step` is a command or an action, shown on a line of its own."""

    exit_code = EXIT_FAILURE

    def __init__(self, message: str, next_step: str = "") -> None:
        super().__init__(message)
        self.next_step = next_step


class UsageError(PerfguardError):
    exit_code = EXIT_USAGE


class RevisionError(UsageError):
    pass


class NotComparableError(PerfguardError):
    exit_code = EXIT_INVALID


class HarnessError(PerfguardError):
    exit_code = EXIT_FAILURE


class SupervisorError(HarnessError):
    """Nothing of the trial it ran is known; everything before it is stored."""


class BuildError(HarnessError):
    """`log` is the whole log of a failed setup, where one was kept."""

    def __init__(self, message: str, next_step: str = "", log: str = "") -> None:
        super().__init__(message, next_step)
        self.log = log


class StorageError(BuildError):
    pass


class StoreError(HarnessError):
    pass


class BusyError(HarnessError):
    pass


class ClockError(HarnessError):
    """`status`: not_supported, no_permission or error, as for everything that is read of a machine."""

    def __init__(self, message: str, next_step: str = "", *, status: str = "error") -> None:
        super().__init__(message, next_step)
        self.status = status


class Interrupted(PerfguardError):  # noqa: N818 - it is not an error of anybody
    exit_code = EXIT_INTERRUPTED


@contextmanager
def writing(folder: Path, next_step: str) -> Iterator[None]:
    """A full disk does not say by itself which of them it is. Raises StorageError for whatever the system refuses."""
    try:
        yield
    except OSError as error:
        raise StorageError(f"{folder} cannot be written: {error.strerror}", next_step) from error
