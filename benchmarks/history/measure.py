"""Change points of nightly series, ours beside the real Otava, as tables in docs/calibration-history.md.

    PERFGUARD_REAL_DATA=DIR python -m benchmarks.history.measure --otava /path/to/python-with-apache-otava

Four minutes on one core. Without `--otava` or without the real series those columns are left out.
"""

import argparse
import json
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.stats import binomtest

from benchmarks.history import report
from benchmarks.history.scores import cover, f1
from benchmarks.history.series import (
    NUM_POINTS,
    STEP_AT,
    STEPS,
    Array,
    annotated,
    expected_counts,
    gpu_series,
    permuted,
    real_data,
    simulated,
    with_step,
)
from perfguard.stats.changepoint import ALPHA, change_points

SEED = 20261130
WORKER = Path(__file__).with_name("otava_worker.py")
NEAR = 5
# Our detector at its own level, and at levels from which the one with Otava's false-alarm rate is taken.
LEVELS = (0.005, ALPHA, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.99)
Found = list[list[int]]


@dataclass(frozen=True, kw_only=True)
class Detectors:
    """`otava`: the Python that holds it, or ""."""

    otava: str

    def ours(self, series: Sequence[Array], alpha: float = ALPHA) -> Found:
        return [[point.index for point in change_points(one, alpha=alpha)] for one in series]

    def peer(self, series: Sequence[Array]) -> Found | None:
        if not self.otava:
            return None
        said = json.dumps([one.tolist() for one in series])
        answer = subprocess.run([self.otava, WORKER], input=said, capture_output=True, text=True, check=True)
        return json.loads(answer.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--otava", default="", help="python of an environment with apache-otava")
    parser.add_argument("--count", type=int, default=1000, help="simulated series a scenario")
    parser.add_argument("--orders", type=int, default=10, help="random orders of each real series")
    options = parser.parse_args()
    detectors = Detectors(otava=options.otava)
    rng = np.random.default_rng(SEED)
    parts = [report.false_alarms(_false_alarms(detectors, simulated(rng, options.count)))]
    folder = real_data()
    if folder is not None:
        series = permuted(rng, gpu_series(folder), options.orders)
        parts += [report.steps(_steps(detectors, series), num_series=len(series))]
        parts += [report.expected(_expected(detectors, folder)), report.annotated(_annotated(detectors, folder))]
    parts += [report.speed(_speed_s(rng))]
    report.write(parts, seed=SEED, count=options.count, orders=options.orders)


def _false_alarms(detectors: Detectors, scenarios) -> list[tuple[str, float, tuple[float, float], float | None]]:
    """Scenario, our share of series with any change point, its 95 % limits, Otava's share."""
    rows = []
    for name, series in scenarios.items():
        alarms = [bool(found) for found in detectors.ours(series)]
        rows.append((name, *_share(alarms), _peer_share(detectors, series)))
        print(rows[-1], flush=True)
    return rows


def _steps(detectors: Detectors, series: Array) -> dict[str, object]:
    """False alarms and found steps of both, and of ours at Otava's own false-alarm rate."""
    nulls = {alpha: np.mean([bool(found) for found in detectors.ours(series, alpha)]) for alpha in LEVELS}
    peer_null = _peer_share(detectors, series)
    alphas = {"ours": ALPHA}
    if peer_null is not None:
        alphas["equal"] = max((a for a in LEVELS if nulls[a] <= peer_null), default=ALPHA)
    found: dict[str, object] = {"null": nulls, "peer null": peer_null, "alphas": alphas}
    for step in STEPS:
        stepped = with_step(series, step)
        row = {name: _hit_share(detectors.ours(stepped, alpha)) for name, alpha in alphas.items()}
        peer = detectors.peer(stepped)
        found[f"{step:.0%}"] = {**row, "peer": None if peer is None else _hit_share(peer)}
        print(step, found[f"{step:.0%}"], flush=True)
    return found


def _expected(detectors: Detectors, folder: Path) -> list[tuple[str, int, int, int | None]]:
    rows = []
    for name, (series, count) in expected_counts(folder).items():
        peer = detectors.peer([series])
        rows.append((name, count, len(detectors.ours([series])[0]), None if peer is None else len(peer[0])))
    return rows


def _annotated(detectors: Detectors, folder: Path) -> list[tuple[str, dict[str, tuple[float, float]]]]:
    """F1 and cover of ours, Otava's, and of a detector that never fires, on series marked by people."""
    rows = []
    for name, (series, marks) in annotated(folder).items():
        peer = detectors.peer([series])
        answers = {"ours": detectors.ours([series])[0], "never": []} | ({"otava": peer[0]} if peer else {})
        scores = {who: (f1(marks, found), cover(marks, found, len(series))) for who, found in answers.items()}
        rows.append((name, scores))
    return rows


def _speed_s(rng: np.random.Generator) -> float:
    """Processor seconds for 50 series of 10,000 points with two steps each."""
    series = rng.standard_normal((50, 10_000)) + np.repeat([0.0, 0.5, 1.5, 1.5, 1.5], 2_000)
    began_s = time.process_time()
    for one in series:
        change_points(one)
    return time.process_time() - began_s


def _share(alarms: list[bool]) -> tuple[float, tuple[float, float]]:
    limits = binomtest(sum(alarms), len(alarms)).proportion_ci(method="exact")
    return sum(alarms) / len(alarms), (float(limits.low), float(limits.high))


def _peer_share(detectors: Detectors, series: Sequence[Array]) -> float | None:
    found = detectors.peer(series)
    return None if found is None else sum(map(bool, found)) / len(found)


def _hit_share(found: Found) -> float:
    return float(np.mean([any(abs(index - STEP_AT) <= NEAR for index in one) for one in found]))


if __name__ == "__main__":
    assert NUM_POINTS > STEP_AT
    main()
