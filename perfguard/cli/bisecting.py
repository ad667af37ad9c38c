"""`perfguard bisect`: which commit, or none? Parses, makes one call, prints, ends with an exit code."""

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from perfguard.cli import options as o
from perfguard.cli.app import app
from perfguard.cli.asking import claimed_metric, env_of, open_project, policy_of, workload_of, workload_options
from perfguard.cli.ending import print_prices
from perfguard.cli.measure import opened
from perfguard.config import parse_duration_s, with_policy
from perfguard.errors import EXIT_UNDECIDED, UsageError

if TYPE_CHECKING:
    from perfguard.bisection.plan import PlannedBisect, Wanted
    from perfguard.campaign import Request
    from perfguard.config import Config
    from perfguard.policy import Policy
    from perfguard.records import Campaign, LookFor
    from perfguard.store import Store
    from perfguard.subject.repository import Repository

Paths = Annotated[
    list[str] | None,
    typer.Option("--paths", help="Only commits that change this file or folder, from where you stand; repeatable."),
]
Carry = Annotated[Path | None, typer.Option(help="Patch file applied to every commit, three-way.")]
NEEDED = "two revisions or the id of a comparison are needed"
LookForText = Annotated[str, typer.Option("--look-for", help="slower, faster or any.")]
# What a stored comparison says already.
FIXED = (
    *("workload", "command", "better", "unit", "read", "setup", "modes", "set_", "env", "margin", "alpha", "slow_rate"),
    *("max_blocks", "no_build_cache", "clocks", "sm_clock", "timeout", "ready_timeout"),
)
# What may be given again with --resume.
AGAIN = ("repo", "db", "json_file", "quiet", "budget")


@app.command()
def bisect(
    good: Annotated[str, typer.Argument(help="A commit that is fast, or the id of a stored comparison.")] = "",
    bad: Annotated[str, typer.Argument(help="A later commit that is slow, or WORKTREE. None after an id.")] = "",
    command: o.Command = None,
    workload: o.WorkloadName = "",
    repo: o.Repo = Path("."),
    db: o.Db = "",
    json_file: o.Json = "",
    metric: Annotated[str, typer.Option("--metric", help="The metric to search. Default: the first primary.")] = "",
    better: o.BetterWay = "",
    unit: o.Unit = "",
    read: o.Read = "",
    setup: o.Setup = "",
    modes: o.Modes = "",
    set_: o.Set = None,
    env: o.Env = None,
    carry: Carry = None,
    bench_from: o.BenchFrom = "",
    paths: Paths = None,
    all_parents: Annotated[
        bool, typer.Option("--all-parents", help="Search all commits in one line, not the main line and then a merge.")
    ] = False,
    look_for: LookForText = "slower",
    was: Annotated[float | None, typer.Option(help="The number that was believed of GOOD.")] = None,
    find_good: Annotated[
        float | None, typer.Option(help="First walk back from GOOD, doubling, to a commit that reaches this number.")
    ] = None,
    back: Annotated[int, typer.Option(help="How many commits --find-good walks back at most.", min=1)] = 256,
    margin: o.Margin = "",
    alpha: o.Alpha = None,
    max_blocks: o.MaxBlocks = None,
    max_trials: Annotated[int | None, typer.Option(help="Most launches, confirmation included. Default: 400.")] = None,
    slow_rate: Annotated[str, typer.Option(help="PHANTOM must exclude slow launches at this rate: 10%.")] = "",
    no_build_cache: o.NoBuildCache = False,
    budget: o.Budget = "",
    clocks: o.Clocks = "",
    sm_clock: o.SmClock = None,
    seed: o.Seed = None,
    timeout: o.Timeout = "",
    ready_timeout: o.ReadyTimeout = "",
    plan_only: Annotated[bool, typer.Option("--plan-only", help="Print the price list and measure nothing.")] = False,
    resume: Annotated[str, typer.Option(help="Go on with an interrupted bisect, by its id.")] = "",
    quiet: o.Quiet = False,
) -> None:
    """Which commit between GOOD and BAD changed performance, or none? The culprit is confirmed against its parent.

    Example: perfguard bisect v1.4 HEAD --metric seconds --better lower -- python bench.py
    """
    asked = {k: v for k, v in locals().items() if k != "resume"}
    o.check_json(json_file)
    if resume:
        _resume(resume, asked)
    _check_sides(asked)
    _bisect(asked)


