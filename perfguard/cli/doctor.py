"""`perfguard doctor`: parses, makes one call, prints, ends with an exit code."""

from pathlib import Path
from typing import Annotated, Any

import typer

from perfguard.cli import options as o
from perfguard.cli.app import app

SelfCost = Annotated[bool, typer.Option("--self-cost", help="Also measure what telemetry costs on these GPUs.")]

Bench = Annotated[
    bool, typer.Option("--bench", help="Also measure copies, matrix rate and all-reduce (30 s), kept as history.")
]


@app.command()
def doctor(db: o.Db = "", json_file: o.Json = "", self_cost: SelfCost = False, bench: Bench = False) -> None:
    """Is this machine fit to measure? Each finding with what to do. Ends with 0, or 4 where one should not measure.

    Example: perfguard doctor --self-cost
    """
    from perfguard.doctor import examine

    o.check_json(json_file)
    database = o.database(db, Path.cwd())
    report = examine(database, with_costs=self_cost)
    if bench:
        report["bench"] = _bench(database)
    with o.verdict_output():
        if json_file:
            o.write_json(report, json_file)
        if json_file != "-":
            from perfguard.report.bench import render_bench
            from perfguard.report.doctor import render_doctor
            from perfguard.report.terminal import open_console

            render_doctor(report, open_console())
            if bench:
                render_bench(report["bench"], open_console())
    if bench:
        _tell_hook(report["bench"]["machine_moved"])
    raise typer.Exit(report["exit_code"])


def _bench(database: Path) -> dict[str, Any]:
    from perfguard.machine_bench import bench
    from perfguard.store import open_store

    with open_store(database) as store:
        return bench(store)


def _tell_hook(notices: list[dict[str, Any]]) -> None:
    """The command of perfguard.toml, in its folder, if there is one and the machine has moved."""
    from perfguard.cli.asking import hooks_of, project_config
    from perfguard.hooks import tell_of_machine_change

    config = project_config(Path.cwd())
    folder = config.path.parent if config.path else Path.cwd()
    if problem := tell_of_machine_change(hooks_of("", config, folder), notices):
        typer.echo(problem, err=True)
