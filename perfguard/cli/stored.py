"""Commands on what is stored, and on trials measured elsewhere: runs, show, replay, export, merge, judge."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from perfguard.cli import options as o
from perfguard.cli.app import app
from perfguard.errors import EXIT_FAILURE, UsageError

if TYPE_CHECKING:
    from perfguard.store import Store

Id = Annotated[str, typer.Argument(help="Id of a stored result, a unique beginning of it, or latest.")]


def _reading(db: str) -> "Store":
    from perfguard.store import open_store

    return open_store(o.existing_database(db), read_only=True)


@app.command()
def runs(
    db: o.Db = "",
    limit: Annotated[int, typer.Option(help="How many, newest first.", min=1)] = 50,
    json_file: o.Json = "",
) -> None:
    """What is stored, newest first.

    Example: perfguard runs --db results.db
    """
    from dataclasses import asdict

    from perfguard.report.runs import render_runs
    from perfguard.report.terminal import open_console

    with _reading(db) as store:
        rows = [asdict(row) for row in store.campaigns(limit)]
    if json_file:
        o.write_json({"schema": "perfguard/runs@1", "runs": rows}, json_file)
    if json_file != "-":
        render_runs(rows, open_console())


@app.command()
def show(id: Id = "latest", db: o.Db = "", json_file: o.Json = "") -> None:
    """One stored result: what was asked for, every trial, the verdict.

    Example: perfguard show latest
    """
    from perfguard.replay import reworded
    from perfguard.report.bisect import render_bisect
    from perfguard.report.calibration import render_calibration
    from perfguard.report.next_step import placed
    from perfguard.report.search import render_search
    from perfguard.report.show import render_show
    from perfguard.report.single import render_single
    from perfguard.report.sweep import render_sweep
    from perfguard.report.terminal import open_console

    with _reading(db) as store:
        campaign, verdict = store.campaign(id), store.latest_verdict(id)
        shown = reworded(store, campaign, verdict) if verdict and campaign.kind == "compare" else verdict
        place = o.place_of(store.path, campaign.repository)
        blocks, trials = store.blocks(id), store.trials(id, with_record=False)
    if json_file:
        o.write_json({"id": campaign.id, "verdict": verdict, "trials": [_trial_json(t) for t in trials]}, json_file)
    if json_file == "-":
        return
    console, shown = open_console(), None if shown is None else placed(shown, place)
    is_comparison = campaign.kind in ("compare", "control")
    render_show(campaign, blocks, trials, shown if is_comparison else None, console)
    if shown is not None and not is_comparison:
        drawn = {
            "calibrate": render_calibration,
            "bisect": render_bisect,
            "sweep": render_sweep,
            "search": render_search,
        }
        drawn.get(campaign.kind, render_single)(shown, console)


def _trial_json(trial: Any) -> dict[str, Any]:
    from dataclasses import asdict

    return asdict(trial)


@app.command()
def replay(
    ids: Annotated[
        list[str] | None, typer.Argument(help="Ids; none: every comparison and bisect with a verdict.")
    ] = None,
    db: o.Db = "",
    json_file: o.Json = "",
) -> None:
    """Derive stored verdicts again from the database alone, and say whether they come out the same.

    Example: perfguard replay latest
    """
    from perfguard.replay import replayable, replayed

    with _reading(db) as store:
        wanted = ids or replayable(store)
        results = [replayed(store, wanted_id) for wanted_id in wanted]
    if json_file:
        o.write_json({"schema": "perfguard/replay@1", "replays": results}, json_file)
    if json_file != "-":
        for result in results:
            word = "agrees" if result["agrees"] else f"DIFFERS in {', '.join(result['differences'])}"
            typer.echo(f"{result['id']}  {result['outcome']}  {word}")
    if not all(result["agrees"] for result in results):
        raise typer.Exit(EXIT_FAILURE)


@app.command()
def export(
    output: Annotated[Path, typer.Argument(help="New results database.")],
    ids: Annotated[list[str] | None, typer.Argument(help="Ids; none: everything.")] = None,
    db: o.Db = "",
) -> None:
    """Copy stored results into a database of their own.

    Example: perfguard export tonight.db latest
    """
    with _reading(db) as store:
        counts = store.export(ids or [row.id for row in store.campaigns(1_000_000)], output)
    typer.echo(_counted(counts, f"exported to {output}"))


@app.command()
def merge(other: Annotated[Path, typer.Argument(help="Results database to take in.")], db: o.Db = "") -> None:
    """Take the results of another database in; running it again changes nothing.

    Example: perfguard merge tonight.db --db results.db
    """
    from perfguard.replay import check_incoming
    from perfguard.store import open_store

    if not other.exists():
        raise UsageError(f"{other} does not exist", "perfguard export FILE")
    path = o.database(db, Path.cwd())
    with open_store(other, read_only=True) as incoming, _removed_if_new(path), open_store(path) as store:
        check_incoming(store, incoming)
        counts = store.merge(other)
    typer.echo(_counted(counts, f"merged from {other}"))


@contextmanager
def _removed_if_new(path: Path) -> Iterator[None]:
    """What fails inside leaves no new, empty database."""
    was_there = path.exists()
    try:
        yield
    except BaseException:
        if not was_there:
            path.unlink(missing_ok=True)
        raise


def _counted(counts: dict[str, int], what: str) -> str:
    return f"{what}: " + ", ".join(f"{number} {name}" for name, number in counts.items())


@app.command()
def judge(
    file: Annotated[Path, typer.Argument(help="CSV: block,slot,arm,metric,value and optional better,unit.")],
    margin: o.Margin = "",
    alpha: o.Alpha = None,
    better: o.BetterWay = "lower",
    json_file: o.Json = "",
) -> None:
    """A verdict on trials measured elsewhere.

    Example: perfguard judge trials.csv --margin 2%
    """
    from perfguard.cli.asking import better_of, policy_of
    from perfguard.config import Config
    from perfguard.judge_file import judge_file
    from perfguard.report.terminal import open_console, render_comparison

    policy = policy_of(Config(), margin=margin, alpha=alpha)
    comparison, trials = judge_file(file, policy, better_of(better))
    with o.verdict_output():
        if json_file:
            o.write_json(comparison, json_file)
        if json_file != "-":
            render_comparison(comparison, trials, open_console())
    raise typer.Exit(comparison["exit_code"])
