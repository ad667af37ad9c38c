"""Where the user's repository stood when something was measured: HEAD, reflog, stashes, what was not committed.

Reads only. What is measured comes from commits and patches; this is for the question what else lay around.
"""

import hashlib
from pathlib import Path
from typing import Any

from perfguard.subject.commands import ask_git, git_output
from perfguard.subject.location import Location
from perfguard.subject.revisions import head_commit, printable
from perfguard.subject.worktree import STATUS, read_status

MAX_STASHES = 50
# A tree with more changed files than these is told by their number; larger files by their size.
MAX_FILES = 500
MAX_HASHED_BYTES = 64 * 2**20
LOGGED = "--format=%H%x00%cI%x00%gd%x00%gs"


def repository_state(location: Location) -> dict[str, Any]:
    """{"head", "branch", "reflog", "num_stashes", "stashes", "uncommitted", "num_uncommitted"}, plain JSON data.

    `reflog` is the newest entry of HEAD, `uncommitted` maps changed and untracked files (not ignored ones) to the
    sha256 of their content.
    """
    stashes = logged(location, "refs/stash")
    uncommitted = [] if location.is_bare else read_status(git_output(location.root, *STATUS).output)
    paths = sorted(change.path for change in uncommitted if not change.is_repository)
    branch = ask_git(location.root, "symbolic-ref", "--quiet", "--short", "HEAD")
    return {
        "head": head_commit(location),
        "branch": printable(branch.text) if branch.is_ok else "",
        "reflog": next(iter(logged(location, "HEAD", "-1")), {}),
        "num_stashes": len(stashes),
        "stashes": stashes[:MAX_STASHES],
        "num_uncommitted": len(paths),
        "uncommitted": {path: _content(location.root / path) for path in paths[:MAX_FILES]},
    }


def logged(location: Location, ref: str, *options: str) -> list[dict[str, str]]:
    """Entries of a reflog, newest first: {"commit", "at", "entry", "what"}; none where there is no such log.

    `at` is when the commit was made, `entry` its place (HEAD@{0}), `what` git's own word for what happened.
    """
    answer = ask_git(location.root, "log", "--walk-reflogs", *options, LOGGED, ref, "--")
    if not answer.is_ok:
        return []
    rows = (line.split("\0") for line in printable_lines(answer.output))
    return [{"commit": row[0], "at": row[1], "entry": row[2], "what": row[3]} for row in rows if len(row) == 4]


def printable_lines(output: bytes) -> list[str]:
    """Lines of git's answer; fields are kept apart by zero bytes, other control characters are made harmless."""
    text = output.decode("utf-8", errors="replace")
    return ["\0".join(printable(part) for part in line.split("\0")) for line in text.split("\n") if line]


def _content(path: Path) -> str:
    """sha256 of a file; in words where there is none."""
    try:
        if path.is_symlink() or not path.is_file():
            return "no file"
        if (size := path.stat().st_size) > MAX_HASHED_BYTES:
            return f"not read, {size} bytes"
        with open(path, "rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        return f"not read: {error.strerror}"
