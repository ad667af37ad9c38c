"""What happened to the user's repository since then: reflog, stashes, commits that nothing names, files. Reads only."""

import re
import time
from datetime import datetime
from pathlib import Path

from perfguard.errors import UsageError
from perfguard.subject.commands import ask_git, git_output
from perfguard.subject.location import Location
from perfguard.subject.provenance import printable_lines
from perfguard.subject.worktree import STATUS, read_status

# Seconds since 1970, and what happened.
Event = tuple[float, str]
FSCK_LIMIT_S = 10.0
# As results are stamped: with the second and the zone.
STAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?\+\d\d:\d\d$")
MAX_COMMITS = 20
SHOWN_FILES = 6


def moment(folder: Path, words: str) -> float:
    """A moment as git reads it ("yesterday 17:00", "2 weeks ago", ISO 8601), in seconds since 1970.

    Raises UsageError where git reads nothing in it: it then silently means now. A whole time stamp is read here, so
    that one of this very second is not taken for that.
    """
    if STAMP.match(words) and (stamped := datetime.fromisoformat(words).timestamp()) <= time.time():
        return stamped
    answer = ask_git(folder, "rev-parse", f"--since={words}")
    seconds = float(answer.text.removeprefix("--max-age=")) if answer.text.startswith("--max-age=") else time.time()
    if seconds > time.time() - 1:
        raise UsageError(f"--since {words!r} is no moment in the past", 'perfguard timeline --since "yesterday 17:00"')
    return seconds


def reflog(location: Location, ref: str, since_s: float) -> list[Event]:
    """Entries of a reflog since then, newest first: HEAD moved, or something was put on the stash."""
    form = "--format=%gd%x00%h%x00%gs"
    answer = ask_git(location.root, "log", "--walk-reflogs", "--date=unix", form, ref, "--")
    if not answer.is_ok:
        return []
    rows = (line.split("\0") for line in printable_lines(answer.output))
    events = [(float(entry.rpartition("{")[2].rstrip("}")), f"{commit} {what}") for entry, commit, what in rows]
    return [(at_s, text) for at_s, text in events if at_s >= since_s]


def lost_commits(location: Location, since_s: float) -> list[Event]:
    """Commits made since then that no branch, tag or reflog names: dropped stashes, patches that went missing.

    Raises OSError where git did not tell in time.
    """
    options = ("--no-progress", "--connectivity-only", "--dangling")
    answer = ask_git(location.root, "fsck", *options, limit_s=FSCK_LIMIT_S)
    lines = printable_lines(answer.output)
    if not answer.is_ok and not lines:
        raise OSError(0, f"git fsck did not tell within {FSCK_LIMIT_S:g} s: {answer.error[:80]}")
    shas = [line.rsplit(" ", 1)[1] for line in lines if line.startswith("dangling commit ")]
    if not shas:
        return []
    told = git_output(location.root, "log", "--no-walk", "--format=%H%x00%ct%x00%s", *shas, "--")
    rows = [line.split("\0") for line in printable_lines(told.output)]
    recent = sorted(((float(at), sha, text) for sha, at, text in rows if float(at) >= since_s), reverse=True)
    return [(at, f"{sha[:12]} {text}: {_files(location, sha)}") for at, sha, text in recent[:MAX_COMMITS]]


def _files(location: Location, commit: str) -> str:
    """Against its first parent: for a stash that is what was changed."""
    options = ("-1", "--first-parent", "-m", "--name-only", "--format=", "-z")
    files = git_output(location.root, "log", *options, commit, "--").names()
    rest = f" and {len(files) - SHOWN_FILES} more" if len(files) > SHOWN_FILES else ""
    return (", ".join(files[:SHOWN_FILES]) + rest) or "no files"


def edited_files(location: Location, since_s: float) -> list[Event]:
    """Changed or untracked files of the working tree that were written since then, newest first."""
    if location.is_bare:
        return []
    changes = read_status(git_output(location.root, *STATUS).output)
    paths = [location.root / change.path for change in changes]
    written = [(path.lstat().st_mtime, str(path.relative_to(location.root))) for path in paths if path.exists()]
    return sorted((event for event in written if event[0] >= since_s), reverse=True)
