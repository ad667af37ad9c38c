"""What was measured, as it is asked for on the command line: words before they are quoted for a shell. Pure."""

import json
from collections.abc import Mapping, Sequence
from typing import Any


def what_words(workload: Mapping[str, Any], metrics: Sequence[Mapping[str, Any]]) -> list[str]:
    """A command with its metric, or a workload by name with parameters and modes: all of them, since a perfguard.toml
    may give the name others.

    `workload` and `metrics` as in the JSON of a comparison; verdicts of an older perfguard hold neither setup nor how
    the metric was read. A command of one's own ends the line.
    """
    setup = ["--setup", str(workload["setup"])] if workload.get("setup") else []
    if workload.get("command") and len(metrics) == 1:
        return [*_metric(metrics[0], str(workload.get("read", ""))), *setup, "--", *map(str, workload["command"])]
    words = ["-w", str(workload["name"]), *setup]
    for name, value in workload.get("params", {}).items():
        words += ["--set", f"{name}={parameter(value)}"]
    modes = workload.get("modes", ())
    return [*words, "--modes", str(modes[0])] if len(modes) == 1 else words


def _metric(metric: Mapping[str, Any], read: str) -> list[str]:
    """None for the wall time, which is measured where no metric is named."""
    if metric["name"] == "wall" and read in ("", "wall"):
        return []
    words = ["--metric", str(metric["name"]), "--better", str(metric["better"])]
    words += ["--unit", str(metric["unit"])] if metric["unit"] else []
    return [*words, "--read", read] if read not in ("", "json") else words


def parameter(value: Any) -> str:
    """As --set reads it."""
    return value if isinstance(value, str) else json.dumps(value)
