"""The three pictures of docs/calibration.md, as SVG. Draws what it is given; computes nothing but limits.

Colours are Okabe and Ito's, which colour-blind people tell apart, and every series has a marker of its own. The
background is opaque, so that a page in dark mode shows the same picture.
"""

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.verdicts.catalogue import EFFECTS, FIRST_GROUP, POWER_SCENARIOS, SCENARIOS, TRUE_CHANGES, USUAL_SD
from benchmarks.verdicts.cells import CHANGED, REPORTS, Cell, PeerCell, Results, Tally
from benchmarks.verdicts.limits import NORMAL, limits
from benchmarks.verdicts.peers import PEERS, fresh_launches
from perfguard.policy import Policy
from perfguard.records import Outcome

# Colour, marker, and whose marks they are. One kind of rule, one look: names are in the table.
OURS = ("#0072B2", "o")
FAMILIES: dict[str, tuple[str, str, Sequence[str]]] = {
    "tests on launches, side after side: pyperf, benchstat, Welch (3), hyperfine bars": (
        "#D55E00",
        "^",
        [
            "pyperf compare_to",
            "benchstat U test",
            "Welch's t, 5 a side",
            "Welch's t, 10 a side",
            "Welch's t, 30 a side",
            "hyperfine bars",
        ],
    ),
    "one process a side: google/benchmark, criterion, nvbench (2)": (
        "#CC79A7",
        "s",
        ["google/benchmark U test", "criterion bootstrap", "nvbench-compare", "nvbench-compare-robust"],
    ),
    "stored history: bencher, conbench, otava": ("#009E73", "D", ["bencher t", "conbench z", "otava"]),
    "thresholds: one run each 5 %, asv 10 %, github-action-benchmark 200 %": (
        "#5F5F5F",
        "v",
        ["one run each, 5 %", "asv continuous", "github-action-benchmark, 200 %"],
    ),
}
CURVES: dict[str, tuple[str, str]] = {
    "Welch's t, 10 a side": ("#D55E00", "^"),
    "pyperf compare_to": ("#E69F00", "v"),
    "hyperfine bars": ("#7A4B00", "P"),
    "criterion bootstrap": ("#CC79A7", "s"),
    "bencher t": ("#009E73", "D"),
    "one run each, 5 %": ("#5F5F5F", "X"),
    "asv continuous": ("#111111", "*"),
}
TRIAL_NOISES = {0.003: ("#009E73", "s"), 0.01: ("#0072B2", "o"), 0.02: ("#E69F00", "^"), 0.05: ("#CC79A7", "D")}
SHOWN_COSTS = (
    "pyperf compare_to",
    "benchstat U test",
    "hyperfine bars",
    "Welch's t, 5 a side",
    "asv continuous",
)
ANSWERS = (Outcome.EQUIVALENT, *REPORTS)
PAD = 0.1  # inches
FALSE_ALARMS, POWER, TRIALS = (f"calibration_{name}.svg" for name in ("false_alarms", "power", "trials"))


def require_matplotlib() -> None:
    """Raises SystemExit with what to install where it is missing."""
    if importlib.util.find_spec("matplotlib") is None:
        raise SystemExit(
            "the pictures of docs/calibration.md need matplotlib, which is not in requirements.lock\n"
            "install it with `.venv/bin/pip install 'matplotlib>=3.8'`, or pass --no-pictures"
        )


def draw(results: Results, folder: Path) -> list[Path]:
    """Writes the three pictures and returns where they are."""
    import matplotlib

    matplotlib.use("svg")
    look = {"svg.fonttype": "none", "svg.hashsalt": "perfguard", "font.size": 10, "axes.spines.top": False}
    look |= {"axes.spines.right": False, "figure.facecolor": "white", "savefig.facecolor": "white"}
    with matplotlib.rc_context(look):
        figures = {FALSE_ALARMS: _false_alarms(results), POWER: _power(results), TRIALS: _trials(results)}
        for name, figure in figures.items():
            figure.savefig(folder / name, metadata={"Date": None})
    return [folder / name for name in figures]


def _figure(width: float, height: float, columns: int = 1) -> tuple[Any, Any]:
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasSVG(figure)
    figure.get_layout_engine().set(w_pad=PAD, h_pad=PAD)
    return figure, figure.subplots(1, columns, sharey=True)


def _false_alarms(results: Results) -> Any:
    figure, axes = _figure(9.5, 6.6)
    names = [name for name in SCENARIOS if name not in TRUE_CHANGES]
    for label, (colour, marker, peers) in FAMILIES.items():
        for i, name in enumerate(names):
            for j, peer in enumerate(peers):
                cell = PeerCell(peer=peer, scenario=name, effect=0.0, sd=USUAL_SD)
                spread = 0.16 - 0.32 * j / max(1, len(peers) - 1)
                _mark(axes, results.peers[cell.key], [CHANGED], i + spread, colour, marker)
        axes.plot([], [], marker, color=colour, label=label)
    for i, name in enumerate(names):
        tally = results.ours[Cell(scenario=name, effect=0.0, sd=USUAL_SD).key]
        low, high = limits(tally, *REPORTS)
        axes.plot([max(low, 0.005), high], [i, i], color=OURS[0], linewidth=2)
        _mark(axes, tally, REPORTS, i, *OURS, size=9)
    axes.plot([], [], OURS[1], color=OURS[0], markersize=9, label="perfguard, with its 95 % interval")
    _promise(axes)
    axes.set(xscale="log", xlim=(0.005, 130), ylim=(len(names) - 0.5, -1), yticks=range(len(names)), yticklabels=names)
    axes.set_xlabel(
        "comparisons called changed although nothing changed, % (hollow: none seen, drawn at the upper limit)"
    )
    _percent_axis(axes.xaxis, [0.01, 0.1, 1, 10, 100])
    axes.grid(axis="both", color="#DDDDDD", linewidth=0.6)
    figure.legend(loc="outside lower left", frameon=False, fontsize=9)
    return figure


