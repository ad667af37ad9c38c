"""What `[nightly]` of perfguard.toml and the command line ask of a night. Checks values; measures nothing."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from perfguard.config import Config, parse_duration_s
from perfguard.errors import UsageError
from perfguard.policy import Policy
from perfguard.records import Workload
from perfguard.workloads import find

EXAMPLE = 'workloads = ["moe-eagle3"]'
T = TypeVar("T", str, bool)


@dataclass(frozen=True, kw_only=True)
class Wishes:
    """`reference`: a revision of perfguard.toml, "" where `perfguard pin` rules. `budget_s`: of the whole night, 0 for
    none. `is_searching`: a suspicion starts a bisect.
    """

    workloads: tuple[Workload, ...]
    policy: Policy
    reference: str = ""
    budget_s: float = 0.0
    only_changed: bool = False
    is_searching: bool = True


def wishes_of(
    config: Config, *, names: Sequence[str] = (), budget: str = "", only_changed: bool = False, no_bisect: bool = False
) -> Wishes:
    """The command line goes before the file. Raises UsageError naming key and value."""
    table = config.nightly
    where = f"{config.path or 'perfguard.toml'} [nightly]"
    chosen = list(names) or _names(table, where)
    if not chosen:
        raise UsageError(f"{where} names no workloads", f"printf '[nightly]\\n{EXAMPLE}\\n' >> perfguard.toml")
    text = budget or _typed(table, "budget", str, "", where)
    return Wishes(
        workloads=tuple(find(name, config.workloads) for name in dict.fromkeys(chosen)),
        policy=config.policy,
        reference=_typed(table, "reference", str, "", where),
        budget_s=parse_duration_s(text, "--budget" if budget else f"{where} budget") if text else 0.0,
        only_changed=only_changed or _typed(table, "only_changed", bool, False, where),
        is_searching=not no_bisect and _typed(table, "bisect", bool, True, where),
    )


def _names(table: Mapping[str, Any], where: str) -> list[str]:
    names = table.get("workloads", [])
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise UsageError(f"{where}: workloads = {names!r} is not a list of names", EXAMPLE)
    return names


def _typed(table: Mapping[str, Any], key: str, kind: type[T], default: T, where: str) -> T:
    value = table.get(key, default)
    if not isinstance(value, kind):
        examples = {"reference": '"v1.0"', "budget": '"4h"', "only_changed": "true", "bisect": "false"}
        raise UsageError(f"{where}: {key} = {value!r} is not a {kind.__name__}", f"{key} = {examples[key]}")
    return value
