"""The measured numbers of measure.py as docs/calibration-history.md."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

TARGET = Path(__file__).resolve().parents[2] / "docs" / "calibration-history.md"
NUM_GPU = 56

HEAD = """# How often the history raises a false alarm, and what it finds

*Written by `python -m benchmarks.history.measure`; seed {seed}, {count} simulated series a scenario, each real series
in {orders} random orders. Otava is the real package (apache-otava 0.8.0, its defaults). A series has 200 points.*

A change point in a series alarms nobody by itself: it starts a bisect over its window, whose *nothing changed*
hypothesis and confirmation decide. A detector that fires often would burn nights all the same.
"""


def false_alarms(rows: Sequence[tuple[str, float, tuple[float, float], float | None]]) -> str:
    lines = ["## Series without a change", "", "Share of series with any change point.", ""]
    lines += ["| noise | perfguard | 95 % limits | Otava |", "|---|---|---|---|"]
    lines += [f"| {n} | {s:.1%} | {low:.1%} to {high:.1%} | {_share(peer)} |" for n, s, (low, high), peer in rows]
    return "\n".join(lines)


def steps(found: Mapping[str, Any], *, num_series: int) -> str:
    """The table of found steps, of the 56 benchmarks of a GPU package."""
    nulls, alphas = found["null"], found["alphas"]
    lines = [
        "## Steps in real GPU series",
        "",
        f"{NUM_GPU} benchmarks of a GPU package's nightly history, last 200 values each, in random order",
        f"({num_series} series): their own noise and surely no change. Then everything from two thirds on is raised by",
        "a step; found means a change point within five points of it. Numbers of 56, the mean over orders.",
        "",
        "| | false alarms | " + " | ".join(key for key in found if key.endswith("%")) + " |",
        "|---|---|---|---|---|---|",
    ]
    names = {"ours": f"perfguard, level {alphas['ours']:g}", "equal": f"perfguard, level {alphas.get('equal', 0):g}"}
    for who in alphas:
        lines.append(f"| {names[who]} | {nulls[alphas[who]]:.1%} | {_of_56(found, who)} |")
    if found["peer null"] is not None:
        lines.append(f"| Otava | {found['peer null']:.1%} | {_of_56(found, 'peer')} |")
    return "\n".join(lines)


def expected(rows: Sequence[tuple[str, int, int, int | None]]) -> str:
    lines = ["## Counts that a database vendor expects", "", "| series | expected | perfguard | Otava | never |"]
    lines += ["|---|---|---|---|---|"]
    lines += [f"| {name} | {count} | {ours} | {_count(peer)} | 0 |" for name, count, ours, peer in rows]
    return "\n".join(lines)


def annotated(rows: Sequence[tuple[str, Mapping[str, tuple[float, float]]]]) -> str:
    """F1 and cover, and their means over all series."""
    detectors = list(rows[0][1])
    title = {"ours": "perfguard", "otava": "Otava", "never": "never firing"}
    lines = ["## Series marked by people", "", "F1 within five points / cover of segments; 1 is perfect.", ""]
    lines += ["| series | " + " | ".join(title[d] for d in detectors) + " |", "|---" * (len(detectors) + 1) + "|"]
    lines += [f"| {name} | " + " | ".join(_pair(scores[d]) for d in detectors) + " |" for name, scores in rows]
    means = {d: tuple(sum(scores[d][i] for _, scores in rows) / len(rows) for i in (0, 1)) for d in detectors}
    lines += ["| **mean** | " + " | ".join(_pair(means[d]) for d in detectors) + " |"]
    return "\n".join(lines)


def speed(seconds: float) -> str:
    return f"## Speed\n\n50 series of 10,000 points with two steps each: {seconds:.1f} s of one processor."


def write(parts: Sequence[str], *, seed: int, count: int, orders: int) -> None:
    head = HEAD.format(seed=seed, count=count, orders=orders)
    TARGET.write_text("\n\n".join([head.strip(), *parts]) + "\n", encoding="utf-8")
    print(f"wrote {TARGET}")


def _of_56(found: Mapping[str, Any], who: str) -> str:
    return " | ".join(f"{found[key][who] * NUM_GPU:.0f}" for key in found if key.endswith("%"))


def _share(value: float | None) -> str:
    return "not run" if value is None else f"{value:.1%}"


def _count(value: int | None) -> str:
    return "not run" if value is None else str(value)


def _pair(scores: Sequence[float]) -> str:
    return f"{scores[0]:.2f} / {scores[1]:.2f}"
