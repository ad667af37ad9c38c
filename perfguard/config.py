"""perfguard.toml and KEY=VALUE options -> workloads and policy. Reads one file; decides nothing."""

import difflib
import json
import shlex
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from perfguard.errors import UsageError
from perfguard.gate_policy import ACTIONS, GatePolicy
from perfguard.policy import Policy
from perfguard.records import Metric, Workload
from perfguard.workloads import BUILT_IN, find, refuse_unsaid_rate, with_modes, with_params

_WORKLOAD_KEYS = (
    "runner", "command", "metrics", "params", "modes", "read", "setup", "timeout_s", "ready_timeout_s", "based_on",
)  # fmt: skip
RUNNERS = ("tp_moe", "fake", "engine", "command")
_METRIC_KEYS = ("name", "unit", "better", "primary", "exact")
HOOKS = ("on_regression", "on_suspect", "on_machine_change")
# Their values are checked where they are used: perfguard/nightly/wishes.py.
NIGHTLY_KEYS = ("workloads", "reference", "budget", "only_changed", "bisect")


# Where a value stood that no file held.
COMMAND_LINE = "command line"
# Options that are not called as their key is.
OPTIONS = {"search_alpha": "--alpha", "sweep_alpha": "--alpha", "budget_s": "--budget"}


@dataclass(frozen=True, kw_only=True)
class Config:
    """What perfguard.toml says; without a file, what perfguard brings."""

    workloads: Mapping[str, Workload] = field(default_factory=lambda: {w.name: w for w in BUILT_IN})
    policy: Policy = field(default_factory=Policy)
    hooks: Mapping[str, str] = field(default_factory=dict)
    nightly: Mapping[str, Any] = field(default_factory=dict)
    path: Path | None = None


def load(folder: Path) -> Config:
    """Read perfguard.toml from `folder` if it is there. Raises UsageError naming file and key."""
    path = folder / "perfguard.toml"
    if not path.exists():
        return Config()
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"{path} cannot be read: {error}", f"correct {path}") from error
    _check_keys(raw, ("workload", "policy", "gates", "hooks", "nightly"), f"{path}")
    workloads = {w.name: w for w in BUILT_IN}
    for name, table in _table(raw, "workload", path).items():
        workloads[name] = _workload(name, table, workloads, f"{path} [workload.{name}]")
    policy = with_policy(Policy(), _table(raw, "policy", path), str(path))
    policy = replace(policy, gates=_gates(_table(raw, "gates", path), f"{path} [gates]"))
    hooks = _hooks(_table(raw, "hooks", path), path)
    nightly = _table(raw, "nightly", path)
    _check_keys(nightly, NIGHTLY_KEYS, f"{path} [nightly]")
    return Config(workloads=workloads, policy=policy, hooks=hooks, nightly=nightly, path=path)


def _hooks(hooks: Mapping[str, Any], path: Path) -> Mapping[str, str]:
    _check_keys(hooks, HOOKS, f"{path} [hooks]")
    for name, command in hooks.items():
        if not isinstance(command, str):
            raise UsageError(f"{path} [hooks]: {name} = {command!r} is not a command", f'{name} = "mail-me"')
    return hooks


def _gates(table: Mapping[str, Any], where: str) -> GatePolicy:
    """Gates with some actions and thresholds changed. Raises UsageError naming the key."""
    known = {f.name: getattr(GatePolicy(), f.name) for f in fields(GatePolicy)}
    _check_keys(table, tuple(known), where)
    for key, value in table.items():
        default = known[key]
        if isinstance(default, str):
            if value not in ACTIONS:
                raise UsageError(f"{where}: {key} = {value!r} is none of {', '.join(ACTIONS)}", f'{key} = "{default}"')
        elif isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 1e9:
            raise UsageError(f"{where}: {key} = {value!r} is not 0 or a positive number", f"{key} = {default:g}")
    return GatePolicy(**table)


def with_policy(policy: Policy, values: Mapping[str, Any], where: str) -> Policy:
    """Policy with some thresholds changed, checked for type and range."""
    _check_keys(values, tuple(f.name for f in fields(Policy) if f.name != "gates"), where)
    for key, value in values.items():
        wanted = type(getattr(policy, key))
        if wanted is str and isinstance(value, str):
            continue
        if isinstance(value, bool) != (wanted is bool) or not isinstance(value, (int, float)) or wanted is str:
            raise UsageError(
                f"{where}: {key} = {value!r} is not a {wanted.__name__}", f"{key} = {getattr(Policy(), key)}"
            )
        if wanted is int and not isinstance(value, int):
            raise UsageError(f"{where}: {key} = {value!r} is not a whole number", f"{key} = {getattr(Policy(), key)}")
    changed = replace(policy, **values)
    _check_range(changed, where)
    return changed


