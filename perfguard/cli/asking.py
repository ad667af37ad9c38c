"""Options of a measuring command -> what the stories take. Parses and checks; measures and prints nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perfguard.cli.options import project_folder
from perfguard.config import (
    COMMAND_LINE,
    Config,
    load,
    parse_duration_s,
    parse_pairs,
    parse_params,
    parse_ratio,
    with_policy,
)
from perfguard.errors import UsageError
from perfguard.policy import Policy
from perfguard.records import Better, Metric, Workload
from perfguard.workloads import default_modes, find, of_command, refuse_unsaid_rate, with_modes, with_params

if TYPE_CHECKING:
    from perfguard.hooks import Hooks
    from perfguard.subject.repository import Repository


@dataclass(frozen=True, kw_only=True)
class WorkloadOptions:
    """What the command line says about what is measured; empty strings were not given."""

    name: str = ""
    command: Sequence[str] = ()
    metric: str = ""
    better: str = ""
    unit: str = ""
    read: str = ""
    setup: str = ""
    timeout: str = ""
    ready_timeout: str = ""
    modes: str = ""
    params: Sequence[str] = field(default_factory=tuple)


def open_project(repo: Path) -> tuple[Repository, Config]:
    """The repository that holds `repo` and its perfguard.toml."""
    from perfguard.subject.repository import open_repository

    repository = open_repository(repo)
    return repository, project_config(repo)


def project_config(repo: Path) -> Config:
    """perfguard.toml of the project around `repo`; what perfguard brings where there is none."""
    return load(project_folder(repo))


def workload_options(asked: dict[str, Any]) -> WorkloadOptions:
    same = ("metric", "better", "unit", "read", "setup", "timeout", "ready_timeout", "modes")
    attached = [f"url={asked['url']}"] if asked.get("url") else []
    return WorkloadOptions(
        name=asked["workload"],
        command=asked["command"] or (),
        params=[*(asked["set_"] or ()), *attached],
        **{name: asked[name] for name in same},
    )


def workload_of(options: WorkloadOptions, config: Config) -> Workload:
    """The workload asked for: named, or a command of one's own. Raises UsageError."""
    if options.name and options.command:
        raise UsageError("both -w and a command were given", "give one of them")
    if options.name:
        workload = _named(options, config)
    elif options.command:
        workload = _own(options)
    else:
        raise UsageError("nothing to measure: neither -w WORKLOAD nor -- CMD", "perfguard workloads")
    return _with_limits(options, with_modes(workload, options.modes or default_modes(workload)))


def again(workload: Workload, options: WorkloadOptions) -> Workload:
    """A stored workload, with modes, limits and parameters that are asked for now."""
    changed = with_params(workload, parse_params(options.params, "--set"))
    return _with_limits(options, with_modes(changed, options.modes))


def _named(options: WorkloadOptions, config: Config) -> Workload:
    for option, value in (("--metric", options.metric), ("--read", options.read)):
        if value:
            raise UsageError(
                f"{option} belongs to a command of your own, not to -w {options.name}", "perfguard workloads"
            )
    workload = with_params(find(options.name, config.workloads), parse_params(options.params, "--set"))
    return replace(workload, setup=options.setup) if options.setup else workload


def _own(options: WorkloadOptions) -> Workload:
    if options.params:
        raise UsageError("--set changes parameters of a workload; a command has none", "--env NAME=VALUE")
    if options.metric and not options.better:
        refuse_unsaid_rate(options.metric, options.unit, "the same with --better higher")
    return of_command(
        tuple(options.command),
        metric=options.metric,
        better=better_of(options.better),
        unit=options.unit,
        read=options.read,
        setup=options.setup,
    )


def better_of(text: str) -> Better:
    """lower (also where nothing was said) or higher. Raises UsageError."""
    match text:
        case "" | "lower":
            return "lower"
        case "higher":
            return "higher"
    raise UsageError(f"--better {text!r} is neither lower nor higher", "--better lower")


def _with_limits(options: WorkloadOptions, workload: Workload) -> Workload:
    if options.timeout:
        workload = replace(workload, timeout_s=parse_duration_s(options.timeout, "--timeout"))
    if options.ready_timeout:
        workload = replace(workload, ready_timeout_s=parse_duration_s(options.ready_timeout, "--ready-timeout"))
    return workload


def policy_of(
    config: Config,
    *,
    margin: str = "",
    alpha: float | None = None,
    max_blocks: int | None = None,
    budget: str = "",
    slow_rate: str = "",
    no_confirm: bool = False,
    clocks: str = "",
    sm_clock: int | None = None,
    no_build_cache: bool = False,
) -> Policy:
    """The policy of perfguard.toml with what the command line changes."""
    changes: dict[str, float | int | bool | str] = {}
    if margin:
        changes["margin"] = parse_ratio(margin, "--margin")
    if alpha is not None:
        changes["alpha"] = alpha
    if max_blocks is not None:
        changes |= {"max_blocks": max_blocks, "max_confirm_blocks": max(2, max_blocks)}
    if budget:
        changes["budget_s"] = parse_duration_s(budget, "--budget")
    if slow_rate:
        changes["slow_rate"] = parse_ratio(slow_rate, "--slow-rate")
    if no_confirm:
        changes["is_confirmed"] = False
    changes |= _clock_changes(config.policy, clocks, sm_clock)
    if no_build_cache:
        changes["build_cache_gb"] = 0.0
    return with_policy(config.policy, changes, COMMAND_LINE)


def _clock_changes(policy: Policy, clocks: str, sm_clock: int | None) -> dict[str, int | str]:
    """Raises UsageError for a clock to lock where nothing is to be locked."""
    changes: dict[str, int | str] = {"clocks": clocks} if clocks else {}
    if sm_clock is not None:
        if (clocks or policy.clocks) == "observe":
            raise UsageError(f"--sm-clock {sm_clock} is a clock to lock, and clocks are only observed", "--clocks lock")
        changes["sm_clock_mhz"] = sm_clock
    return changes


def claimed_metric(workload: Workload, was: float, option: str = "--was") -> Metric:
    """The metric a claimed number is about: the first primary one. Raises UsageError for a number that is none."""
    if not 1e-100 < was < 1e100:
        raise UsageError(f"{option} {was:g} is not a positive number that anything measures", f"{option} 89")
    return next(metric for metric in workload.metrics if metric.primary)


def env_of(pairs: Sequence[str] | None, option: str) -> dict[str, str]:
    """["K=V", "NAME", …] -> {"K": "V", "NAME": its value here}; a secret is marked, and read again at each launch."""
    import os

    from perfguard.trial.secrets import REDACTED, redacted

    given = [pair for pair in pairs or () if "=" in pair]
    named = [pair for pair in pairs or () if "=" not in pair]
    if missing := [name for name in named if name not in os.environ]:
        raise UsageError(f"{option} {missing[0]}: there is no such variable here", f"{option} {missing[0]}=VALUE")
    values = {name: os.environ[name] for name in named}
    plain = {name: value if redacted(name, value) == value else REDACTED for name, value in values.items()}
    return parse_pairs(given, option) | plain


def hooks_of(on_suspect: str, config: Config, folder: Path) -> Hooks:
    """Those of perfguard.toml, with the command line's; they run in `folder`, the repository."""
    from perfguard.hooks import Hooks

    asked = {"on_suspect": on_suspect} if on_suspect else {}
    return Hooks(commands={**config.hooks, **asked}, folder=folder)
