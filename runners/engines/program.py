"""What is started and where: the arm's Python and the folder of the server. Must not start anything."""

import errno
import os
import shutil
import sys
from pathlib import Path

from runners.contract import ParamsError, PlainError, UnbuildableError

# Of a program that cannot be started at all, as against one for which there is no room now.
NO_PROGRAM = (errno.ENOENT, errno.EACCES, errno.ENOTDIR, errno.ENOEXEC)


class NoEngineError(PlainError, UnbuildableError):
    """This commit has no such engine, or not where it was said to be; another may."""


def python_of(asked: str, checkout: Path) -> str:
    """The arm's Python as an absolute path: a relative one lies in its checkout; none is python3 of the path."""
    if not asked:
        return shutil.which("python3") or sys.executable
    if os.sep not in asked:
        return shutil.which(asked) or asked
    # Not resolved: the link is what makes a virtual environment.
    return os.path.normpath(checkout / asked)


def refuse(name: str, problem: str) -> None:
    """Raises NoEngineError for a program that is named relatively, and lies in the checkout then; ParamsError for any
    other, which no commit makes good.
    """
    text = f"cannot start {name!r}: {problem}"
    if os.sep in name and not os.path.isabs(name):
        raise NoEngineError(text)
    raise ParamsError(f"params: {text}")


def folder_of(asked: str, checkout: Path) -> Path:
    """The folder that the server is started in. Raises as refuse does."""
    folder = checkout / asked
    if folder.is_dir():
        return folder
    if os.path.isabs(asked):
        raise ParamsError(f"params: workdir is {asked!r}, which is no folder")
    raise NoEngineError(f"workdir {asked!r} is no folder of this checkout")
