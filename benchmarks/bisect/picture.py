"""Draws the ends of simulated searches by tool, as an SVG. Needs matplotlib (the optional extra "bench")."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.bisect.cells import OURS, Cell, Tally
from benchmarks.bisect.page import PEER_CASES, truth
from benchmarks.bisect.peers import TOOLS

# Colours that stay apart for colour-blind eyes, each with a hatch of its own.
LOOKS = {"right": ("#0072b2", ""), "false": ("#d55e00", "////"), "undecided": ("#bbbbbb", "..")}


def draw(tallies: Mapping[str, Tally], path: Path) -> None:
    """One panel a case, one bar a tool: right, false and undecided searches in percent."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams.update({"svg.hashsalt": "perfguard", "font.size": 8})
    from matplotlib import pyplot

    figure, panels = pyplot.subplots(2, 4, figsize=(11, 5), sharex=True, sharey=True)
    for panel, (scenario, effect) in zip(panels.flat, PEER_CASES, strict=True):
        panel.set_title(f"{scenario}, {truth(effect)}")
        for row, tool in enumerate(reversed((*TOOLS, OURS))):
            tally = tallies.get(Cell(num=64, effect=effect, scenario=scenario, tool=tool).key)
            if tally:
                _bar(panel, row, tally)
        panel.set_yticks(range(len(TOOLS) + 1), list(reversed((*TOOLS, OURS))))
        panel.set_xlim(0, 100)
    for panel in panels[1]:
        panel.set_xlabel("searches, %")
    handles, labels = panels.flat[0].get_legend_handles_labels()
    unique = dict(zip(labels, handles, strict=True))
    figure.legend(unique.values(), unique.keys(), ncols=3, loc="lower center")
    figure.tight_layout(rect=(0, 0.06, 1, 1))
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)
    print(f"written: {path}")


def _bar(panel: Any, row: int, tally: Tally) -> None:
    shares = {"right": tally.percent("right"), "false": tally.percent("false")}
    shares["undecided"] = max(0.0, 100.0 - sum(shares.values()))
    left = 0.0
    for name, share in shares.items():
        colour, hatch = LOOKS[name]
        panel.barh(row, share, left=left, color=colour, hatch=hatch, edgecolor="white", label=name)
        left += share
