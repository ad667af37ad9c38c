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
