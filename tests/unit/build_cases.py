"""Builds for the tests of their cache: a real setup in real folders, counted outside of them."""

import os
import time
from pathlib import Path

from perfguard.subject.build import run_setup
from perfguard.subject.buildcache import Limits, Provided, Wanted, provide
from perfguard.subject.kept import places
from perfguard.subject.workspace import Build, Workspace

DAY_S = 86400.0
KEY = "0123456789abcdef" * 4


def wanted(key: str = KEY, *, max_bytes: int = 10**9, max_age_s: float = DAY_S) -> Wanted:
    return Wanted(key=key, limits=Limits(max_bytes=max_bytes, max_age_s=max_age_s), about={"commit": "c" * 40})


class Setup:
    """A shell command as setup; `num_runs` counts how often it ran."""

    def __init__(self, command: str = "pwd > where") -> None:
        self.command = command
        self.num_runs = 0

    def __call__(self, build: Build) -> None:
        self.num_runs += 1
        env = {"PATH": os.environ["PATH"], "CACHES": str(build.caches)}
        run_setup(self.command, build.checkout, log=build.logs / "setup.log", env=env, timeout_s=60)


def build_once(workspace: Workspace, setup: Setup, **changes: object) -> Provided:
    """Made, used and given back: what an earlier campaign leaves."""
    provided = provide(wanted(**changes), workspace, setup)  # type: ignore[arg-type]
    workspace.release(provided.build)
    return provided


def keys(number: int) -> list[str]:
    """Keys that differ in the part that names a place."""
    return [f"{index:014x}".ljust(64, "f") for index in range(number)]


def hours_ago(path: Path, hours: float) -> None:
    then_s = time.time() - hours * 3600
    os.utime(path, (then_s, then_s))


def place(workspace: Workspace, key: str = KEY) -> Path:
    return places(workspace.root) / key[:14]


def said(provided: Provided) -> str:
    return "\n".join(provided.notes)
