<<<<<<< HEAD
"""What the machine was like, as lines: clock, temperature and power by trial, the table of gates, coverage. Pure.

Arms are told apart by letters, A for base and B for head, as in the orders of blocks.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

GATE_COLUMNS = ("gate", "base", "head", "action", "what happened")
BARS = "▁▂▃▄▅▆▇█"
# Trials in one line of the plot; with label and range it stays below 100 columns.
TRACK = 56
PLOTTED = (
    ("sm_clock_mhz", "SM clock", "MHz"),
    ("temperature_c", "temperature", "°C"),
    ("power_average_w", "power", "W"),
)
LETTERS = {"base": "A", "head": "B"}


def plot_lines(comparison: Mapping[str, Any]) -> list[str]:
    """One column a trial, in the order they ran; [] where nothing was read from a GPU under load."""
    trials = _of(comparison, "trials")
    shown = [plot for plot in PLOTTED if any(t.get(plot[0]) is not None for t in trials)]
    if not shown:
        return []
    lines = ["Machine under load, one column a trial in the order they ran (A base, B head, lower case: not counted)"]
    for start in range(0, len(trials), TRACK):
        part = trials[start : start + TRACK]
        lines += [
            f"{words:>11} │{_bars(name, part, trials)}│ {_range(name, trials, unit)}" for name, words, unit in shown
        ]
        lines.append(f"{'arm':>11} │{''.join(map(_letter, part))}│")
    return [*lines, ""]


def _letter(trial: Mapping[str, Any]) -> str:
    letter = LETTERS[trial["side"]]
    return letter if trial["status"] == "ok" else letter.lower()


def _bars(name: str, part: Sequence[Mapping[str, Any]], trials: Sequence[Mapping[str, Any]]) -> str:
    """One scale for the whole campaign; a trial without a reading is a gap, never the lowest bar."""
    known = [t[name] for t in trials if t.get(name) is not None]
    low, high = min(known), max(known)
    return "".join(" " if t.get(name) is None else BARS[_place(t[name], low, high)] for t in part)


def _place(value: float, low: float, high: float) -> int:
    return len(BARS) // 2 if low == high else round((value - low) / (high - low) * (len(BARS) - 1))


def _range(name: str, trials: Sequence[Mapping[str, Any]], unit: str) -> str:
    known = [t[name] for t in trials if t.get(name) is not None]
    low, high = f"{min(known):,.0f}", f"{max(known):,.0f}"
    return f"{low} {unit}" if low == high else f"{low} to {high} {unit}"


def gate_rows(comparison: Mapping[str, Any]) -> list[tuple[str, str, str, str, str]]:
    """The gates that saw something; the first two things each, and how many more."""
    return [
        (row["gate"], _share(row["base"]), _share(row["head"]), row["action"], _happened(row["found"]))
        for row in _of(comparison, "gates")
        if row["found"]
    ]


def _share(count: Mapping[str, int]) -> str:
    return f"{count['trials']} of {count['of']}"


def _happened(found: Sequence[str]) -> str:
    more = f" (and {len(found) - 2} more)" if len(found) > 2 else ""
    return "; ".join(found[:2]) + more


def lines(comparison: Mapping[str, Any]) -> list[str]:
    """How much could be seen, which gates were quiet, and settings that somebody may have forgotten."""
    return list(_lines(comparison)) if comparison.get("conditions") else []


def _lines(comparison: Mapping[str, Any]) -> Iterator[str]:
    quiet = sum(not row["found"] for row in _of(comparison, "gates"))
    of_gates = f"; {quiet} of {len(_of(comparison, 'gates'))} gates saw nothing" if _of(comparison, "gates") else ""
    yield f"Machine: {comparison['conditions']['coverage']['text']}{of_gates}."
    for setting in _of(comparison, "settings"):
        yield f"Setting: {setting}. Unset it unless it is meant."


def notices(comparison: Mapping[str, Any]) -> list[str]:
    return [f"MACHINE MOVED: {notice['text']}" for notice in comparison.get("machine_moved") or ()]


def _of(comparison: Mapping[str, Any], name: str) -> Sequence[Any]:
    found: Sequence[Any] = (comparison.get("conditions") or {}).get(name) or ()
    return found
=======
"""What the machine was like while a comparison ran: clock, temperature and power of every trial, by arm. Pure.

Reads what trials recorded (`record["conditions"]`); a trial without it is left out, never drawn as 0.
"""

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from perfguard.records import Trial
from perfguard.report import svg

HEIGHT = 150
FIELDS = {
    "sm_clock_mhz": ("SM clock", "MHz"),
    "temperature_c": ("GPU temperature", "°C"),
    "power_average_w": ("GPU power", "W"),
    "pcie_generation": ("PCIe generation", ""),
}


def plots(trials: Sequence[Trial]) -> list[tuple[str, str]]:
    """(heading, SVG) for each field and GPU that was read during trials."""
    uuids = sorted({uuid for trial in trials for uuid in _gpus(trial)})
    drawn = []
    for number, uuid in enumerate(uuids):
        for field, (name, unit) in FIELDS.items():
            points = [(i, t, value) for i, t in enumerate(trials) if (value := under_load(t, uuid, field)) is not None]
            if points:
                heading = f"{name}, GPU {number}" if len(uuids) > 1 else name
                drawn.append((heading, _plot(heading, unit, points, len(trials))))
    return drawn


def under_load(trial: Trial, uuid: str, field: str) -> float | None:
    """Median of the numbers read after the trial was ready; None where there are none."""
    during = _gpus(trial).get(uuid, {}).get("during", {}).get("fields", {}).get(field, ())
    values = [value for t_s, value in during if t_s >= 0 and isinstance(value, int | float)]
    return float(median(values)) if values else None


def _gpus(trial: Trial) -> Mapping[str, Any]:
    gpus: Mapping[str, Any] = trial.record.get("conditions", {}).get("gpus", {})
    return gpus


def _plot(heading: str, unit: str, points: Sequence[tuple[int, Trial, float]], count: int) -> str:
    values = [value for _, _, value in points]
    low, high = svg.padded(min(values), max(values))
    y = svg.Axis(low=low, high=high, start=HEIGHT - 24, end=12)
    x = svg.Axis(low=-0.5, high=count - 0.5, start=70, end=svg.WIDTH - svg.RIGHT)
    parts = []
    for tick in svg.ticks(low, high, 3):
        parts += [svg.line(70, y.at(tick), svg.WIDTH - svg.RIGHT, y.at(tick), "grid")]
        parts += [svg.text(64, y.at(tick) + 4, f"{tick:g}", "tick", "end")]
    parts.append(svg.polyline([(x.at(i), y.at(value)) for i, _, value in points], "trace"))
    for i, trial, value in points:
        told = f"{trial.side} {value:g} {unit}, block {trial.stage}.{trial.block}"
        parts.append(svg.mark(trial.side, x.at(i), y.at(value), told))
    parts += [svg.text(4, 12, unit, "note"), svg.text(70, HEIGHT - 4, "launches in the order run", "note")]
    told = f"between {min(values):g} and {max(values):g} {unit}"
    return svg.drawing(f"{heading} by launch", told, HEIGHT, parts)
>>>>>>> clocks
