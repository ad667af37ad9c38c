"""`perfguard sweep`: which settings are fastest? Parses, makes one call, prints, ends with an exit code."""

from pathlib import Path
from typing import Annotated, Any

import typer

from perfguard.cli import options as o
from perfguard.cli.app import app
from perfguard.cli.asking import open_project, policy_of, workload_of, workload_options
from perfguard.cli.measure import opened
from perfguard.errors import UsageError

POLICY_OPTIONS = ("margin", "budget", "no_build_cache", "clocks", "sm_clock")


@app.command()
def sweep(
    command: o.Command = None,
    env: Annotated[
        list[str] | None, typer.Option(help="NAME=a,b,c to try; one value: for all; empty: not set. Repeatable.")
    ] = None,
    set_: Annotated[list[str] | None, typer.Option("--set", help="Workload parameter KEY=a,b to try.")] = None,
    one_at_a_time: Annotated[
        bool, typer.Option("--one-at-a-time", help="First values, then each other one alone; not all combinations.")
    ] = False,
    rev: Annotated[str, typer.Option("--rev", help="The commit to measure, or WORKTREE.")] = "HEAD",
    workload: o.WorkloadName = "",
    repo: o.Repo = Path("."),
    db: o.Db = "",
    json_file: o.Json = "",
    markdown: Annotated[Path | None, typer.Option(help="Write the ranking as Markdown.")] = None,
    metric: o.MetricName = "",
    better: o.BetterWay = "",
    unit: o.Unit = "",
    read: o.Read = "",
    setup: o.Setup = "",
    modes: o.Modes = "",
    margin: o.Margin = "",
    alpha: Annotated[
        float | None, typer.Option("--alpha", help="Chance that a setting as fast as the best is dropped. 0.01.")
    ] = None,
    max_rounds: Annotated[int | None, typer.Option(help="Most rounds; each measures every setting once.")] = None,
    budget: o.Budget = "",
    no_build_cache: o.NoBuildCache = False,
    seed: o.Seed = None,
    clocks: o.Clocks = "",
    sm_clock: o.SmClock = None,
    timeout: o.Timeout = "",
    ready_timeout: o.ReadyTimeout = "",
    resume: Annotated[str, typer.Option(help="Go on with an interrupted sweep, by its id.")] = "",
    quiet: o.Quiet = False,
) -> None:
    """Rank settings of variables and parameters: interleaved rounds, losers dropped, groups that cannot be told apart.

    Example: perfguard sweep --env NCCL_PROTO=LL,LL128,Simple --env NCCL_ALGO=Ring,Tree -w moe-eagle3
    """
    asked = {name: value for name, value in locals().items() if name != "resume"}
    o.check_json(json_file)
    if markdown is not None:
        o.check_json(str(markdown))
    (_resume(resume, asked) if resume else _sweep(asked))


def _sweep(asked: dict[str, Any]) -> None:
    from perfguard.sweeping import plan_sweep
    from perfguard.sweeping import sweep as sweep_

    repository, config = open_project(asked["repo"])
    request, settings = _request(asked, config)
    campaign = plan_sweep(request, settings, repository)
    with opened(asked, asked["repo"]) as (store, observer):
        observer.say(f"sweep {campaign.id}: {len(settings)} settings, at most {request.policy.max_rounds} rounds")
        _finish(sweep_(campaign, repository, store, observer), asked)


def _request(asked: dict[str, Any], config: Any) -> tuple[Any, Any]:
    import os

    from perfguard.campaign import Request, Wish
    from perfguard.config import COMMAND_LINE, with_policy
    from perfguard.settings import axes, combinations, refuse_already_set

    found = axes(asked["env"], asked["set_"])
    settings = combinations(found, one_at_a_time=asked["one_at_a_time"])
    refuse_already_set(found, os.environ)
    workload = workload_of(workload_options({**asked, "set_": None}), config)
    policy = policy_of(config, **{name: asked[name] for name in POLICY_OPTIONS})
    changes = {"sweep_alpha": asked["alpha"], "max_rounds": asked["max_rounds"]}
    policy = with_policy(policy, {name: value for name, value in changes.items() if value is not None}, COMMAND_LINE)
    wish = Wish(side="base", revision=asked["rev"])
    return Request(wishes=(wish,), workload=workload, policy=policy, kind="sweep", seed=asked["seed"]), settings


def _resume(campaign_id: str, asked: dict[str, Any]) -> None:
    from perfguard.subject.repository import open_repository
    from perfguard.sweeping import resume_sweep

    same = ("repo", "db", "json_file", "quiet", "markdown")
    changed = [name for name, value in asked.items() if value and name not in same and (name, value) != ("rev", "HEAD")]
    if changed:
        raise UsageError(
            f"--resume goes on with what was asked for then; {', '.join(changed)} cannot be given again",
            f"perfguard sweep --resume {campaign_id}",
        )
    database = o.database(asked["db"], asked["repo"])
    if not database.exists():
        raise UsageError(f"no results database at {database}", "perfguard sweep --resume ID --db FILE")
    with opened(asked, asked["repo"]) as (store, observer):
        repository = open_repository(Path(store.campaign(campaign_id).repository))
        _finish(resume_sweep(campaign_id, repository, store, observer), asked)


def _finish(result: dict[str, Any], asked: dict[str, Any]) -> None:
    from perfguard.report.sweep import render_sweep, sweep_markdown
    from perfguard.report.terminal import open_console

    with o.verdict_output():
        if asked["json_file"]:
            o.write_measured(result, asked["json_file"])
        if asked["markdown"] is not None:
            o.write_text(sweep_markdown(result), asked["markdown"])
        if asked["json_file"] != "-":
            render_sweep(result, open_console())
    raise typer.Exit(result["exit_code"])