def _check_range(policy: Policy, where: str) -> None:
    checks = (
        (0 < policy.margin < 1, "margin", "between 0 and 1 (2% is 0.02)"),
        (1e-5 <= policy.alpha <= 0.05, "alpha", "between 1e-5 and 0.05"),
        (2 <= policy.min_blocks <= policy.max_blocks <= 40, "max_blocks", "between 2 and 40 blocks"),
        (1e-5 <= policy.search_alpha <= 0.05, "search_alpha", "between 1e-5 and 0.05"),
        (1e-5 <= policy.sweep_alpha <= 0.05, "sweep_alpha", "between 1e-5 and 0.05"),
        (2 <= policy.max_rounds <= 100, "max_rounds", "between 2 and 100 rounds"),
        (2 <= policy.max_confirm_blocks <= 40, "max_confirm_blocks", "between 2 and 40 blocks"),
        (0 <= policy.extension_share < 1, "extension_share", "0 (no extension) or a share of alpha below 1"),
        (0 <= policy.pause_share <= 1 and policy.pause_max_s >= 0, "pause_share", "between 0 and 1"),
        (0 <= policy.build_luck_alpha <= 0.5, "build_luck_alpha", "between 0 (never asks) and 0.5"),
        (policy.confirm_builds in range(2, 121, 2), "confirm_builds", "an even number between 2 and 120"),
        (0 <= policy.slow_rate < 1, "slow_rate", "0 (not asked for) or a rate below 1"),
        (0 <= policy.floor_share < 1, "floor_share", "a share of the margin below 1"),
        (policy.clip_spreads == 0 or 1 <= policy.clip_spreads <= 10, "clip_spreads", "0 (off) or between 1 and 10"),
        (0 < policy.tost_alpha <= 0.1, "tost_alpha", "above 0 and at most 0.1"),
        (0 <= policy.futility < 1, "futility", "a chance below 1"),
        (0 <= policy.max_retries <= 10, "max_retries", "between 0 and 10"),
        (0 < policy.max_void_share < 1, "max_void_share", "between 0 and 1"),
        (0 < policy.fisher_alpha <= 0.05, "fisher_alpha", "above 0 and at most 0.05"),
        (0 < policy.carry_over_alpha <= 0.05, "carry_over_alpha", "above 0 and at most 0.05"),
        (1 <= policy.kept_builds <= 1000, "kept_builds", "between 1 and 1000"),
        (4 <= policy.max_bisect_trials <= 100_000, "max_bisect_trials", "between 4 and 100000"),
        (1 <= policy.max_failed_readings <= 10, "max_failed_readings", "between 1 and 10"),
        (0 <= policy.build_cache_gb <= 1e6, "build_cache_gb", "0 (none are kept) or up to a million gigabytes"),
        (0 <= policy.build_cache_hours <= 1e6, "build_cache_hours", "0 (none are kept) or up to a million hours"),
        (0 <= policy.budget_s < 1e9, "budget_s", "0 (none) or less than a billion seconds"),
        (policy.clocks in ("observe", "lock", "require"), "clocks", "observe, lock or require"),
        (policy.sm_clock_mhz >= 0, "sm_clock_mhz", "0 (by rule) or a clock in MHz"),
    )
    for holds, key, allowed in checks:
        if not holds:
            option = OPTIONS.get(key, f"--{key.replace('_', '-')}")
            step = option if where == COMMAND_LINE else f"{key} = {getattr(Policy(), key)}"
            raise UsageError(f"{where}: {key} = {getattr(policy, key)!r} is not {allowed}", step)


def _table(raw: Mapping[str, Any], key: str, path: Path) -> Mapping[str, Any]:
    table = raw.get(key, {})
    if not isinstance(table, dict):
        raise UsageError(f"{path}: [{key}] is not a table", f"correct {path}")
    return table


def _check_keys(table: Mapping[str, Any], known: tuple[str, ...], where: str) -> None:
    for key in table:
        if key not in known:
            near = difflib.get_close_matches(key, known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(known)}"
            raise UsageError(f"{where}: unknown key {key!r}; {hint}", f"correct {where.split()[0]}")


def _workload(name: str, table: Any, known: Mapping[str, Workload], where: str) -> Workload:
    if not isinstance(table, dict):
        raise UsageError(f"{where} is not a table", "docs/workloads.md shows one")
    _check_keys(table, _WORKLOAD_KEYS, where)
    if "based_on" in table:
        with _named(where):
            workload = replace(find(table["based_on"], known), name=name)
    else:
        workload = Workload(name=name, runner=table.get("runner", "command"), metrics=())
    if workload.runner not in RUNNERS:
        raise UsageError(f"{where}: runner {workload.runner!r} is none of {', '.join(RUNNERS)}", "perfguard workloads")
    with _named(where):
        plain: dict[str, Any] = {k: _text(table, k) for k in ("read", "setup") if k in table}
    plain |= {k: _seconds(table[k], f"{where} {k}") for k in ("timeout_s", "ready_timeout_s") if k in table}
    if "command" in table:
        plain["command"] = _command(table["command"], where)
    if "metrics" in table:
        plain["metrics"] = _metrics(table["metrics"], where)
    with _named(where):
        workload = with_params(replace(workload, **plain), _params(table))
        workload = with_modes(workload, _text(table, "modes"))
    _check_complete(workload, where)
    return workload


