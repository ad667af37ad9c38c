"""`perfguard nightly`, `pin` and `ack`. Each parses, makes one call, prints, and ends with an exit code."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from perfguard.cli import options as o
from perfguard.cli.app import app
from perfguard.cli.asking import hooks_of, open_project
from perfguard.cli.measure import opened
from perfguard.errors import UsageError

if TYPE_CHECKING:
    from perfguard.store import Store

Names = Annotated[
    list[str] | None, typer.Option("--workload", "-w", help="Only this one of perfguard.toml; repeatable.")
]
Junit = Annotated[Path | None, typer.Option("--junit", help="Write tonight's comparisons as JUnit XML.")]


@app.command()
def nightly(
    head: Annotated[str, typer.Option(help="The commit that is measured.")] = "HEAD",
    workload: Names = None,
    budget: o.Budget = "",
    only_changed: Annotated[
        bool, typer.Option("--only-changed", help="Leave out what loads the code that was good last night.")
    ] = False,
    no_bisect: Annotated[bool, typer.Option("--no-bisect", help="File suspicions and search none.")] = False,
    repo: o.Repo = Path("."),
    db: o.Db = "",
    json_file: o.Json = "",
    junit: Junit = None,
    quiet: o.Quiet = False,
) -> None:
    """HEAD against the pinned reference, for every workload of [nightly] in perfguard.toml; goes on if interrupted.

    Example: perfguard nightly --budget 4h --json night.json
    """
    from datetime import UTC, datetime

    from perfguard.nightly.story import nightly as nightly_
    from perfguard.nightly.wishes import wishes_of

    o.check_json(json_file)
    if junit is not None:
        o.check_json(str(junit))
    repository, config = open_project(repo)
    wishes = wishes_of(config, names=workload or (), budget=budget, only_changed=only_changed, no_bisect=no_bisect)
    hooks = hooks_of("", config, repository.root)
    with opened({"db": db, "quiet": quiet}, repo) as (store, observer):
        night = nightly_(wishes, head, repository, store, observer, hooks, datetime.now(UTC))
        _finish(night, store, json_file, junit)


def _finish(night: dict[str, Any], store: "Store", json_file: str, junit: Path | None) -> None:
    from perfguard.report.junit import comparison_junit
    from perfguard.report.machine import marked
    from perfguard.report.nightly import render_night
    from perfguard.report.terminal import open_console

    with o.verdict_output():
        if junit is not None:
            found = [(e, e["comparison"]) for e in night["workloads"] if e["comparison"] is not None]
            accepted = [{**c, "acked": e["acked"]} for e, c in found]
            measured = [(c, store.trials(c["id"], with_record=False)) for c in accepted]
            notices = [marked(notice["text"]) for notice in night["notices"]]
            junit.write_text(comparison_junit(measured, notices), encoding="utf-8")
        if json_file:
            o.write_json(night, json_file)
        if json_file != "-":
            render_night(night, open_console())
    raise typer.Exit(night["exit_code"])


@app.command()
def pin(
    revision: Annotated[str, typer.Argument(help="The commit that nights measure against. None: show it.")] = "",
    workload: o.WorkloadName = "",
    repo: o.Repo = Path("."),
    db: o.Db = "",
) -> None:
    """The reference of nightly. A new one is measured beside the old one for three nights, so that series link.

    Example: perfguard pin v1.0
    """
    from datetime import UTC, datetime

    from perfguard.nightly.pins import set_pin, shown_pins
    from perfguard.store import open_store
    from perfguard.workloads import find

    if not revision:
        with open_store(o.existing_database(db), read_only=True) as store:
            pins = shown_pins(store)
        for one in pins:
            typer.echo(f"{one.workload or 'all workloads'}: {one.commit_sha[:12]} {one.revision} since {one.pinned_at}")
        if not pins:
            typer.echo("no reference is pinned yet\nnext: perfguard pin HEAD")
        return
    repository, config = open_project(repo)
    if config.nightly.get("reference") and not workload:
        named = config.nightly["reference"]
        raise UsageError(f"{config.path} names the reference: {named!r}", f"change it in {config.path}")
    if workload:
        find(workload, config.workloads)
    with open_store(o.database(db, repo)) as store:
        found, is_new = set_pin(revision, workload, repository, store, datetime.now(UTC))
    word = "pinned" if is_new else "is pinned already"
    typer.echo(f"{found.commit_sha[:12]} {found.revision} {word} for {workload or 'all workloads'}")


@app.command()
def ack(
    id: Annotated[str, typer.Argument(help="A comparison that ended REGRESSION, or the bisect that it started.")],
    until: Annotated[str, typer.Option(help="Last day (UTC) on which it is not red, such as 2027-01-31.")],
    reason: Annotated[str, typer.Option(help="Why it is accepted; shown every night.")],
    db: o.Db = "",
) -> None:
    """Accept a regression until a day: nights are not red for it, unless it gets worse by more than the margin.

    Example: perfguard ack latest --until 2027-01-31 --reason "INT8 cache, agreed"
    """
    from datetime import UTC, datetime

    from perfguard.nightly.acks import acknowledge
    from perfguard.store import open_store

    with open_store(o.existing_database(db)) as store:
        found = acknowledge(id, until, reason, store, datetime.now(UTC))
    typer.echo(f"{found.campaign} is accepted until {found.until}: {found.reason}")
