"""The installed `perfguard` driven as a person drives it: real processes, real git, and nothing shared with others."""

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PERFGUARD = Path(sys.executable).with_name("perfguard")
# Statistics are tested elsewhere: a verdict after two blocks, a change confirmed after two more.
SHORT = ("--margin", "20%", "--alpha", "0.05", "--max-blocks", "2", "--seed", "1")
# One pair of fresh builds confirms, in place of four.
QUICK = "[policy]\npause_share = 0\nconfirm_builds = 2\n"
LIMIT_S = 90
# What a person may have set and a trial would inherit.
NOT_INHERITED = ("PERFGUARD", "PYTHON", "GIT_", "NO_COLOR", "FORCE_COLOR", "COLUMNS")


@dataclass(frozen=True, kw_only=True)
class Project:
    """A repository in `folder`/repo with cache, lock and database of its own."""

    folder: Path
    program: Path = PERFGUARD

    @property
    def repo(self) -> Path:
        return self.folder / "repo"

    @property
    def cache(self) -> Path:
        return self.folder / "cache"

    @property
    def db(self) -> Path:
        return self.repo / ".perfguard" / "results.db"

    def env(self, **more: str) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(NOT_INHERITED)}
        own = {"PERFGUARD_CACHE": str(self.cache), "PERFGUARD_LOCK_DIR": str(self.folder / "lock")}
        return {**kept, **own, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1", **more}

    def git(self, *arguments: str) -> str:
        identity = ("-c", "user.name=test", "-c", "user.email=test@example.org")
        command = ["git", "-C", str(self.repo), *identity, *arguments]
        return subprocess.run(command, env=self.env(), check=True, capture_output=True, text=True).stdout.strip()

    def write(self, files: dict[str, Any]) -> None:
        """Text as it is, anything else as JSON."""
        for name, content in files.items():
            path = self.repo / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content if isinstance(content, str) else json.dumps(content))

    def commit(self, files: dict[str, Any], message: str = "next") -> str:
        """One more commit; returns its sha. The first one makes the repository."""
        if not self.repo.exists():
            self.repo.mkdir(parents=True)
            self.git("init", "--quiet", "--initial-branch=main")
            files = {"perfguard.toml": QUICK, **files}
        self.write(files)
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--message", message)
        return self.git("rev-parse", "HEAD")

    def run(
        self, *arguments: str, code: int | tuple[int, ...] = 0, cwd: Path | None = None, **env: str
    ) -> "subprocess.CompletedProcess[str]":
        """One command line in the repository, which must end with `code` and without a trace of Python's."""
        done = subprocess.run(
            [self.program, *arguments],
            cwd=cwd or self.repo,
            env=self.env(**env),
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
        )
        allowed = code if isinstance(code, tuple) else (code,)
        assert done.returncode in allowed, f"{arguments}: exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
        assert "perfguard itself failed" not in done.stderr, done.stderr
        return done

    def start(self, *arguments: str, said: Path) -> "subprocess.Popen[bytes]":
        """The same in the background; both of its streams go into the file `said`."""
        with open(said, "wb") as stream:
            return subprocess.Popen(
                [self.program, *arguments], cwd=self.repo, env=self.env(), stdout=stream, stderr=subprocess.STDOUT
            )

    def compare(
        self, *arguments: str, code: int | tuple[int, ...], base: str = "HEAD~1", head: str = "HEAD", **env: str
    ) -> dict[str, Any]:
        """A short comparison; its JSON from standard output, where nothing else may be."""
        done = self.run("compare", base, head, *SHORT, "--quiet", "--json", "-", *arguments, code=code, **env)
        comparison: dict[str, Any] = json.loads(done.stdout)
        assert comparison["exit_code"] == done.returncode
        return comparison


def wait_for(condition: Callable[[], Any], what: str, limit_s: float = 60.0) -> Any:
    """What `condition` returns as soon as it is true."""
    until_s = time.monotonic() + limit_s
    while time.monotonic() < until_s:
        if found := condition():
            return found
        time.sleep(0.02)
    raise AssertionError(f"waited {limit_s:g} s in vain for {what}")


def is_alive(pid: int) -> bool:
    """False also for a zombie that nobody has collected yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except OSError:
        return False


def codes(comparison: dict[str, Any]) -> list[str]:
    return [reason["code"] for reason in comparison["reasons"]]


def texts(comparison: dict[str, Any]) -> str:
    return "\n".join(reason["text"] for reason in comparison["reasons"])


def rows(database: Path, query: str) -> list[tuple[Any, ...]]:
    """What another program reads in the database, also while perfguard writes; nothing before there is one."""
    if not database.exists():
        return []
    try:
        return ask(f"{database.as_uri()}?mode=ro", query)
    except sqlite3.OperationalError as error:
        if "no such table" in str(error):
            return []  # the first moment
    # A writer that was killed left a journal which only somebody who may write can finish. That is done to a copy.
    with tempfile.TemporaryDirectory() as folder:
        for path in database.parent.glob(f"{database.name}*"):
            shutil.copy(path, folder)
        return ask(f"{Path(folder, database.name).as_uri()}?mode=rw", query)


def ask(uri: str, query: str) -> list[tuple[Any, ...]]:
    connection = sqlite3.connect(uri, uri=True)
    try:
        return connection.execute(query).fetchall()
    finally:
        connection.close()
