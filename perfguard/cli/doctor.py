"""`perfguard doctor`: parses, makes one call, prints, ends with an exit code."""

from pathlib import Path
from typing import Annotated

import typer

from perfguard.cli import options as o
from perfguard.cli.app import app

SelfCost = Annotated[bool, typer.Option("--self-cost", help="Also measure what telemetry costs on these GPUs.")]


@app.command()
def doctor(db: o.Db = "", json_file: o.Json = "", self_cost: SelfCost = False) -> None:
    """Is this machine fit to measure? Each finding with what to do. Ends with 0, or 4 where one should not measure.

    Example: perfguard doctor --self-cost
    """
    from perfguard.doctor import examine

    o.check_json(json_file)
    report = examine(o.database(db, Path.cwd()), with_costs=self_cost)
    with o.verdict_output():
        if json_file:
            o.write_json(report, json_file)
        if json_file != "-":
            from perfguard.report.doctor import render_doctor
            from perfguard.report.terminal import open_console

            render_doctor(report, open_console())
    raise typer.Exit(report["exit_code"])