def _check_sides(asked: dict[str, Any]) -> None:
    """Two revisions, or an id alone, which says itself what to measure. Raises UsageError."""
    good, typed = asked["good"], _after_dashes()
    # The first words of a command become the sides that are missing.
    num_sides = bool(good) + bool(asked["bad"]) - max(0, len(typed) - len(asked["command"] or ()))
    if num_sides <= 0:
        raise UsageError(NEEDED, "perfguard bisect HEAD~8 HEAD -- python bench.py, or perfguard bisect latest")
    if num_sides == 1 and (asked["workload"] or typed):
        how = f"-- {shlex.join(typed)}" if typed else f"-w {asked['workload']}"
        text = f"BAD is missing: {good!r} alone is the id of a comparison, which says itself what is measured"
        raise UsageError(text, f"perfguard bisect {good} HEAD {how}, or perfguard bisect ID")
    if num_sides == 1 and asked["find_good"] is not None:
        text = f"--find-good walks back from a commit GOOD, and {good!r} alone is the id of a comparison"
        raise UsageError(text, f"perfguard bisect GOOD BAD --find-good {asked['find_good']:g} -w W")


def _after_dashes() -> list[str]:
    """The words after `--` as they were typed: the parser does not tell them from the words before."""
    return sys.argv[sys.argv.index("--") + 1 :] if "--" in sys.argv else []


def _bisect(asked: dict[str, Any]) -> None:
    from perfguard.bisection import story
    from perfguard.bisection.pricing import price_lines

    repository, config = open_project(asked["repo"])
    with opened(asked, asked["repo"]) as (store, observer):
        if asked["find_good"] is not None:
            _walk_back(asked, repository, config, store, observer)
        planned = _planned(asked, repository, config, store)
        prices = (*([planned.note] if planned.note else []), *price_lines(planned, store))
        if asked["plan_only"]:
            print_prices(planned.campaign.seed, prices, asked["json_file"])
            raise typer.Exit(0)
        for line in prices:
            observer.say(line)
        finish(story.bisect(planned, repository, store, observer), store, asked["json_file"])


def _planned(asked: dict[str, Any], repository: "Repository", config: "Config", store: "Store") -> "PlannedBisect":
    from dataclasses import replace

    from perfguard.bisection.plan import plan_bisect, plan_from_comparison

    wanted = _wanted(asked, repository)
    if asked["bad"]:
        return plan_bisect(_request(asked, config), wanted, repository, store)

    def like(stored: "Campaign") -> "Request":
        given = _request_like(stored, asked)
        if asked["was"] is not None:
            claimed_metric(stored.workload, asked["was"])
        return replace(given, seed=asked["seed"], claimed=asked["was"], carry=asked["carry"])

    return plan_from_comparison(asked["good"], like, wanted, repository, store)


def _wanted(asked: dict[str, Any], repository: "Repository") -> "Wanted":
    from perfguard.bisection.plan import Wanted

    return Wanted(
        metric=asked["metric"],
        look_for=_direction(asked["look_for"]),
        paths=_paths(asked["paths"], repository),
        all_parents=asked["all_parents"],
    )


def _paths(given: list[str] | None, repository: "Repository") -> tuple[str, ...] | None:
    """From the root of the repository; () where everything was named, None where nothing was."""
    from perfguard.subject.named_paths import path_in_repository

    if not given:
        return None
    found = [path_in_repository(text, repository.root, Path.cwd(), "--paths") for text in given]
    return tuple(dict.fromkeys(found)) if all(found) else ()


def _direction(text: str) -> "LookFor":
    match text:
        case "slower" | "faster" | "any":
            return text
    raise UsageError(f"--look-for {text!r} is none of slower, faster, any", "--look-for any")


