"""Repositories with a planted slow commit, and `perfguard bisect` on them. The times are planned, not measured."""

import json
from typing import Any

from cli_support import Project

# A percent of noise drawn by the launch, none from the machine: what is tested is the search in a real repository.
BENCH = """\
thousandths={thousandths}
draw=$(od -An -N2 -tu2 /dev/urandom)
micros=$((thousandths * 1000 + thousandths * draw * 10 / 65536))
printf '{{"seconds": %d.%06d}}\\n' $((micros / 1000000)) $((micros % 1000000))
"""
SECONDS = ("--metric", "seconds", "--unit", "s", "--", "sh", "bench.sh")
# A confirmation of two blocks and two more, as in the other end-to-end tests.
SHORT = ("--margin", "5%", "--alpha", "0.05", "--max-blocks", "4", "--seed", "1", "--quiet")
KEYS = {
    "schema", "outcome", "exit_code", "culprit", "range", "probability", "p_nothing_changed", "slowdown", "commits",
    "trials", "builds", "unbuildable", "confirmation",
}  # fmt: skip


def bench(factor: float | str = 1.0) -> dict[str, str]:
    """A benchmark that takes `factor` seconds, or as many thousandths as a shell makes of a text."""
    return {"bench.sh": BENCH.format(thousandths=factor if isinstance(factor, str) else round(1000 * factor))}


def notes(project: Project, *names: str) -> list[str]:
    """One commit of documentation each."""
    return [project.commit({f"{name}.txt": f"{name}\n"}, name) for name in names]


def bisect(
    project: Project,
    good: str,
    bad: str,
    *arguments: str,
    code: int | tuple[int, ...],
    command: tuple[str, ...] = SECONDS,
) -> dict[str, Any]:
    """The JSON of a bisect from standard output, where nothing else may be."""
    sides = (good, bad) if bad else (good,)
    done = project.run("bisect", *sides, *arguments, "--json", "-", *command, code=code)
    found: dict[str, Any] = json.loads(done.stdout)
    assert found.keys() >= KEYS
    assert found["schema"] == "perfguard/bisect@1"
    assert found["exit_code"] == done.returncode
    return found
