"""`perfguard clocks`: what the GPU clocks are, lock them until further notice, put them back."""

from typing import Annotated

import typer

from perfguard.cli import options as o
from perfguard.cli.app import app
from perfguard.errors import UsageError


@app.command()
def clocks(
    action: Annotated[str, typer.Argument(help="show, lock (until restored) or restore.")] = "show",
    gpu: Annotated[list[str] | None, typer.Option(help="UUID of a GPU to lock; repeatable. Default: all.")] = None,
    sm_clock: o.SmClock = None,
    json_file: o.Json = "",
) -> None:
    """GPU clocks: show them, lock them, or restore what was there before perfguard locked them.

    Example: perfguard clocks lock --sm-clock 1485
    """
    from perfguard import clocks as story
    from perfguard.report.clocks import render_clocks
    from perfguard.report.terminal import open_console

    o.check_json(json_file)
    if action not in ("show", "lock", "restore"):
        raise UsageError(f"clocks {action!r} is none of show, lock, restore", "perfguard clocks show")
    if action != "lock" and (gpu or sm_clock):
        raise UsageError(f"--gpu and --sm-clock belong to `clocks lock`, not to `clocks {action}`", "perfguard clocks")
    if action == "show":
        result = story.show()
    elif action == "lock":
        result = story.lock(tuple(gpu or ()), sm_clock or 0)
    else:
        result = story.restore()
    with o.verdict_output():
        if json_file:
            o.write_json(result, json_file)
        if json_file != "-":
            render_clocks(result, open_console())
    raise typer.Exit(result["exit_code"])
