"""`perfguard report`: stored comparisons as documents."""

from pathlib import Path
from typing import Annotated

import typer

from perfguard.cli import options as o
from perfguard.cli.app import app
from perfguard.errors import UsageError


@app.command()
def report(
    ids: Annotated[
        list[str] | None, typer.Argument(help="Comparisons, or bisects, searches, sweeps. None: the latest comparison.")
    ] = None,
    format: Annotated[str, typer.Option("--format", "-f", help="html, md, issue, json, junit or csv.")] = "md",
    output: Annotated[Path | None, typer.Option("--output", "-o", help="File. Default: stdout.")] = None,
    public: Annotated[bool, typer.Option("--public", help="Without hosts, paths and commit messages.")] = False,
    site: Annotated[
        Path | None, typer.Option("--site", help="Folder of pages of all that is stored, brought up to date.")
    ] = None,
    db: o.Db = "",
) -> None:
    """A report of stored comparisons to hand to a colleague.

    Example: perfguard report latest -f html -o report.html
    """
    from perfguard.reporting import check_format, document
    from perfguard.store import open_store

    if site is not None:
        _site(site, ids, output, public, db)
        return
    check_format(format)
    with open_store(o.existing_database(db), read_only=True) as store:
        text = document(store, ids or [], format, lambda repository: o.place_of(store.path, repository), public)
    if output is None:
        typer.echo(text)
        return
    try:
        output.write_text(text if text.endswith("\n") else text + "\n", encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{output} cannot be written: {error.strerror}", "perfguard report -o FILE") from error
    typer.echo(f"written: {output}", err=True)


def _site(folder: Path, ids: list[str] | None, output: Path | None, public: bool, db: str) -> None:
    from perfguard.site import write_site
    from perfguard.store import open_store

    if ids or output is not None:
        raise UsageError(
            "--site makes pages of all that is stored; ids and -o go without it", "perfguard report --site DIR"
        )
    with open_store(o.existing_database(db), read_only=True) as store:
        written = write_site(store, folder, is_public=public)
    removed = f", {written.num_removed} removed" if written.num_removed else ""
    typer.echo(f"{folder}: {written.num_pages} pages, {written.num_written} written{removed}", err=True)
