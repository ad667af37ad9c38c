"""`perfguard report`: stored comparisons as documents."""

from pathlib import Path
from typing import Annotated

import typer

from perfguard.cli import options as o
from perfguard.cli.app import app
from perfguard.errors import UsageError


@app.command()
def report(
    ids: Annotated[list[str] | None, typer.Argument(help="Ids; none: the latest comparison.")] = None,
    format: Annotated[str, typer.Option("--format", "-f", help="html, md, issue, json, junit or csv.")] = "md",
    output: Annotated[Path | None, typer.Option("--output", "-o", help="File. Default: stdout.")] = None,
    public: Annotated[bool, typer.Option("--public", help="Without hosts, paths and commit messages.")] = False,
    db: o.Db = "",
) -> None:
    """A report of stored comparisons to hand to a colleague.

    Example: perfguard report latest -f html -o report.html
    """
    from perfguard.reporting import check_format, document
    from perfguard.store import open_store

    check_format(format)
    with open_store(o.existing_database(db), read_only=True) as store:
        text = document(store, ids or [], format, is_public=public)
    if output is None:
        typer.echo(text)
        return
    try:
        output.write_text(text if text.endswith("\n") else text + "\n", encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{output} cannot be written: {error.strerror}", "perfguard report -o FILE") from error
    typer.echo(f"written: {output}", err=True)