@contextmanager
def _named(where: str) -> Iterator[None]:
    """Puts the place in front of an error of somebody who does not know it."""
    try:
        yield
    except UsageError as error:
        raise UsageError(f"{where}: {error}", error.next_step) from error


def _check_complete(workload: Workload, where: str) -> None:
    if workload.runner == "command" and not workload.command:
        raise UsageError(f"{where}: no command", 'command = "python bench.py"')
    if not any(m.primary for m in workload.metrics):
        raise UsageError(f"{where}: no primary metric", 'metrics = [{name = "seconds", unit = "s", better = "lower"}]')


def _command(value: Any, where: str) -> tuple[str, ...]:
    if isinstance(value, str):
        try:
            return tuple(shlex.split(value))
        except ValueError as error:
            raise UsageError(f"{where}: command {value!r}: {error}", 'command = "python bench.py"') from None
    if isinstance(value, list) and all(isinstance(part, str) for part in value):
        return tuple(value)
    raise UsageError(f"{where}: command is neither a string nor a list of strings", 'command = "python bench.py"')


def _text(table: Mapping[str, Any], key: str) -> str:
    value = table.get(key, "")
    if not isinstance(value, str):
        raise UsageError(f"{key} = {value!r} is not a text", f'{key} = "..."')
    return value


def _params(table: Mapping[str, Any]) -> Mapping[str, Any]:
    params = table.get("params", {})
    if not isinstance(params, dict):
        raise UsageError(f"params = {params!r} is not a table", "params = {tp = 2}")
    return params


def _metrics(value: Any, where: str) -> tuple[Metric, ...]:
    if not isinstance(value, list):
        raise UsageError(f"{where}: metrics is not a list", 'metrics = [{name = "seconds", unit = "s"}]')
    return tuple(_metric(raw, where) for raw in value)


def _metric(raw: Any, where: str) -> Metric:
    if not isinstance(raw, dict) or "name" not in raw:
        raise UsageError(f"{where}: a metric is a table with name, unit, better", "docs/workloads.md shows one")
    _check_keys(raw, _METRIC_KEYS, where)
    if raw.get("better", "lower") not in ("lower", "higher"):
        raise UsageError(f"{where}: better = {raw['better']!r} is neither lower nor higher", 'better = "lower"')
    if "better" not in raw:
        refuse_unsaid_rate(str(raw["name"]), str(raw.get("unit", "")), 'better = "higher"', f"{where}: ")
    return Metric(**{"unit": "", "better": "lower", **raw})


def _seconds(value: Any, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < 1e9:
        raise UsageError(f"{where} = {value!r} is not a positive number of seconds", "timeout_s = 600")
    return float(value)


def parse_pairs(pairs: Iterable[str] | None, option: str) -> dict[str, str]:
    """["K=V", …] -> {"K": "V"}. Raises UsageError where the "=" or the key is missing."""
    result = {}
    for pair in pairs or ():
        key, sign, value = pair.partition("=")
        if not sign or not key:
            raise UsageError(f"{option} {pair!r} is not KEY=VALUE", f"{option} NAME=1")
        result[key] = value
    return result


def parse_params(pairs: Iterable[str] | None, option: str) -> dict[str, Any]:
    """["tp=2", "dtype=float32"] -> {"tp": 2, "dtype": "float32"}: JSON where it parses, else text."""
    return {key: _json_or_text(value) for key, value in parse_pairs(pairs, option).items()}


def _json_or_text(value: str) -> Any:
    try:
        return json.loads(value, parse_constant=_no_number)
    except ValueError:
        return value


def _no_number(word: str) -> Any:
    """NaN and Infinity are no JSON, though Python reads them."""
    raise ValueError(f"{word} is no JSON")


def parse_ratio(text: str, option: str) -> float:
    """ "2%" or "0.02" -> 0.02."""
    try:
        ratio = float(text[:-1]) / 100 if text.endswith("%") else float(text)
    except ValueError:
        raise UsageError(f"{option} {text!r} is neither a percentage nor a number", f"{option} 2%") from None
    if ratio >= 1 and not text.endswith("%"):
        raise UsageError(f"{option} {text} is {100 * ratio:g} %", f"{option} {text}%")
    return ratio


def parse_duration_s(text: str, option: str) -> float:
    """ "90", "90s", "20m", "4h" -> seconds."""
    units = {"s": 1, "m": 60, "h": 3600, "d": 86400}
    number, unit = (text[:-1], units[text[-1]]) if text and text[-1] in units else (text, 1)
    try:
        seconds = float(number) * unit
    except ValueError:
        seconds = -1.0
    if not 0 < seconds < 1e9:
        raise UsageError(f"{option} {text!r} is not a duration", f"{option} 20m")
    return seconds
