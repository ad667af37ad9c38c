"""`perfguard calibrate`: how noisy is this machine, and is a slowdown found on it? Parses, makes one call, prints."""

from pathlib import Path
from typing import Annotated, Any

import typer

from perfguard.cli import options as o
from perfguard.cli.app import app
from perfguard.cli.asking import env_of, open_project, policy_of, workload_of, workload_options
from perfguard.cli.measure import opened


@app.command()
def calibrate(
    command: o.Command = None,
    workload: o.WorkloadName = "",
    revision: Annotated[str, typer.Option(help="The revision that is measured against itself, or WORKTREE.")] = "HEAD",
    launches: Annotated[int, typer.Option(help="Launches of the A/A, in whole blocks of four.", min=8, max=1000)] = 12,
    repo: o.Repo = Path("."),
    db: o.Db = "",
    json_file: o.Json = "",
    metric: o.MetricName = "",
    better: o.BetterWay = "",
    unit: o.Unit = "",
    read: o.Read = "",
    setup: o.Setup = "",
    modes: o.Modes = "",
    set_: o.Set = None,
    env: o.Env = None,
    margin: o.Margin = "",
    budget: o.Budget = "",
    seed: o.Seed = None,
    clocks: o.Clocks = "",
    sm_clock: o.SmClock = None,
    timeout: o.Timeout = "",
    ready_timeout: o.ReadyTimeout = "",
    quiet: o.Quiet = False,
) -> None:
    """How noisy is this machine with this workload? One revision against itself, then a planted slowdown.

    Example: perfguard calibrate -w moe-eagle3 --launches 12
    """
    _calibrate(locals())


def _calibrate(asked: dict[str, Any]) -> None:
    from perfguard import calibrating
    from perfguard.report.calibration import render_calibration
    from perfguard.report.next_step import placed
    from perfguard.report.terminal import open_console

    o.check_json(asked["json_file"])
    repository, config = open_project(asked["repo"])
    request = _request(asked, config)
    with opened(asked, asked["repo"]) as (store, observer):
        calibration = calibrating.calibrate(request, asked["launches"], repository, store, observer)
        place = o.place_of(store.path, str(asked["repo"]))
    with o.verdict_output():
        if asked["json_file"]:
            o.write_measured(calibration, asked["json_file"])
        if asked["json_file"] != "-":
            render_calibration(placed(calibration, place), open_console())
    raise typer.Exit(calibration["exit_code"])


def _request(asked: dict[str, Any], config: Any) -> Any:
    from perfguard.campaign import Request, Wish

    env = env_of(asked["env"], "--env")
    return Request(
        wishes=(
            Wish(side="base", revision=asked["revision"], env=env),
            Wish(side="head", revision=asked["revision"], env=env),
        ),
        workload=workload_of(workload_options(asked), config),
        policy=policy_of(
            config,
            margin=asked["margin"],
            budget=asked["budget"],
            clocks=asked["clocks"],
            sm_clock=asked["sm_clock"],
        ),
        kind="calibrate",
        seed=asked["seed"],
    )
