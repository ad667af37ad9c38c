"""The commands that measure a comparison again: with perfguard, and with nothing but git and a shell. Pure.

Must quote whatever others wrote, so that a line can be pasted into a shell as it stands.
"""

import shlex
from collections.abc import Mapping
from typing import Any

from perfguard.commands import parameter, what_words
from perfguard.report import foreign
from perfguard.trial.secrets import REDACTED

SIDES = ("base", "head")


def with_perfguard(comparison: Mapping[str, Any]) -> list[str]:
    """One line of `perfguard compare` or `speculate`; before it, as a comment, what it cannot bring back."""
    base, head = comparison["base"], comparison["head"]
    are_modes = bool(base.get("mode"))
    words = ["perfguard", "speculate" if are_modes else "compare", str(base["commit"])[:12]]
    words += [] if are_modes else [str(head["commit"])[:12]]
    words += ["--margin", f"{comparison['margin'] * 100:g}%", "--alpha", f"{comparison['alpha']:g}"]
    # Parameters say that it is attached or a slice, and speculate has no choice of scopes.
    if (scope := comparison.get("scope")) in ("in-process", "resident") and not are_modes:
        words += ["--scope", str(scope)]
    if pinned := comparison.get("method", {}).get("pinned_args"):
        words += ["--pin-args", str(pinned)]
    for name, value in base.get("env", {}).items() if are_modes else ():
        words += ["--env", name if value == REDACTED else f"{name}={value}"]
    for side in SIDES if not are_modes else ():
        words += _of_side(side, comparison[side])
    words += what_words(comparison["workload"], comparison["metrics"])
    patched = [side for side in SIDES if comparison[side].get("patch_sha256")]
    lines = [f"# {' and '.join(patched)}: with uncommitted changes, kept in the results database"] if patched else []
    return [foreign.one_line(line) for line in (*lines, shlex.join(words))]


def by_hand(comparison: Mapping[str, Any]) -> list[str]:
    """Shell lines that need nothing but git and the command itself."""
    workload = comparison["workload"]
    lines = []
    for side in SIDES:
        arm = comparison[side]
        lines += [f"# {side}", shlex.join(["git", "checkout", str(arm["commit"])])]
        if arm.get("patch_sha256"):
            lines.append("# (with uncommitted changes on top; not attached)")
        if workload.get("setup"):
            lines.append(str(workload["setup"]))
        run = shlex.join(workload["command"]) if workload.get("command") else f"# {_runner(workload, arm)}"
        lines.append(" ".join([*(_assigned(name, value) for name, value in arm.get("env", {}).items()), run]))
    lines.append("# repeat both in random order, several times, each in a fresh process")
    return [foreign.one_line(line) for line in lines]


def _of_side(side: str, arm: Mapping[str, Any]) -> list[str]:
    words: list[str] = []
    for name, value in arm.get("env", {}).items():
        # The value of a secret is never stored: it is taken from the environment again.
        words += [f"--{side}-env", name if value == REDACTED else f"{name}={value}"]
    for name, value in arm.get("params", {}).items():
        words += [f"--{side}-set", f"{name}={parameter(value)}"]
    return [*words, f"--{side}-python", str(arm["python"])] if arm.get("python") else words


def _assigned(name: str, value: Any) -> str:
    return f'{name}="${name}"' if value == REDACTED else f"{name}={shlex.quote(str(value))}"


def _runner(workload: Mapping[str, Any], arm: Mapping[str, Any]) -> str:
    params = {**workload.get("params", {}), **arm.get("params", {})}
    said = ", ".join(f"{key}={value}" for key, value in params.items() if value != "")
    return f"workload {workload['name']}: {said}"
