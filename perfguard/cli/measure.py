"""Commands that measure: compare, recheck, run. Each parses, makes one call, prints, and ends with an exit code."""

from contextlib import contextmanager
from functools import partial
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Annotated, Any

import typer

from perfguard.cli import options as o
from perfguard.cli.app import app
from perfguard.cli.asking import claimed_metric, env_of, hooks_of, open_project, policy_of, workload_options
from perfguard.cli.ending import finish, finish_both, print_prices
from perfguard.cli.engine_asking import engine_workload
from perfguard.cli.recalling import chosen_workload, recalled, with_stored
from perfguard.config import load, parse_params
from perfguard.errors import Interrupted, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perfguard.report.progress import Progress
    from perfguard.store import Store

POLICY_OPTIONS = (
    "margin", "alpha", "max_blocks", "budget", "slow_rate", "no_confirm", "no_build_cache", "clocks", "sm_clock",
)  # fmt: skip


@app.command()
def compare(
    base: Annotated[str, typer.Argument(help="The side that is believed: any revision, WORKTREE, or an id.")] = "",
    head: Annotated[str, typer.Argument(help="The side that is questioned: any revision, or WORKTREE.")] = "",
    command: o.Command = None,
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
    url: o.Url = "",
    base_set: Annotated[list[str] | None, typer.Option(help="Workload parameter of base only; repeatable.")] = None,
    head_set: Annotated[list[str] | None, typer.Option(help="Workload parameter of head only; repeatable.")] = None,
    env: o.Env = None,
    base_env: Annotated[list[str] | None, typer.Option(help="K=V for base only; repeatable.")] = None,
    head_env: Annotated[list[str] | None, typer.Option(help="K=V for head only; repeatable.")] = None,
    base_python: Annotated[str, typer.Option(help="Python of base for built-in runners.")] = "",
    head_python: Annotated[str, typer.Option(help="Python of head for built-in runners.")] = "",
    carry: Annotated[Path | None, typer.Option(help="Patch file applied to both sides.")] = None,
    bench_from: o.BenchFrom = "",
    margin: o.Margin = "",
    alpha: o.Alpha = None,
    max_blocks: o.MaxBlocks = None,
    budget: o.Budget = "",
    slow_rate: Annotated[str, typer.Option(help="EQUIVALENT must exclude slow launches at this rate: 10%.")] = "",
    no_confirm: Annotated[bool, typer.Option("--no-confirm", help="Stop at SUSPECT, without fresh builds.")] = False,
    no_build_cache: o.NoBuildCache = False,
    scope: o.Scope = "",
    seed: o.Seed = None,
    clocks: o.Clocks = "",
    sm_clock: o.SmClock = None,
    timeout: o.Timeout = "",
    ready_timeout: o.ReadyTimeout = "",
    pin_args: o.PinArgs = "",
    thin: Annotated[str, typer.Option(help="layers=8: few layers, weights drawn at random (engines).")] = "",
    no_full_size: o.NoFullSize = False,
    trace: o.Trace = False,
    age: Annotated[str, typer.Option(help="Load each server for so long before it is measured: 2h (engines).")] = "",
    was: Annotated[float | None, typer.Option(help="The number that was believed; shown beside what is now.")] = None,
    plan_only: Annotated[bool, typer.Option("--plan-only", help="Print the price list and measure nothing.")] = False,
    resume: Annotated[str, typer.Option(help="Go on with an interrupted comparison, by its id.")] = "",
    on_suspect: o.OnSuspect = "",
    quiet: o.Quiet = False,
) -> None:
    """Has head changed performance against base? Interleaved blocks of both sides, then a verdict.

    Example: perfguard compare HEAD~1 HEAD --metric seconds --better lower -- python bench.py
    """
    asked = {k: v for k, v in locals().items() if k != "resume"}
    o.check_json(json_file)
    if resume:
        resume_comparison(resume, asked)
    _check_sides(base, head)
    _compare(asked)


def _check_sides(base: str, head: str) -> None:
    if not base or not head:
        raise UsageError("two revisions are needed", "perfguard compare HEAD~1 HEAD -- python bench.py")


def _compare(asked: dict[str, Any]) -> None:
    from perfguard import experiment, thin_first
    from perfguard.campaign import plan_campaign
    from perfguard.pricing import price_lines_of

    repository, config = open_project(asked["repo"])
    campaign, block = plan_campaign(_request(asked, config, ("base", "head")), repository), None
    if asked["thin"] and not asked["no_full_size"]:
        full = _request({**asked, "thin": ""}, config, ("base", "head"))
        campaign, block = thin_first.with_block(campaign, full, repository)
    with opened(asked, asked["repo"]) as (store, observer):
        prices = price_lines_of(campaign, store)
        prices += (thin_first.block_price_line(block, store),) if block else ()
        if asked["plan_only"]:
            print_prices(campaign.seed, prices, asked["json_file"])
            raise typer.Exit(0)
        for line in prices:
            observer.say(line)
        hooks = hooks_of(asked["on_suspect"], config, repository.root)
        if block:
            began_s = monotonic()
            of_slice = thin_first.measure_slice(campaign, block, repository, store, observer)
            at_full_size = partial(thin_first.measure_block, of_slice, block, repository, store, observer)
            finish_both(of_slice, partial(at_full_size, began_s=began_s), store, asked["json_file"], hooks)
        comparison = experiment.compare(campaign, repository, store, observer)
        finish(comparison, store, asked["json_file"], hooks)