def _request(asked: dict[str, Any], config: "Config") -> "Request":
    from dataclasses import replace

    from perfguard.campaign import Request, Wish

    # With -w the metric is one of the workload's, with a command it describes what the command prints.
    named = {**asked, "metric": ""} if asked["workload"] else asked
    workload = workload_of(workload_options(named), config)
    claimed = asked["was"] if asked["was"] is not None else asked["find_good"]
    if claimed is not None:
        claimed_metric(workload, claimed, "--was" if asked["was"] is not None else "--find-good")
    given = ("margin", "alpha", "max_blocks", "budget", "slow_rate", "no_build_cache", "clocks", "sm_clock")
    policy = policy_of(config, **{name: asked[name] for name in given})
    policy = _limited(policy, asked)
    env = env_of(asked["env"], "--env")
    return Request(
        wishes=(Wish(side="base", revision=asked["good"], env=env), Wish(side="head", revision=asked["bad"], env=env)),
        workload=workload,
        policy=replace(policy, is_confirmed=True),
        kind="bisect",
        seed=asked["seed"],
        carry=asked["carry"],
        bench_from=asked["bench_from"],
        claimed=claimed,
    )


def _limited(policy: "Policy", asked: dict[str, Any]) -> "Policy":
    if asked["max_trials"] is None:
        return policy
    return with_policy(policy, {"max_bisect_trials": asked["max_trials"]}, "--max-trials")


def _request_like(stored: "Campaign", asked: dict[str, Any]) -> "Request":
    """What a stored comparison asked for; its workload, margin and sides are taken over."""
    from dataclasses import replace

    from perfguard.campaign import Request, Wish
    from perfguard.policy import stored_policy

    changed = [f"--{name.strip('_').replace('_', '-')}" for name in FIXED if asked[name] not in (None, "", False, [])]
    if changed:
        text = f"{stored.id} says already what is measured and how; {', '.join(changed)} cannot be given again"
        raise UsageError(text, f"perfguard bisect {stored.id}")
    budget_s = parse_duration_s(asked["budget"], "--budget") if asked["budget"] else 0.0
    return Request(
        wishes=tuple(
            Wish(side=arm.side, revision=arm.revision.name, env=arm.env, params=arm.params, python=arm.python)
            for arm in stored.arms
        ),
        workload=stored.workload,
        policy=_limited(replace(stored_policy(stored.policy), is_confirmed=True, budget_s=budget_s), asked),
        kind="bisect",
        bench_from=asked["bench_from"],
    )


def _walk_back(
    asked: dict[str, Any], repository: "Repository", config: "Config", store: "Store", observer: Any
) -> None:
    """Moves GOOD back to a commit that reaches the number; ends undecided where none does."""
    from perfguard.bisection.good import find_good

    if asked["plan_only"]:
        return
    found = find_good(_request(asked, config), asked["metric"], asked["back"], repository, store, observer)
    if not found:
        means = "the number may never have been a matter of code."
        step = "--back with more commits, or perfguard recheck REV --was VALUE on an older one"
        if repository.location.is_shallow:
            means, step = "the clone is shallow, and older ones are not here.", "git fetch --unshallow"
        known = f"No commit of {asked['good']} and up to {asked['back']} before it reaches {asked['find_good']:g} now"
        typer.echo(f"{known}: {means}\nnext: {step}", err=True)
        raise typer.Exit(EXIT_UNDECIDED)
    asked["good"] = found


def _resume(wanted: str, asked: dict[str, Any]) -> None:
    from perfguard.bisection import story
    from perfguard.subject.repository import open_repository

    defaults = {"look_for": "slower", "back": 256}
    changed = [name for name, value in asked.items() if value and name not in AGAIN and value != defaults.get(name)]
    if changed:
        raise UsageError(
            f"--resume goes on with what was asked for then; {', '.join(changed)} cannot be given again",
            f"perfguard bisect --resume {wanted}",
        )
    db = o.database(asked["db"], asked["repo"])
    if not db.exists():
        raise UsageError(f"no results database at {db}", "perfguard bisect --resume ID --db FILE")
    budget_s = parse_duration_s(asked["budget"], "--budget") if asked["budget"] else None
    with opened(asked, asked["repo"]) as (store, observer):
        repository = open_repository(Path(store.campaign(wanted).repository))
        finish(story.resume(wanted, repository, store, observer, budget_s), store, asked["json_file"])


def finish(result: dict[str, Any], store: "Store", json_file: str) -> None:
    from perfguard.report.bisect import render_bisect
    from perfguard.report.next_step import placed
    from perfguard.report.terminal import open_console

    place = o.place_of(store.path, store.campaign(result["id"]).repository)
    with o.verdict_output():
        if json_file:
            o.write_measured(result, json_file)
        if json_file != "-":
            render_bisect(placed(result, place), open_console())
    raise typer.Exit(result["exit_code"])
