"""`perfguard history`: series of nights and their change points."""

from pathlib import Path
from typing import Annotated

import typer

from perfguard.cli import options as o
from perfguard.cli.app import app
from perfguard.errors import UsageError


@app.command()
def history(
    workload: Annotated[str, typer.Option("--workload", "-w", help="Only this workload.")] = "",
    csv: Annotated[
        Path | None, typer.Option("--csv", help="Nights of a CSV instead: time,commit,metric,value[,reference].")
    ] = None,
    db: o.Db = "",
    json_file: o.Json = "",
) -> None:
    """Series of nights and their change points. A change point alarms nobody by itself: bisect its window.

    Example: perfguard history -w moe-eagle3
    """
    from perfguard.history import history_json, series_of
    from perfguard.history_file import read_tracks
    from perfguard.nightly.standing import all_series
    from perfguard.report.series import render_history
    from perfguard.report.terminal import open_console
    from perfguard.store import open_store

    o.check_json(json_file)
    if csv is not None:
        if workload:
            raise UsageError("a CSV knows no workload", "perfguard history --csv nights.csv")
        series = [series for track in read_tracks(csv) for series in series_of(track)]
    else:
        with open_store(o.existing_database(db), read_only=True) as store:
            known = store.nights.workloads()
            if workload and workload not in known:
                named = ", ".join(known) or "none"
                raise UsageError(f"no night measured {workload!r}; measured: {named}", "perfguard nightly")
            series = [one for name in ([workload] if workload else known) for one in all_series(store, name)]
    found = history_json(series)
    if json_file:
        o.write_json(found, json_file)
    if json_file != "-":
        render_history(found, open_console())