def resume_comparison(campaign_id: str, asked: dict[str, Any]) -> None:
    from perfguard import experiment, thin_first
    from perfguard.subject.repository import open_repository

    same = ("repo", "db", "json_file", "quiet", "on_suspect")
    changed = [name for name, value in asked.items() if value and name not in same]
    if changed:
        raise UsageError(
            f"--resume goes on with what was asked for then; {', '.join(changed)} cannot be given again",
            f"perfguard compare --resume {campaign_id}",
        )
    db = o.database(asked["db"], asked["repo"])
    if not db.exists():
        raise UsageError(f"no results database at {db}", "perfguard compare --resume ID --db FILE")
    with opened(asked, asked["repo"]) as (store, observer):
        repository = open_repository(Path(store.campaign(campaign_id).repository))
        began_s = monotonic()
        comparison = experiment.resume(campaign_id, repository, store, observer)
        hooks = hooks_of(asked["on_suspect"], load(repository.root), repository.root)
        if block := thin_first.block_left(campaign_id, store):
            at_full_size = partial(thin_first.measure_block, comparison, block, repository, store, observer)
            finish_both(comparison, partial(at_full_size, began_s=began_s), store, asked["json_file"], hooks)
        finish(comparison, store, asked["json_file"], hooks)


@app.command()
def recheck(
    revision: Annotated[str, typer.Argument(help="The commit that is said to give the number.")],
    was: Annotated[float, typer.Option(help="The number that was believed.")],
    command: o.Command = None,
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
    url: o.Url = "",
    env: o.Env = None,
    carry: Annotated[Path | None, typer.Option(help="Patch file applied on top.")] = None,
    margin: o.Margin = "",
    clocks: o.Clocks = "",
    sm_clock: o.SmClock = None,
    timeout: o.Timeout = "",
    ready_timeout: o.ReadyTimeout = "",
    quiet: o.Quiet = False,
) -> None:
    """Does this commit give that number here, now? One or two launches; it retires a number, never accuses a commit.

    Example: perfguard recheck v1.4 --was 89 -w moe-eagle3
    """
    _one_side(locals(), "recheck")


@app.command(name="run")
def run_(
    revision: Annotated[str, typer.Argument(help="The commit to measure, or WORKTREE.")],
    command: o.Command = None,
    trials: Annotated[int, typer.Option(help="Launches to measure.", min=1, max=1000)] = 4,
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
    url: o.Url = "",
    env: o.Env = None,
    carry: Annotated[Path | None, typer.Option(help="Patch file applied on top.")] = None,
    clocks: o.Clocks = "",
    sm_clock: o.SmClock = None,
    timeout: o.Timeout = "",
    ready_timeout: o.ReadyTimeout = "",
    quiet: o.Quiet = False,
) -> None:
    """Measure one revision and store it: values, no verdict.

    Example: perfguard run HEAD --trials 4 -w moe-eagle3
    """
    _one_side(locals(), "run")


def _one_side(asked: dict[str, Any], kind: str) -> None:
    from perfguard import single
    from perfguard.report.next_step import placed
    from perfguard.report.single import render_single
    from perfguard.report.terminal import open_console

    o.check_json(asked["json_file"])
    repository, config = open_project(asked["repo"])
    request = _request(asked, config, ("revision",), kind=kind)
    with opened(asked, asked["repo"]) as (store, observer):
        if kind == "recheck":
            metric = claimed_metric(request.workload, asked["was"])
            result = single.recheck(request, metric, repository, store, observer)
        else:
            result = single.run(request, asked["trials"], repository, store, observer)
        place = o.place_of(store.path, str(asked["repo"]))
    with o.verdict_output():
        if asked["json_file"]:
            o.write_measured(result, asked["json_file"])
        if asked["json_file"] != "-":
            render_single(placed(result, place), open_console())
    raise typer.Exit(result["exit_code"])


def _request(asked: dict[str, Any], config: Any, sides: tuple[str, ...], kind: str = "compare") -> Any:
    from perfguard.campaign import Request
    from perfguard.scopes import scope_of

    stored = recalled(asked["base"], asked["db"], asked["repo"]) if "base" in sides else None
    workload = engine_workload(chosen_workload(stored, workload_options(asked), config), asked)
    if asked.get("was") is not None:
        claimed_metric(workload, asked["was"])
    return Request(
        wishes=with_stored(stored, tuple(_wish(asked, side) for side in sides)),
        workload=workload,
        policy=policy_of(config, **{name: asked[name] for name in POLICY_OPTIONS if name in asked}),
        kind=kind,  # type: ignore[arg-type]  # one of this module's own three words
        seed=asked.get("seed"),
        carry=asked["carry"],
        bench_from=asked.get("bench_from", ""),
        claimed=asked.get("was"),
        scope=scope_of(asked.get("scope", "")),
        pin_args=asked.get("pin_args", ""),
    )


def _wish(asked: dict[str, Any], side: str) -> Any:
    from perfguard.campaign import Wish

    env = env_of(asked["env"], "--env") | env_of(asked.get(f"{side}_env"), f"--{side}-env")
    params = parse_params(asked.get(f"{side}_set"), f"--{side}-set")
    return Wish(
        side="head" if side == "head" else "base",
        revision=asked[side],
        env=env,
        params=params,
        python=asked.get(f"{side}_python", ""),
    )


@contextmanager
def opened(asked: dict[str, Any], root: Path) -> "Iterator[tuple[Store, Progress]]":
    """The database, open for writing, and the progress display on standard error."""
    import sys

    from perfguard.report.progress import progress
    from perfguard.report.terminal import open_console
    from perfguard.store import open_store

    try:
        with (
            open_store(o.database(asked["db"], root)) as store,
            progress(open_console(sys.stderr), is_quiet=asked["quiet"]) as observer,
        ):
            yield store, observer
    except (BrokenPipeError, SystemExit):  # rich turns the one into the other
        raise Interrupted("nobody reads the progress any more (2>&1 | head)", "perfguard runs") from None
