"""The story of `timeline`: what changed on this machine and in this checkout since then. Reads only; names no cause.

For those who recorded nothing, and for what an explanation has to leave unknown.
"""

import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from perfguard.machine import past as machine
from perfguard.subject import past as subject
from perfguard.subject.repository import Repository
from perfguard.trial.secrets import scrub, secret_values

SCHEMA = "perfguard/timeline@1"
Event = tuple[float, str]
Look = Callable[[], Sequence[Event]]


def timeline(
    repository: Repository,
    since: str,
    environment: Mapping[str, str] | None = None,
    folders: Sequence[str] | None = None,
) -> dict[str, Any]:
    """`since`: words that git reads as a moment. `environment` and `folders` (sys.path): of this process by default."""
    since_s = subject.moment(repository.root, since)
    environ = dict(os.environ) if environment is None else dict(environment)
    looks = _looks(repository, since_s, environ, list(sys.path if folders is None else folders))
    found = [_item(what, look) for what, look in looks.items()]
    return {
        "schema": SCHEMA,
        "since": _iso(since_s),
        "until": _iso(time.time()),
        "repository": str(repository.root),
        "items": scrub(found, secret_values(environ)),
    }


def _looks(
    repository: Repository, since_s: float, environ: Mapping[str, str], folders: Sequence[str]
) -> dict[str, Look]:
    home = Path(environ.get("HOME") or Path.home())
    location = repository.location
    return {
        "HEAD (reflog)": partial(subject.reflog, location, "HEAD", since_s),
        "stashes": partial(subject.reflog, location, "refs/stash", since_s),
        "lost commits (named by nothing)": partial(subject.lost_commits, location, since_s),
        "uncommitted files": partial(subject.edited_files, location, since_s),
        "Python packages": partial(machine.packages, folders, since_s),
        "Python startup files": partial(machine.startup_files, folders, since_s),
        "shell profiles": partial(machine.profiles, home, since_s),
        "system packages (dpkg)": partial(machine.system_packages, since_s),
        "NVIDIA driver": partial(machine.driver, since_s),
        "reboot": partial(machine.reboots, since_s),
        "GPU errors (Xid)": partial(machine.xids, since_s),
        "compile caches": partial(machine.compile_caches, environ, home, since_s),
        "model snapshots": partial(machine.model_snapshots, environ, home, since_s),
    }


def _item(what: str, look: Look) -> dict[str, Any]:
    try:
        events = look()
    except OSError as error:
        why = error.strerror or str(error)
        where = f"{error.filename}: " if error.filename else ""
        return {"what": what, "state": "unknown", "detail": f"{where}{why}", "events": []}
    told = [{"at": _iso(at_s), "text": text} for at_s, text in events]
    return {"what": what, "state": "changed" if told else "unchanged", "detail": "", "events": told}


def changed(found: Mapping[str, Any]) -> list[str]:
    """Names of what changed."""
    return [item["what"] for item in found["items"] if item["state"] == "changed"]


def _iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
