"""Commands that look for reasons: explain, timeline, checkout. Each parses, makes one call and prints."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from perfguard.cli import options as o
from perfguard.cli.app import app
from perfguard.cli.explain_experiment import by_experiment, measured_in
from perfguard.errors import UsageError

if TYPE_CHECKING:
    from perfguard.subject.repository import Repository

Run = "Id of a stored result (ID:base, ID:head), of one trial, latest, or now."

EXPERIMENT_ONLY = ("metric", "margin", "alpha", "max_blocks", "budget", "seed", "resume", "quiet")


@app.command()
def explain(
    a: Annotated[str, typer.Argument(help=f"The run that is believed. {Run}")] = "",
    b: Annotated[str, typer.Argument(help=f"The run that is questioned. {Run}")] = "now",
    db: o.Db = "",
    repo: Annotated[
        str, typer.Option("--repo", help="Git repository of now. Default: the one that was measured.")
    ] = "",
    format: Annotated[str, typer.Option("--format", "-f", help="text or md.")] = "text",
    json_file: o.Json = "",
    experiment: Annotated[
        bool, typer.Option("--experiment", help="Measure: toggle what differs, name what makes the difference.")
    ] = False,
    metric: Annotated[str, typer.Option(help="With --experiment: the metric. Default: the first primary.")] = "",
    margin: o.Margin = "",
    alpha: Annotated[
        float | None, typer.Option("--alpha", help="With --experiment: chance to name a wrong set. Default: 0.005.")
    ] = None,
    max_blocks: o.MaxBlocks = None,
    budget: o.Budget = "",
    seed: o.Seed = None,
    resume: Annotated[str, typer.Option(help="With --experiment: go on with an interrupted search.")] = "",
    quiet: o.Quiet = False,
) -> None:
    """Why do two stored results differ? Code, method, environment, software, GPU, machine, neighbours, noise.

    Example: perfguard explain 20261129-235507-6e4d now
    """
    asked = {name: value for name, value in locals().items() if name != "experiment"}
    if experiment:
        by_experiment(asked)
    if given := [name for name in EXPERIMENT_ONLY if asked[name]]:
        raise UsageError(
            f"{', '.join(given)}: only with --experiment", f"perfguard explain {a or 'latest'} {b} --experiment"
        )
    if not a:
        raise UsageError("a stored run is needed", "perfguard explain latest now")
    from perfguard.explain import explain_stored
    from perfguard.report.explanation import explanation_markdown, render_explanation
    from perfguard.report.next_step import placed
    from perfguard.report.terminal import open_console
    from perfguard.store import open_store

    if format not in ("text", "md"):
        raise UsageError(f"-f {format!r} is neither text nor md", f"perfguard explain {a} {b} -f md")
    with open_store(o.existing_database(db), read_only=True) as store:
        found = explain_stored(store, a, b, _repository(repo) if repo else None)
        place = o.place_of(store.path, repo or measured_in(store, b if a == "now" else a))
    if json_file:
        o.write_json(found, json_file)
    if json_file == "-":
        return
    if format == "md":
        typer.echo(explanation_markdown(placed(found, place)), nl=False)
    else:
        render_explanation(placed(found, place), open_console())


@app.command()
def timeline(
    since: Annotated[str, typer.Option("--since", help="A moment as git reads it, such as yesterday 17:00.")],
    repo: o.Repo = Path("."),
    json_file: o.Json = "",
) -> None:
    """What changed on this machine and in this checkout since then: changed, unchanged or unknown, never a cause.

    Example: perfguard timeline --since "yesterday 17:00"
    """
    from perfguard import timeline as story
    from perfguard.report.explanation import render_timeline
    from perfguard.report.terminal import open_console

    found = story.timeline(_repository(str(repo)), since)
    if json_file:
        o.write_json(found, json_file)
    if json_file != "-":
        render_timeline(found, open_console())


@app.command()
def checkout(
    id: Annotated[str, typer.Argument(help="Id of a stored result: ID, ID:base, ID:head or one trial.")],
    folder: Annotated[Path, typer.Argument(help="New folder.")],
    db: o.Db = "",
    repo: o.Repo = Path("."),
) -> None:
    """Recreate tree and environment of a stored run in a new folder; its README says what cannot be brought back.

    Example: perfguard checkout 20261129-235507-6e4d:base /tmp/then
    """
    from perfguard.recreate import recreate
    from perfguard.store import open_store

    with open_store(o.existing_database(db), read_only=True) as store:
        made = recreate(store, id, folder, _repository(str(repo)))
    typer.echo(f"{made['id']} {made['side']}: {made['commit'][:12]} in {folder / 'tree'}")
    typer.echo(f" next: cd {folder} && cat README.md")


def _repository(path: str) -> "Repository":
    from perfguard.subject.repository import open_repository

    return open_repository(Path(path))
