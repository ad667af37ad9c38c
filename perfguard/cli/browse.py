"""`perfguard browse`: results.db in a browser."""

from typing import Annotated

import typer

from perfguard.cli import options as o
from perfguard.cli.app import app


@app.command()
def browse(
    db: o.Db = "",
    port: Annotated[int, typer.Option(help="Port on this machine.", min=1, max=65535)] = 8001,
) -> None:
    """Look into stored results in a browser, read-only, with columns explained and ready questions (needs Datasette).

    Example: perfguard browse --db results.db
    """
    from perfguard import browsing

    browsing.browse(o.existing_database(db), port)
