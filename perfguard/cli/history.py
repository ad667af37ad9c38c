"""`perfguard history`: series of nights and their change points."""

from pathlib import Path
from typing import Annotated

import typer

from perfguard.cli import options as o
from perfguard.cli.app import app


@app.command()
def history(
    csv: Annotated[Path, typer.Option("--csv", help="Nights of a CSV: time,commit,metric,value[,reference].")],
    json_file: o.Json = "",
) -> None:
    """Series of nights and their change points. A change point alarms nobody by itself: bisect its window.

    Example: perfguard history --csv nights.csv
    """
    from perfguard.history import history_json, series_of
    from perfguard.history_file import read_tracks
    from perfguard.report.series import render_history
    from perfguard.report.terminal import open_console

    o.check_json(json_file)
    found = history_json([series for track in read_tracks(csv) for series in series_of(track)])
    if json_file:
        o.write_json(found, json_file)
    if json_file != "-":
        render_history(found, open_console())
