"""Commands for a first look: demo and workloads."""

from pathlib import Path
from typing import Annotated

import typer

from perfguard.cli import options as o
from perfguard.cli.app import app
from perfguard.errors import EXIT_FAILURE

STORY = """\
perfguard demo: a small repository is built from the decoder that perfguard ships (tensor-parallel MoE with an
EAGLE-3 draft, trained weights), with ten commits. Two of them are compared with their parents, on this machine,
with two processes over gloo; then all ten are searched for the slow one. Margin 16 %, fit for a busy laptop;
confirmation is kept short (2 to 3 blocks) and one phantom in 20 comparisons is allowed, where a real comparison
allows one in 1,000.
"""


@app.command()
def demo(
    folder: Annotated[Path | None, typer.Option(help="Where to leave repository, results and report.")] = None,
    seed: o.Seed = None,
) -> None:
    """The whole story in miniature on any machine, no GPU needed: an estimated ten minutes on two idle cores.

    Example: perfguard demo
    """
    import sys
    import tempfile

    from perfguard.demo import play, search, slow_commit, write_report
    from perfguard.report.bisect import render_bisect
    from perfguard.report.next_step import placed
    from perfguard.report.progress import progress
    from perfguard.report.terminal import open_console, render_comparison
    from perfguard.store import open_store

    place = folder or Path(tempfile.mkdtemp(prefix="perfguard-demo-"))
    typer.echo(STORY)
    console = open_console()
    comparisons = []
    with open_store(place / "results.db") as store, progress(open_console(sys.stderr)) as observer:
        for comparison in play(place, store, observer, seed):
            comparisons.append(comparison)
            at = o.place_of(store.path, str(place / "repository"))
            render_comparison(placed(comparison, at), store.trials(comparison["id"], with_record=False), console)
        found = search(place, store, observer, seed)
        render_bisect(placed(found, o.place_of(store.path, str(place / "repository"))), console)
        report = write_report(place, store, comparisons, found)
    typer.echo(f"\nThe report: {report}\nEvery trial: perfguard show latest --db {place / 'results.db'}")
    typer.echo("What doctor tells of a card, on a simulated one: PERFGUARD_SIMULATED_GPU=1 perfguard doctor")
    if [c["exit_code"] for c in comparisons[:1]] != [1] or comparisons[1]["exit_code"] not in (0, 3):
        typer.echo("The machine was too busy for the expected verdicts (REGRESSION, then no change).", err=True)
        raise typer.Exit(EXIT_FAILURE)
    if found["culprit"] != slow_commit(place):
        typer.echo("The machine was too busy for the bisect to name the commit tagged slow.", err=True)
        raise typer.Exit(EXIT_FAILURE)


@app.command()
def workloads(repo: o.Repo = Path("."), json_file: o.Json = "") -> None:
    """What can be measured, with parameters and metrics.

    Example: perfguard workloads
    """
    from dataclasses import asdict

    from perfguard.cli.asking import project_config
    from perfguard.report.terminal import open_console, render_rows
    from perfguard.workloads import own_params

    known = project_config(repo).workloads.values()
    if json_file:
        o.write_json({"schema": "perfguard/workloads@1", "workloads": [asdict(w) for w in known]}, json_file)
    if json_file == "-":
        return
    rows = []
    for w in known:
        params = " ".join(f"{key}={value}" for key, value in own_params(w).items()) or " ".join(w.command)
        names = ", ".join(f"{m.name} ({m.unit})" if m.unit else m.name for m in w.metrics if m.primary)
        rows.append((w.name, w.runner, ", ".join(w.modes), params, names))
    render_rows(("workload", "runner", "modes", "parameters or command", "primary metrics"), rows, open_console())
