"""One way to run git. Every call is deaf to hooks, pagers, colours and to the repository that git itself may have
named in the environment (perfguard started from a hook or from `git bisect run`).

Must not decide anything: status, output and git's own words go back to the caller.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from perfguard.errors import HarnessError, UsageError

# Variables that would move a command to another repository, index, object store or pathspec reading.
REPOSITORY_VARIABLES = (
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_COMMON_DIR",
    "GIT_INDEX_FILE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_NAMESPACE",
    "GIT_PREFIX",
    "GIT_SHALLOW_FILE",
    "GIT_GRAFT_FILE",
    "GIT_IMPLICIT_WORK_TREE",
    "GIT_QUARANTINE_PATH",
    "GIT_LITERAL_PATHSPECS",
    "GIT_GLOB_PATHSPECS",
    "GIT_NOGLOB_PATHSPECS",
    "GIT_ICASE_PATHSPECS",
)
# No lock for a mere look, no question to a person, no download into the user's store, the true objects.
SETTINGS = {
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_DEFAULT_REF_FORMAT": "files",
}
# Settings of a person that would run something of theirs, write beside a private index, or change what is printed.
CONFIG = (
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.untrackedCache=false",
    "core.splitIndex=false",
    "core.pager=cat",
    "core.quotePath=false",
    "color.ui=false",
    "log.showSignature=false",
    "submodule.recurse=false",
    "gc.auto=0",
    "maintenance.auto=false",
    # LFS content is handled apart (lfs.py): its filters would write into the user's store or need a network.
    "filter.lfs.smudge=",
    "filter.lfs.clean=",
    "filter.lfs.process=",
    "filter.lfs.required=false",
)


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What git said. `error` is its standard error, decoded for people."""

    status: int
    output: bytes
    error: str

    @property
    def is_ok(self) -> bool:
        return self.status == 0

    @property
    def text(self) -> str:
        """The output as a path or name: undecodable bytes survive, one final newline is cut."""
        return os.fsdecode(self.output.removesuffix(b"\n"))

    def names(self) -> list[str]:
        """The output of a `-z` listing."""
        return [os.fsdecode(name) for name in self.output.split(b"\0") if name]


def ask_git(
    folder: Path,
    *arguments: str,
    env: Mapping[str, str] | None = None,
    config: tuple[str, ...] = (),
    stdin: BinaryIO | None = None,
    limit_s: float | None = None,
) -> Answer:
    """Run git in `folder` and return whatever it answers; beyond `limit_s` it is ended, which is a bad status too.

    Raises UsageError where there is no git.
    """
    try:
        import git  # here, since GitPython looks for the program while it is imported
    except ImportError as error:
        raise UsageError("git was not found on PATH", "install git 2.32 or newer") from error
    unset = [part for name in REPOSITORY_VARIABLES for part in ("-u", name)]
    given = [f"{name}={value}" for name, value in {**SETTINGS, **(env or {})}.items()]
    options = [part for setting in (*CONFIG, *config) for part in ("-c", setting)]
    status, output, error_text = git.Git(str(folder)).execute(
        ["env", *unset, *given, "git", *options, *arguments],
        istream=stdin,
        with_extended_output=True,
        with_exceptions=False,
        stdout_as_string=False,
        strip_newline_in_stdout=False,
        kill_after_timeout=limit_s,
    )
    return Answer(status=status, output=_as_bytes(output), error=str(error_text).strip())


def git_output(folder: Path, *arguments: str, config: tuple[str, ...] = ()) -> Answer:
    """Run git where failing would be a fault of perfguard. Raises HarnessError with git's own words."""
    answer = ask_git(folder, *arguments, config=config)
    if not answer.is_ok:
        raise HarnessError(f"git {arguments[0]} failed in {folder}: {answer.error}")
    return answer


def _as_bytes(output: str | bytes | None) -> bytes:
    return output.encode() if isinstance(output, str) else output or b""
