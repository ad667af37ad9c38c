"""NAME=a,b,c of the command line -> the settings a sweep tries. Pure: reads no environment and measures nothing."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from perfguard.config import parse_pairs, parse_params
from perfguard.errors import UsageError
from perfguard.stats.plan import LETTERS

EXAMPLE = "perfguard sweep --env NCCL_PROTO=LL,Simple -w moe-eagle3"


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What one setting puts on top of the common arm: variables and workload parameters."""

    env: Mapping[str, str] = field(default_factory=dict)
    params: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Axis:
    """A variable or a parameter with the values that are tried. None: not set, as it is without the sweep."""

    name: str
    is_env: bool
    values: tuple[Any, ...]


def axes(env: Iterable[str] | None, params: Iterable[str] | None) -> tuple[Axis, ...]:
    """["NCCL_PROTO=LL,Simple"] -> axes; an empty value stands for "not set". Raises UsageError.

    A parameter that is JSON with a comma in it is one value only where it is quoted or bracketed as JSON.
    """
    found = [
        Axis(name=name, is_env=True, values=tuple(part or None for part in text.split(",")))
        for name, text in parse_pairs(env, "--env").items()
    ]
    for name, text in parse_pairs(params, "--set").items():
        values = tuple(parse_params([f"v={part}"], "--set")["v"] if part else None for part in _parts(text))
        found.append(Axis(name=name, is_env=False, values=values))
    for axis in found:
        if len({json.dumps(value) for value in axis.values}) < len(axis.values):
            raise UsageError(f"{axis.name} names a value twice", EXAMPLE)
    return tuple(found)


def _parts(text: str) -> list[str]:
    return [text] if text[:1] in ('"', "[", "{") else text.split(",")


def combinations(found: Sequence[Axis], *, one_at_a_time: bool) -> tuple[Setting, ...]:
    """All combinations; or the first value of every axis, then each other value alone. Raises UsageError."""
    firsts = tuple(axis.values[0] for axis in found)
    if one_at_a_time:
        others = [
            (*firsts[:position], value, *firsts[position + 1 :])
            for position, axis in enumerate(found)
            for value in axis.values[1:]
        ]
        rows = [firsts, *others]
    else:
        rows = list(product(*(axis.values for axis in found)))
    if not 2 <= len(rows) <= len(LETTERS):
        raise UsageError(
            f"{len(rows)} setting{'s' if len(rows) != 1 else ''}: a sweep compares 2 to {len(LETTERS)}", EXAMPLE
        )
    return tuple(_setting(found, row) for row in rows)


def _setting(found: Sequence[Axis], row: Sequence[Any]) -> Setting:
    chosen = [(axis, value) for axis, value in zip(found, row, strict=True) if value is not None]
    return Setting(
        env={axis.name: value for axis, value in chosen if axis.is_env},
        params={axis.name: value for axis, value in chosen if not axis.is_env},
    )


def refuse_already_set(found: Sequence[Axis], set_now: Mapping[str, str]) -> None:
    """Raises UsageError where "not set" is to be tried of a variable that this environment sets."""
    for axis in found:
        if axis.is_env and None in axis.values and axis.name in set_now:
            raise UsageError(f"{axis.name} is to be tried not set, and is set here", f"unset {axis.name}")


def label(setting: Setting) -> str:
    """NCCL_PROTO=LL NCCL_ALGO=Ring; "(nothing set)" where nothing is put on top."""
    return " ".join(f"{name}={value}" for name, value in {**setting.env, **setting.params}.items()) or "(nothing set)"
