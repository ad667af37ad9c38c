"""`perfguard speculate`: does EAGLE-3 pay at this commit? Parses, one call a batch size, prints, ends with a code."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from perfguard.cli import options as o
from perfguard.cli.app import app
from perfguard.cli.asking import env_of, hooks_of, open_project, policy_of, workload_of, workload_options
from perfguard.cli.ending import conclude, finish, print_prices
from perfguard.cli.measure import opened, resume_comparison
from perfguard.errors import UsageError

POLICY_OPTIONS = ("margin", "alpha", "max_blocks", "budget", "no_confirm", "no_build_cache", "clocks", "sm_clock")
SCHEMA = "perfguard/speculations@1"


@app.command()
def speculate(
    revision: Annotated[str, typer.Argument(help="The commit to measure, or WORKTREE.")] = "HEAD",
    workload: o.WorkloadName = "",
    concurrency: Annotated[str, typer.Option(help="Sequences decoded together: 1,4,16; a comparison of each.")] = "",
    repo: o.Repo = Path("."),
    db: o.Db = "",
    json_file: o.Json = "",
    setup: o.Setup = "",
    set_: o.Set = None,
    env: o.Env = None,
    carry: Annotated[Path | None, typer.Option(help="Patch file applied on top.")] = None,
    margin: o.Margin = "",
    alpha: o.Alpha = None,
    max_blocks: o.MaxBlocks = None,
    budget: o.Budget = "",
    no_confirm: Annotated[bool, typer.Option("--no-confirm", help="Stop at SUSPECT.")] = False,
    no_build_cache: o.NoBuildCache = False,
    seed: o.Seed = None,
    clocks: o.Clocks = "",
    sm_clock: o.SmClock = None,
    timeout: o.Timeout = "",
    ready_timeout: o.ReadyTimeout = "",
    plan_only: Annotated[bool, typer.Option("--plan-only", help="Print the price list and measure nothing.")] = False,
    resume: Annotated[str, typer.Option(help="Go on with an interrupted comparison, by its id.")] = "",
    on_suspect: o.OnSuspect = "",
    quiet: o.Quiet = False,
) -> None:
    """Plain decoding against EAGLE-3 at one commit: win, tie or loss, break-even, and what each lever would give.

    Example: perfguard speculate HEAD -w moe-eagle3 --concurrency 1,4
    """
    asked = {k: v for k, v in locals().items() if k != "resume" and (k, v) != ("revision", "HEAD")}
    o.check_json(json_file)
    if resume:
        resume_comparison(resume, asked)
    _speculate({"revision": revision, **asked}, batches(concurrency))


def batches(text: str) -> tuple[int, ...]:
    """ "1,4,16" -> (1, 4, 16); () for nothing. Raises UsageError."""
    words = text.split(",") if text else []
    if not all(word.strip().isdecimal() and int(word) > 0 for word in words) or len(set(words)) < len(words):
        raise UsageError(f"--concurrency {text!r} is no list of different whole numbers", "--concurrency 1,4,16")
    return tuple(map(int, words))


def _speculate(asked: dict[str, Any], sizes: tuple[int, ...]) -> None:
    from perfguard import experiment
    from perfguard.campaign import plan_campaign
    from perfguard.pricing import price_lines_of

    repository, config = open_project(asked["repo"])
    campaigns = [plan_campaign(request, repository) for request in _requests(asked, config, sizes)]
    hooks = hooks_of(asked["on_suspect"], config, repository.root)
    found = []
    with opened(asked, asked["repo"]) as (store, observer):
        prices = [line for c in campaigns for line in (*_title(c, sizes), *price_lines_of(c, store))]
        if asked["plan_only"]:
            print_prices(campaigns[0].seed, tuple(prices), asked["json_file"])
            raise typer.Exit(0)
        for line in prices:
            observer.say(line)
        for campaign in campaigns:
            comparison = experiment.compare(campaign, repository, store, observer)
            if len(campaigns) == 1:
                finish(comparison, store, asked["json_file"], hooks)
            conclude(comparison, store, hooks, is_shown=asked["json_file"] != "-")
            found.append(comparison)
    _finish_all(found, asked["json_file"])


def _title(campaign: Any, sizes: tuple[int, ...]) -> tuple[str, ...]:
    return (f"batch of {campaign.workload.params['batch']}: alpha {campaign.policy['alpha']:g}",) if sizes else ()


def _requests(asked: dict[str, Any], config: Any, sizes: tuple[int, ...]) -> list[Any]:
    """One for each batch size; they share alpha, so that all of them together keep its promise."""
    from perfguard.campaign import Request, Wish
    from perfguard.modes import SIDES, of_modes
    from perfguard.scopes import IN_PROCESS

    same = dict.fromkeys(("metric", "better", "unit", "read", "modes"), "")
    workload = of_modes(workload_of(workload_options({**asked, **same, "command": None}), config))
    policy = policy_of(config, **{name: asked[name] for name in POLICY_OPTIONS})
    env = env_of(asked["env"], "--env")
    wishes = tuple(Wish(side=side, revision=asked["revision"], env=env, mode=mode) for side, mode in SIDES.items())
    return [
        Request(
            wishes=wishes,
            workload=one,
            policy=replace(policy, alpha=policy.alpha / max(1, len(sizes)), confirms_alone=True),
            seed=None if asked["seed"] is None else asked["seed"] + index,
            carry=asked["carry"],
            scope=IN_PROCESS,
        )
        for index, one in enumerate(_of_sizes(workload, sizes))
    ]


def _of_sizes(workload: Any, sizes: tuple[int, ...]) -> list[Any]:
    """The workload at each batch size, with prompts enough for whole batches."""
    from perfguard.workloads import with_params

    found = []
    for size in sizes:
        prompts = workload.params.get("prompts")
        whole = {} if prompts is None else {"prompts": -(-prompts // size) * size}
        found.append(with_params(workload, {"batch": size, **whole}))
    return found or [workload]


def _finish_all(comparisons: list[dict[str, Any]], json_file: str) -> None:
    from perfguard.nightly.plan import worst

    code = worst([comparison["exit_code"] for comparison in comparisons])
    with o.verdict_output():
        if json_file:
            ids = ", ".join(comparison["id"] for comparison in comparisons)
            o.write_measured({"schema": SCHEMA, "id": ids, "exit_code": code, "comparisons": comparisons}, json_file)
    raise typer.Exit(code)
