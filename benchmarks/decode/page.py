"""The results as a page of Markdown. Pure."""

from collections.abc import Mapping, Sequence
from statistics import mean, median, stdev
from typing import Any

# What had to be reached on one H200, at 12 layers of Qwen3-30B-A3B widths, batch 1.
TARGETS = {"plain": 1.8, "verify": 2.2}
SPREAD_TARGET = 0.001


def page(found: Mapping[str, Any]) -> str:
    launches = found["launches"]
    parts = [title(found)]
    if launches:
        parts += [steps(launches, found.get("transformers")), cycle(launches), spread(launches)]
    parts += [checks(found.get("kernels")), alone(found.get("kernels")), notes(found["notes"])]
    return "\n\n".join(part for part in parts if part) + "\n"


def title(found: Mapping[str, Any]) -> str:
    launches = found["launches"]
    about = f"{launches[0]['device']}, torch {launches[0]['versions']['torch']}" if launches else "no launch ended well"
    widths = "tiny widths: this tries the program and measures nothing" if found["asked"]["tiny"] else (
        f"Qwen3-30B-A3B widths, {found['asked']['layers']} layers"
    )  # fmt: skip
    return f"# Decode steps\n\n{about}; {widths}, bf16, batch 1, prompts of 64 tokens."


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(row) + " |" for row in (head, *rows)]
    return "\n".join([lines[0], "|" + "---|" * len(head), *lines[1:]])


def steps(launches: Sequence[Mapping[str, Any]], other: Mapping[str, Any] | None) -> str:
    """A step's time over the floor: bytes it must move at the measured number of experts, at the speed of a copy."""
    theirs = {step["rows"]: step for step in (other or {}).get("steps", [])}
    rows = []
    for name, mode, num_rows in (("plain, 1 token", "plain", 1), ("verify, 3 tokens", "eagle3", 3)):
        marks = [launch["counts"][mode]["marks"] for launch in launches]
        floor = median(mark["roofline"].get("floor_s", 0.0) for mark in marks)
        distinct = median(mark.get("distinct_experts", 0.0) for mark in marks)
        metric, target = ("plain_token_s", "plain") if mode == "plain" else ("eagle3_verify_s", "verify")
        seconds = median(launch["values"][metric] for launch in launches)
        compared = [theirs[num_rows]["s"], theirs[num_rows]["s"] / floor] if num_rows in theirs and floor else []
        ratio = f"{seconds / floor:.2f}" if floor else "–"
        rows.append([
            name, f"{distinct:.2f}", ms(floor), ms(seconds), ratio, f"{TARGETS[target]}",
            ms(compared[0]) if compared else "–", f"{compared[1]:.2f}" if compared else "–",
        ])  # fmt: skip
    head = ["step", "experts a layer", "floor ms", "ms", "× floor", "wanted ≤", "transformers ms", "× floor"]
    version = f" transformers {other['version']}, experts {other['experts']}." if other else ""
    return f"## Steps\n\nMedians of {len(launches)} launches.{version}\n\n" + table(head, rows)


def cycle(launches: Sequence[Mapping[str, Any]]) -> str:
    values = {name: median(launch["values"][name] for launch in launches) for name in launches[0]["values"]}
    gain = values["eagle3_throughput"] / values["plain_throughput"]
    break_even = values["eagle3_cycle_s"] / values["plain_token_s"]
    marks = launches[0]["counts"]["eagle3"]["marks"]
    rows = [[name, ms(marks[name])] for name in sorted(marks) if name.endswith("_s") and isinstance(marks[name], float)]
    found = (
        f"{values['eagle3_throughput']:.1f} token/s at accept length {values['eagle3_accept_length']:.3f}, "
        f"plain {values['plain_throughput']:.1f} token/s: {gain:.3f} times plain. "
        f"Cycle {ms(values['eagle3_cycle_s'])} ms, break-even accept length {break_even:.2f}."
    )
    return "## EAGLE-3 cycle, K = 2\n\n" + found + "\n\n" + table(["part, with time stamps", "ms"], rows)


def spread(launches: Sequence[Mapping[str, Any]]) -> str:
    """Standard deviation over mean of the launches' own medians."""
    if len(launches) < 2:
        return ""
    rows = []
    for name in ("plain_token_s", "eagle3_cycle_s"):
        values = [launch["values"][name] for launch in launches]
        share = stdev(values) / mean(values)
        rows.append([name, str(len(values)), f"{100 * share:.3f} %", f"{100 * SPREAD_TARGET} %"])
    same = {mode: len({launch["digests"][mode] for launch in launches}) for mode in launches[0]["digests"]}
    said = ", ".join(f"{mode} {count}" for mode, count in same.items())
    head = ["median of a launch", "launches", "CV", "wanted ≤"]
    return f"## A/A launches\n\n{table(head, rows)}\n\nDifferent outputs among them: {said}."


def checks(kernels: Mapping[str, Any] | None) -> str:
    if not kernels or not kernels["checks"]:
        return ""
    rows = [[check["kernel"], str(check["rows"]), f"{check['difference']:.1e}"] for check in kernels["checks"]]
    head = ["kernel", "rows", "largest difference / largest value"]
    return "## Kernels against PyTorch (fp32 sums, same inputs)\n\n" + table(head, rows)


def alone(kernels: Mapping[str, Any] | None) -> str:
    if not kernels or not kernels["alone"]:
        return ""
    rows = [
        [row["kernel"], str(row["rows"]), f"{1e6 * row['s']:.1f}", f"{row['bytes_per_s'] / 1e9:.0f}"]
        for row in kernels["alone"]
    ]
    copied = kernels["copy_bytes_per_s"] / 1e9
    return f"## Kernels alone (a copy moves {copied:.0f} GB/s)\n\n" + table(["kernel", "rows", "µs", "GB/s"], rows)


def notes(lines: Sequence[str]) -> str:
    return "## Not measured\n\n" + "\n".join(f"- {line}" for line in lines) if lines else ""


def ms(seconds: float) -> str:
    return f"{1000 * seconds:.3f}"
