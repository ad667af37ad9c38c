"""What differs between two stored runs and can be toggled: factors, and the arm that a choice of them gives. Pure.

Must not measure, and must not read an environment: what is set here now is handed in.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any, Literal

from perfguard.records import Arm, Side

FactorKind = Literal["env", "param", "patch", "commit", "clock", "python"]
# Shown in place of a value that is not there.
ABSENT = "not set"
# What records hold in place of a secret, and of a value that ranks did not share.
REDACTED = "<redacted>"
BY_RANK = re.compile(r"0: .*, 1: ")


@dataclass(frozen=True, kw_only=True)
class Factor:
    """One thing in which A (fast) and B (slow) differ. A value of None: not set there.

    `why_not` says why it cannot be set, where `can_be_set` is False.
    """

    name: str
    kind: FactorKind
    value_a: Any
    value_b: Any
    can_be_set: bool = True
    why_not: str = ""


def shown_value(factor: Factor, value: Any) -> str:
    """The value for a person: a patch by the beginning of its hash."""
    if value is None or value == b"":
        return ABSENT
    if isinstance(value, bytes):
        return f"patch {sha256(value).hexdigest()[:12]}"
    return str(value)[:12] if factor.kind == "commit" else str(value)


def factors_between(a: Arm, b: Arm, set_now: Mapping[str, str]) -> tuple[Factor, ...]:
    """Every difference between two arms, most influential first: variables, parameters, patch, commit, python.

    `set_now`: the environment of this process. A variable that one side did not have cannot be taken away while it is
    set here, so that it cannot be toggled.
    """
    return (*_env(a.env, b.env, set_now), *_params(a.params, b.params), *_code(a, b))


def _env(a: Mapping[str, str], b: Mapping[str, str], set_now: Mapping[str, str]) -> Sequence[Factor]:
    found = []
    for name in _differing(a, b):
        why_not = _why_not(name, a.get(name), b.get(name), set_now)
        found.append(
            Factor(
                name=name,
                kind="env",
                value_a=a.get(name),
                value_b=b.get(name),
                can_be_set=not why_not,
                why_not=why_not,
            )
        )
    return found


def _why_not(name: str, a: str | None, b: str | None, set_now: Mapping[str, str]) -> str:
    if REDACTED in f"{a} {b}":
        return "its value is a secret and was not stored"
    if any(value is not None and BY_RANK.match(value) for value in (a, b)):
        return "it differed between ranks"
    if name in set_now and (a is None or b is None):
        return f"it is set here and cannot be taken away for one side: unset {name} first"
    return ""


def _params(a: Mapping[str, Any], b: Mapping[str, Any]) -> Sequence[Factor]:
    return [Factor(name=name, kind="param", value_a=a.get(name), value_b=b.get(name)) for name in _differing(a, b)]


def _code(a: Arm, b: Arm) -> Sequence[Factor]:
    pairs: tuple[tuple[str, FactorKind, Any, Any], ...] = (
        ("patch", "patch", a.revision.patch, b.revision.patch),
        ("commit", "commit", a.revision.commit, b.revision.commit),
        ("python", "python", a.python, b.python),
    )
    return [Factor(name=name, kind=kind, value_a=x, value_b=y) for name, kind, x, y in pairs if x != y]


def _differing(a: Mapping[str, Any], b: Mapping[str, Any]) -> list[str]:
    return [name for name in sorted(a.keys() | b.keys()) if a.get(name) != b.get(name)]


def arm_with(b: Arm, a: Arm, factors: Sequence[Factor], as_in_a: Collection[int], side: Side) -> Arm:
    """Arm B with the factors at these positions set to A's values. Only what can be set may be named.

    What differs and cannot be set stays as it is in B. Commit and patch are the caller's to make: a patch of one
    commit need not apply to another, so `revision` follows the commit, and its patch the patch.
    """
    env, params = dict(b.env), dict(b.params)
    revision, python = b.revision, b.python
    for position in sorted(as_in_a):
        factor = factors[position]
        match factor.kind:
            case "env":
                _put(env, factor)
            case "param":
                _put(params, factor)
            case "python":
                python = a.python
            case "commit":
                revision = replace(a.revision, patch=revision.patch)
            case "patch":
                revision = replace(revision, patch=a.revision.patch)
            case "clock":
                raise ValueError(f"{factor.name}: a clock belongs to the campaign and is no factor of an arm")
    return Arm(side=side, revision=revision, env=env, params=params, python=python)


def _put(values: dict[str, Any], factor: Factor) -> None:
    if factor.value_a is None:
        values.pop(factor.name, None)
    else:
        values[factor.name] = factor.value_a
