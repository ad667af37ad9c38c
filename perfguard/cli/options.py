"""Options that several commands share, and the two questions every command asks: which database, which output?"""

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from perfguard.errors import UsageError

if TYPE_CHECKING:
    from perfguard.report.next_step import Place

Db = Annotated[str, typer.Option("--db", help="Results database. Default: .perfguard/results.db of the project.")]
Repo = Annotated[Path, typer.Option("--repo", help="Git repository. Default: the one you stand in.")]
Json = Annotated[
    str, typer.Option("--json", help="Write the result as JSON; - is stdout, and nothing else goes there.")
]
Quiet = Annotated[bool, typer.Option("--quiet", help="Only the result, no progress.")]
Seed = Annotated[int | None, typer.Option("--seed", help="Seed of the orders. Default: drawn and stored.", min=0)]
Margin = Annotated[str, typer.Option("--margin", help="Largest slowdown called equivalent, such as 2%.")]
Alpha = Annotated[float | None, typer.Option("--alpha", help="Rate of reported phantoms. Default: 0.001.")]
MaxBlocks = Annotated[int | None, typer.Option("--max-blocks", help="Most blocks of four trials in each stage.")]
Budget = Annotated[str, typer.Option("--budget", help="Stop in time for this, such as 20m or 4h.")]
Clocks = Annotated[str, typer.Option("--clocks", help="GPU clocks: observe (default), lock, or require a lock.")]
SmClock = Annotated[int | None, typer.Option("--sm-clock", help="SM clock to lock, in MHz. Default: by rule.", min=1)]
OnSuspect = Annotated[str, typer.Option("--on-suspect", help="Command that gets the JSON on stdin if it ends SUSPECT.")]
Modes = Annotated[str, typer.Option("--modes", help="plain, eagle3 or both.")]
WorkloadName = Annotated[str, typer.Option("--workload", "-w", help="A workload: see `perfguard workloads`.")]
Env = Annotated[
    list[str] | None, typer.Option("--env", help="K=V for both sides, or NAME as it is set here; repeatable.")
]
Set = Annotated[
    list[str] | None, typer.Option("--set", help="Workload parameter KEY=VALUE for both sides; repeatable.")
]
Url = Annotated[str, typer.Option("--url", help="A running server to measure, for workloads of engines.")]
MetricName = Annotated[str, typer.Option("--metric", help="Metric that the command prints. Default: wall time.")]
BetterWay = Annotated[str, typer.Option("--better", help="lower (default) or higher. To be said of rates.")]
Unit = Annotated[str, typer.Option("--unit", help="Unit of the metric, such as s or token/s.")]
Read = Annotated[str, typer.Option("--read", help="wall, json or regex:PATTERN: where the metric is found.")]
Setup = Annotated[str, typer.Option("--setup", help="Command that builds a checkout once.")]
NoBuildCache = Annotated[
    bool, typer.Option("--no-build-cache", help="Run --setup for every build; read and keep none.")
]
Timeout = Annotated[str, typer.Option("--timeout", help="Longest measured part of a trial, such as 90s or 20m.")]
ReadyTimeout = Annotated[str, typer.Option("--ready-timeout", help="Longest start and load of a trial.")]
BenchFrom = Annotated[
    str, typer.Option("--bench-from", help="REV:PATH: this file or folder of REV is put into every checkout.")
]
Scope = Annotated[
    str,
    typer.Option(
        "--scope", help="full; in-process: both sides in one launch a block; resident: engines that sleep in turn."
    ),
]
NoFullSize = Annotated[bool, typer.Option("--no-full-size", help="After --thin: no block of launches at full size.")]
Trace = Annotated[bool, typer.Option("--trace", help="Profile 20 cycles behind each measured window (sglang, vllm).")]
PinArgs = Annotated[
    str, typer.Option("--pin-args", help="base: head runs with the arguments that base's engine resolved.")
]
Command = Annotated[list[str] | None, typer.Argument(help="After --: a command of your own.", show_default=False)]


