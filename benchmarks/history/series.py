"""The series that detectors are compared on: simulated ones, and real ones from the folder PERFGUARD_REAL_DATA."""

import csv
import json
import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
NUM_POINTS = 200
STEP_AT = NUM_POINTS * 2 // 3
STEPS = (0.02, 0.03, 0.05, 0.10)
LEVEL = 100.0


def real_data() -> Path | None:
    folder = os.environ.get("PERFGUARD_REAL_DATA")
    return Path(folder) if folder else None


def simulated(rng: np.random.Generator, count: int) -> Mapping[str, Array]:
    """Series without a change, (count, 200) each, of launches with 1 % noise around 100."""
    noise = rng.standard_normal((count, NUM_POINTS))
    spikes = (rng.random((count, NUM_POINTS)) < 0.05) * 0.08 * LEVEL
    noisier_end = np.where(np.arange(NUM_POINTS) < STEP_AT, 1.0, 3.0)
    return {
        "iid": LEVEL + noise,
        "AR(1) 0.3": LEVEL + _ar1(rng, count, 0.3),
        "AR(1) 0.6": LEVEL + _ar1(rng, count, 0.6),
        "5 % bad nights of +8 %": LEVEL + rng.standard_normal((count, NUM_POINTS)) + spikes,
        "one spike of +20 %": LEVEL + _one_spike(rng, count),
        "last third 3 times noisier": LEVEL + rng.standard_normal((count, NUM_POINTS)) * noisier_end,
        "two modes, 30 % of nights +8 %": LEVEL + noise + (rng.random((count, NUM_POINTS)) < 0.3) * 8,
    }


def gpu_series(folder: Path) -> Array:
    """The last 200 values of every benchmark of a GPU package's nightly history, (num_benchmarks, 200)."""
    with open(folder / "timeseries" / "cudajl_gpu_benchmarks.csv", newline="", encoding="utf-8") as stream:
        rows = list(csv.reader(stream))[1:]
    columns = [[float(row[i]) for row in rows if row[i]] for i in range(3, len(rows[0]))]
    return np.array([column[-NUM_POINTS:] for column in columns if len(column) >= NUM_POINTS])


def permuted(rng: np.random.Generator, series: Array, times: int) -> Array:
    """Each series in `times` random orders: its own noise, and surely no change point."""
    return np.array([rng.permutation(row) for _ in range(times) for row in series])


def with_step(series: Array, step: float) -> Array:
    """The same values, higher by `step` (a share) from two thirds of the series on."""
    return series * np.where(np.arange(series.shape[1]) < STEP_AT, 1.0, 1.0 + step)


def expected_counts(folder: Path) -> dict[str, tuple[Array, int]]:
    """Name -> series and the number of change points that a database vendor expects in it."""
    files = sorted((folder / "mongodb_edivisive").glob("profiling_*.json"))
    told = {file.stem: json.loads(file.read_text()) for file in files}
    return {name: (np.array(one["series"], dtype=float), int(one["expected"])) for name, one in told.items()}


def annotated(folder: Path) -> dict[str, tuple[Array, list[list[int]]]]:
    """Name -> series and the change points that each of several people marked in it."""
    marks = json.loads((folder / "tcpd" / "annotations.json").read_text())
    found = {}
    for file in sorted((folder / "tcpd").glob("*.json")):
        if file.stem != "annotations":
            values = [np.nan if v is None else v for v in json.loads(file.read_text())["series"][0]]
            series = np.array(values, dtype=float)
            if np.isfinite(series).all():
                found[file.stem] = (series, list(marks[file.stem].values()))
    return found


def _ar1(rng: np.random.Generator, count: int, phi: float) -> Array:
    noise = rng.standard_normal((count, NUM_POINTS + 100))
    series = np.zeros_like(noise)
    for t in range(1, series.shape[1]):
        series[:, t] = phi * series[:, t - 1] + noise[:, t]
    return series[:, -NUM_POINTS:]


def _one_spike(rng: np.random.Generator, count: int) -> Array:
    series = rng.standard_normal((count, NUM_POINTS))
    series[np.arange(count), rng.integers(0, NUM_POINTS, count)] += 0.2 * LEVEL
    return series
