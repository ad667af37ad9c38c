"""`perfguard import`: results of other clients, taken in and written as CSV for judge and history."""

from pathlib import Path
from typing import Annotated

import typer

from perfguard.cli import options as o
from perfguard.cli.app import app
from perfguard.errors import UsageError


@app.command(name="import")
def import_(
    files: Annotated[list[Path], typer.Argument(help="Result files; with --head those of base.")],
    head: Annotated[list[Path] | None, typer.Option(help="A result file of head; repeatable.")] = None,
    csv: Annotated[Path | None, typer.Option("--csv", help="Write trials of both sides for `judge` there.")] = None,
    nights: Annotated[Path | None, typer.Option(help="Write every run as a night for `history --csv` there.")] = None,
    metric: Annotated[str, typer.Option(help="Metric of --csv. Default: the primary one of the tool.")] = "",
    workload: Annotated[str, typer.Option("--workload", "-w", help="Name to store under. Default: the tool.")] = "",
    commit: Annotated[str, typer.Option(help="Commit that was measured, as far as you know.")] = "",
    db: o.Db = "",
    json_file: o.Json = "",
) -> None:
    """Result files of vllm bench serve and latency, SGLang bench_serving and bench_one_batch: stored as runs.

    Example: perfguard import base1.json base2.json --head head1.json --head head2.json --csv trials.csv
    """
    from perfguard import import_files
    from perfguard.store import open_store

    o.check_json(json_file)
    if csv is not None and not head:
        raise UsageError("--csv holds both sides, and no file of head is named", "--head FILE")
    bases = [part for path in files for part in import_files.read_file(path)]
    heads = [part for path in head or () for part in import_files.read_file(path)]
    notes: list[str] = []
    if csv is not None:
        chosen, notes = import_files.chosen_runs(bases, heads)
        text, unused = import_files.trials_csv(chosen, metric)
        notes += unused
        o.write_text(text, csv)
    if nights is not None:
        o.write_text(import_files.nights_csv([*bases, *heads], commit), nights)
    with open_store(o.database(db, Path.cwd())) as store:
        stored = [import_files.store_file(f, store, name=workload, commit=commit) for f in (*bases, *heads)]
    if json_file:
        o.write_json({"schema": import_files.SCHEMA, "runs": stored, "notes": notes}, json_file)
    if json_file != "-":
        _tell(stored, notes, csv, nights)
    raise typer.Exit(max(one["exit_code"] for one in stored))


def _tell(stored: list[dict[str, object]], notes: list[str], csv: Path | None, nights: Path | None) -> None:
    from perfguard.report.single import render_single
    from perfguard.report.terminal import open_console, render_text

    console = open_console()
    for one in stored:
        render_single(one, console)
        if not one["is_new"]:
            render_text("stored before; nothing was added", console)
        console.print()
    for note in notes:
        render_text(note, console)
    for path, step in ((csv, "perfguard judge"), (nights, "perfguard history --csv")):
        if path is not None:
            render_text(f"next: {step} {path}", console)