def project_folder(start: Path) -> Path:
    """Where the project around `start` keeps configuration and results: beside perfguard.toml, else .git."""
    start = start.resolve()
    marks = ("perfguard.toml", ".git")
    return next((f for f in (start, *start.parents) if any((f / mark).exists() for mark in marks)), start)


def database(db: str, start: Path) -> Path:
    """The results database: as asked, or that of the project around `start`."""
    return Path(db) if db else project_folder(start) / ".perfguard" / "results.db"


def place_of(db: Path, repository: str = ".") -> "Place":
    """What the next command must name to find this database (as it was typed) and this repository from here."""
    from perfguard.report.next_step import Place

    here, there = Path.cwd(), Path(repository)
    is_default = db.resolve() == database("", here).resolve()
    is_here = _git_folder(there) == _git_folder(here) or not there.is_dir()
    return Place(db="" if is_default else str(db), repo="" if is_here else repository)


def place_asked(arguments: list[str]) -> "Place":
    """The database and the repository that a command line names, for the next one after an error."""
    from perfguard.report.next_step import Place

    ours = arguments[: arguments.index("--")] if "--" in arguments else arguments
    pairs = [word.split("=", 1) for word in ours if word.startswith("--") and "=" in word]
    named = dict(pairwise(ours)) | {pair[0]: pair[1] for pair in pairs}
    return Place(db=named.get("--db", ""), repo=named.get("--repo", ""))


def _git_folder(start: Path) -> Path | None:
    start = start.resolve()
    return next((folder for folder in (start, *start.parents) if (folder / ".git").exists()), None)


def existing_database(db: str) -> Path:
    """The results database of a command that only reads."""
    path = database(db, Path.cwd())
    if not path.exists():
        raise UsageError(
            f"no results database at {path}; --db names another", "perfguard compare HEAD~1 HEAD -- python bench.py"
        )
    return path


@contextmanager
def verdict_output() -> Iterator[None]:
    """Around what is written before an exit code that says something: it holds, also if the reader (`| head`) left."""
    try:
        yield
        if sys.stdout is not None:  # closed: `>&-`
            sys.stdout.flush()
    except (OSError, SystemExit):  # a full disk, or a broken pipe, which rich turns into an exit
        mute()


def mute() -> None:
    """Nobody reads our output any more: what Python still holds of it must not fail when the program ends."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            os.dup2(nowhere, stream.fileno())


def check_json(target: str) -> None:
    """Raises UsageError for a file that cannot be written: known before hours of measuring, not after them."""
    if target in ("", "-"):
        return
    path = Path(target).absolute()
    if path.exists():
        if path.is_dir() or not os.access(path, os.W_OK):
            raise UsageError(f"{target} cannot be written: it is no file that can be written", "--json -")
    elif not (path.parent.is_dir() and os.access(path.parent, os.W_OK)):
        raise UsageError(f"{target} cannot be written: {path.parent} is not a folder that can be written", "--json -")


def write_measured(result: Mapping[str, Any], target: str) -> None:
    """`write_json` of what is stored: where it fails (a full disk) that is said, and the verdict and its exit code
    hold.
    """
    try:
        write_json(result, target)
    except UsageError as error:
        typer.echo(f"error: {error}", err=True)
        typer.echo(f" next: perfguard show {result['id']} --json FILE", err=True)


def write_json(result: Any, target: str) -> None:
    """Write `result` to the file `target`, or to stdout for "-"."""
    import json

    text = json.dumps(result, indent=2, ensure_ascii=False, allow_nan=False)
    if target == "-":
        typer.echo(text)
        return
    try:
        Path(target).write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{target} cannot be written: {error.strerror}", "--json -") from error


def write_text(text: str, target: Path) -> None:
    """Raises UsageError for a file that cannot be written."""
    try:
        target.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{target} cannot be written: {error.strerror}", "name another file") from error
