"""Nights as they would come to pass: a real repository, real processes, a machine and a clock that are made up.

The benchmark takes thousandths of a second that its commit names, times the level of the machine, which lies in a file
beside the repository; it prints them and does not wait. So a night costs what its processes cost.
"""

import dataclasses
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from perfguard.config import load
from perfguard.hooks import Hooks
from perfguard.nightly.story import nightly
from perfguard.nightly.wishes import wishes_of
from perfguard.report.progress import Progress
from perfguard.report.terminal import open_console
from perfguard.store import open_store
from perfguard.subject.repository import open_repository
from tests.e2e.cli_support import Project

# Noise of 0.3 % (uniform, sd 0.09 %) drawn by the launch. On a spike night a quarter of all launches is 20 % slow.
BENCH = """\
micros={micros}
read level spike < {machine}
draw=$(od -An -N4 -tu2 /dev/urandom)
set -- $draw
value=$((micros * level / 1000 + micros * $1 * 3 / 65536000))
if [ "$spike" = 1 ] && [ $(($2 % 4)) = 0 ]; then value=$((value * 12 / 10)); fi
printf '{{"seconds": %d.%06d}}\\n' $((value / 1000000)) $((value % 1000000))
"""
CONFIG = """\
[policy]
pause_share = 0
confirm_builds = 2
[workload.decode]
command = "sh bench.sh"
metrics = [{name = "seconds", unit = "s", better = "lower"}]
[nightly]
workloads = ["decode"]
[hooks]
on_regression = "cat >> ../regression.jsonl"
on_suspect = "cat >> ../suspect.jsonl"
on_machine_change = "cat >> ../machine.jsonl"
"""
FIRST_NIGHT = datetime(2026, 3, 1, 2, 0, tzinfo=UTC)


@dataclass
class Nights:
    """A project whose nights are measured in this process. `machine` is what the fingerprint says."""

    project: Project
    day: int = 0
    level: int = 1000
    is_spike: bool = False
    machine: dict[str, Any] = field(
        default_factory=lambda: {"host": {"hostname_sha256": "a"}, "gpu": {"driver": "570.1"}}
    )

    @property
    def machine_file(self) -> Path:
        return self.project.folder / "machine"

    @property
    def now(self) -> datetime:
        return FIRST_NIGHT + timedelta(days=self.day)

    def bench(self, micros: int = 1_000_000) -> dict[str, str]:
        return {"bench.sh": BENCH.format(micros=micros, machine=self.machine_file)}

    def start(self) -> str:
        """The first commit, pinned."""
        commit = self.project.commit({**self.bench(), "perfguard.toml": CONFIG}, "start")
        with open_store(self.project.db) as store:
            from perfguard.nightly.pins import set_pin

            set_pin(commit, "", open_repository(self.project.repo), store, self.now)
        return commit

    def commit(self, message: str, micros: int | None = None) -> str:
        """Documentation, or the benchmark with another cost."""
        files = {"notes.txt": f"{self.day} {message}\n"} if micros is None else self.bench(micros)
        return self.project.commit(files, message)

    def night(self, *, days: int = 1, wishes: dict[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
        """The next night, `days` after the last one."""
        self.day += days
        self.machine_file.write_text(f"{self.level} {int(self.is_spike)}\n")
        config = load(self.project.repo)
        asked = dataclasses.replace(wishes_of(config, **(wishes or {})), **changes)
        repository = open_repository(self.project.repo)
        quiet = Progress(console=open_console(), is_quiet=True)
        hooks = Hooks(commands=config.hooks, folder=self.project.repo)
        with open_store(self.project.db) as store:
            return nightly(asked, "HEAD", repository, store, quiet, hooks, self.now)

    def told(self, name: str) -> str:
        """What a hook has heard so far."""
        path = self.project.folder / f"{name}.jsonl"
        return path.read_text() if path.exists() else ""