def _promise(axes: Any) -> None:
    """Where a false report stops being allowed, and from which row on nothing was promised."""
    promise, last = 100 * Policy().alpha, len(FIRST_GROUP) - 0.5
    axes.axvline(promise, color="#333333", linestyle="--", linewidth=1)
    axes.text(promise * 1.1, -0.75, f"promise: {promise:g} %", color="#333333", va="center")
    axes.axhline(last, color="#333333", linewidth=0.8)
    axes.text(0.0055, last + 0.3, "below: outside the promise", color="#333333", fontsize=8.5, va="center")


def _mark(
    axes: Any, tally: Tally, outcomes: Sequence[str], y: float, colour: str, marker: str, size: float = 6
) -> None:
    """A filled mark at the rate seen, or a hollow one at the upper limit where none was."""
    is_seen = tally.count(*outcomes) > 0
    x = tally.percent(*outcomes) if is_seen else limits(tally, *outcomes)[1]
    face = colour if is_seen else "white"
    axes.plot([x], [y], marker, color=colour, markerfacecolor=face, markersize=size, alpha=0.9)


def _power(results: Results) -> Any:
    figure, both = _figure(9.5, 4.9, columns=2)
    for axes, scenario in zip(both, POWER_SCENARIOS, strict=True):
        for peer, (colour, marker) in CURVES.items():
            cells = (PeerCell(peer=peer, scenario=scenario, effect=e, sd=USUAL_SD) for e in EFFECTS)
            shares = [results.peers[cell.key].percent(CHANGED) for cell in cells]
            axes.plot(_percents(), shares, marker + "-", color=colour, linewidth=1.2, markersize=6, label=peer)
        own = [results.ours[Cell(scenario=scenario, effect=e, sd=USUAL_SD).key] for e in EFFECTS]
        shares = [tally.percent(*REPORTS) for tally in own]
        axes.plot(_percents(), shares, OURS[1] + "-", color=OURS[0], linewidth=3, markersize=8, label="perfguard")
        axes.set(title=f"{'quiet machine' if scenario == 'iid' else scenario}, launch sd 1 %", ylim=(-3, 109))
        axes.set_xlabel("true slowdown, %")
        axes.grid(color="#DDDDDD", linewidth=0.6)
        axes.axvline(100 * Policy().margin, color="#333333", linestyle="--", linewidth=1)
        axes.text(100 * Policy().margin + 0.1, 105, "margin", color="#333333", fontsize=8.5)
    both[0].set_ylabel("comparisons called changed, %")
    handles, labels = both[0].get_legend_handles_labels()
    figure.legend(handles[::-1], labels[::-1], loc="outside lower center", ncols=4, frameon=False, fontsize=9)
    return figure


def _trials(results: Results) -> Any:
    figure, axes = _figure(9.5, 4.6)
    for launches in sorted({fresh_launches(PEERS[peer]) for peer in SHOWN_COSTS}):
        names = ", ".join(peer for peer in SHOWN_COSTS if fresh_launches(PEERS[peer]) == launches)
        axes.axhline(launches, color="#888888", linewidth=1, linestyle=":")
        axes.text(10.25, launches, f"{launches}: {names}", va="center", fontsize=8.5, color="#444444")
    for sd, (colour, marker) in TRIAL_NOISES.items():
        own = [results.ours[Cell(scenario="iid", effect=e, sd=sd).key] for e in EFFECTS]
        means, errors = [tally.mean_trials for tally in own], [NORMAL * tally.trials_error for tally in own]
        axes.errorbar(_percents(), means, errors, color=colour, linewidth=1.8)
        for x, tally in zip(_percents(), own, strict=True):
            face = colour if tally.percent(*ANSWERS) >= 50 else "white"
            axes.plot([x], [tally.mean_trials], marker, color=colour, markerfacecolor=face, markersize=7, zorder=3)
        axes.plot([], [], marker + "-", color=colour, label=f"launch sd {100 * sd:g} %")
    axes.set(xlim=(-0.3, 10.1), ylim=(0, None), xlabel="true slowdown, %")
    axes.set_ylabel("launches until perfguard ends, mean")
    axes.grid(color="#EEEEEE", linewidth=0.6)
    figure.legend(loc="outside lower center", ncols=4, frameon=False, fontsize=9)
    return figure


def _percents() -> list[float]:
    return [100 * effect for effect in EFFECTS]


def _percent_axis(axis: Any, ticks: Sequence[float]) -> None:
    axis.set_ticks(ticks, [f"{tick:g}" for tick in ticks])
