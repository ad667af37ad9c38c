"""`perfguard check`: one commit against a reference, in exit codes that `git bisect run` understands."""

from pathlib import Path
from typing import Annotated, Any

import typer

from perfguard.cli import options as o
from perfguard.cli.app import app
from perfguard.cli.asking import env_of, open_project, policy_of, workload_of, workload_options
from perfguard.cli.measure import opened

GOOD, BAD, CANNOT_TELL = 0, 1, 125
# What the verdict of a comparison is to `git bisect run`; whatever is not listed cannot be told.
CODES = {"EQUIVALENT": GOOD, "IMPROVEMENT": GOOD, "REGRESSION": BAD}


@app.command()
def check(
    against: Annotated[str, typer.Option(help="The commit that is known to be fast.")],
    command: o.Command = None,
    revision: Annotated[str, typer.Option(help="What is checked: a revision, or WORKTREE.")] = "WORKTREE",
    workload: o.WorkloadName = "",
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
    carry: Annotated[Path | None, typer.Option(help="Patch file applied to both sides.")] = None,
    bench_from: o.BenchFrom = "",
    margin: o.Margin = "",
    alpha: o.Alpha = None,
    max_blocks: o.MaxBlocks = None,
    budget: o.Budget = "",
    seed: o.Seed = None,
    timeout: o.Timeout = "",
    ready_timeout: o.ReadyTimeout = "",
    quiet: o.Quiet = False,
) -> None:
    """Is this commit slower than a reference? Exit codes for `git bisect run`: 0 no, 1 yes, 125 cannot be told.

    git bisect start HEAD v1.4, then git bisect run with the line of the example.

    Example: perfguard check --against v1.4 --metric seconds -- python bench.py
    """
    _check(locals())


def _check(asked: dict[str, Any]) -> None:
    from perfguard import experiment
    from perfguard.campaign import plan_campaign
    from perfguard.report.next_step import placed
    from perfguard.report.terminal import open_console, render_comparison

    o.check_json(asked["json_file"])
    repository, config = open_project(asked["repo"])
    campaign = plan_campaign(_request(asked, config), repository)
    with opened(asked, asked["repo"]) as (store, observer):
        comparison = experiment.compare(campaign, repository, store, observer)
        trials = store.trials(campaign.id, with_record=False)
        place = o.place_of(store.path, campaign.repository)
    with o.verdict_output():
        if asked["json_file"]:
            o.write_measured(comparison, asked["json_file"])
        if asked["json_file"] != "-":
            render_comparison(placed(comparison, place), trials, open_console())
    raise typer.Exit(CODES.get(comparison["outcome"], CANNOT_TELL))


def _request(asked: dict[str, Any], config: Any) -> Any:
    from perfguard.campaign import Request, Wish

    env = env_of(asked["env"], "--env")
    given = ("margin", "alpha", "max_blocks", "budget")
    return Request(
        wishes=(
            Wish(side="base", revision=asked["against"], env=env),
            Wish(side="head", revision=asked["revision"], env=env),
        ),
        workload=workload_of(workload_options(asked), config),
        policy=policy_of(config, **{name: asked[name] for name in given}),
        seed=asked["seed"],
        carry=asked["carry"],
        bench_from=asked["bench_from"],
    )
