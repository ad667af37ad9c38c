"""How a value is found in what a command printed, and whether it is a number that can be compared. Pure."""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from perfguard.errors import UsageError
from perfguard.records import Metric, Reason

SHOWN = 120
EXAMPLE = r"--read 'regex:took ([\d.]+) s'"


@dataclass(frozen=True, kw_only=True)
class Readings:
    """Values by metric, and a reason for each metric that has none."""

    values: Mapping[str, float]
    reasons: tuple[Reason, ...] = ()


def check_read(read: str, metrics: tuple[Metric, ...]) -> None:
    """Raises UsageError for a way of reading that cannot give these metrics."""
    if read not in ("wall", "json") and not read.startswith("regex:"):
        raise UsageError(f"--read {read!r} is none of wall, json, regex:PATTERN", "perfguard compare --help")
    if read != "json" and len(metrics) > 1:
        raise UsageError(f"--read {read!r} gives one metric, {len(metrics)} are declared", "--read json")
    if read.startswith("regex:"):
        _pattern(read)


def read_values(read: str, metrics: tuple[Metric, ...], *, stdout: str, wall_s: float) -> Readings:
    """`read`: wall (seconds the command took), json (last line with text on stdout), regex:PATTERN (last match)."""
    if read == "wall":
        return judge_values(metrics, {metrics[0].name: wall_s}, seen="")
    if read == "json":
        return _from_json(metrics, stdout)
    matches = list(_pattern(read).finditer(stdout))
    if not matches:
        seen = f"{read.removeprefix('regex:')!r} matches nothing in the output, which ends with {_end(stdout)}"
        return judge_values(metrics, {}, seen=seen)
    found = _number(matches[-1].group(1))
    return judge_values(metrics, {metrics[0].name: found}, seen="")


def judge_values(metrics: tuple[Metric, ...], found: Mapping[str, Any], *, seen: str) -> Readings:
    """Keep what is a finite number above 0 (a count that decides nothing may be 0 or less); say what each other was."""
    values: dict[str, float] = {}
    reasons = []
    for metric in metrics:
        if metric.name not in found:
            known = f"it holds {', '.join(map(str, found)) or 'nothing'}"
            reasons.append(Reason(code="metric_missing", text=f"metric {metric.name} is missing: {seen or known}"))
            continue
        value = found[metric.name]
        if not _is_number(value):
            text = f"metric {metric.name} is {_shown(value)}, not a finite number"
            reasons.append(Reason(code="not_a_number", text=text))
        elif value <= 0 and (metric.primary or not metric.exact):
            reasons.append(Reason(code="not_positive", text=f"metric {metric.name} is {value:g}, not above 0"))
        else:
            values[metric.name] = float(value)
    return Readings(values=values, reasons=tuple(reasons))


def _from_json(metrics: tuple[Metric, ...], stdout: str) -> Readings:
    line = next((line for line in reversed(stdout.splitlines()) if line.strip()), "")
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        seen = f"the last line of stdout is no JSON object but {_shown(line)}" if line else "stdout is empty"
        return judge_values(metrics, {}, seen=seen)
    return judge_values(metrics, found, seen="")


def _pattern(read: str) -> re.Pattern[str]:
    text = read.removeprefix("regex:")
    try:
        pattern = re.compile(text, re.MULTILINE)
    except re.error as error:
        raise UsageError(f"--read {read!r} is no regular expression: {error}", EXAMPLE) from error
    if pattern.groups < 1:
        raise UsageError(f"--read {read!r} has no group around the number", EXAMPLE)
    return pattern


def _number(text: str | None) -> float | str | None:
    try:
        return float(text or "")
    except ValueError:
        return text


def _is_number(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    try:
        return math.isfinite(float(value))
    except OverflowError:
        return False


def _end(text: str) -> str:
    return _shown(text.rstrip()[-SHOWN:]) if text.strip() else "nothing"


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= SHOWN else text[: SHOWN - 1] + "…"
