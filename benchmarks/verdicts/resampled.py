"""Noise drawn from real launches instead of from a formula: block bootstrap of `tp2_launches.csv`. Reads one file.

The file: 22 launches of one decode graph with two-way tensor parallelism on two H200s, in the order they ran, under
four NCCL settings (`default`, measured as two arms of the same setting, `ll`, `simple`, `p2p_off`); per launch the
median time of its iterations. What is kept is how a launch differs from the mean of its setting, in its order.
"""

import csv
from pathlib import Path

import numpy as np

from benchmarks.verdicts.scenarios import Batch, Floats

LAUNCHES = Path(__file__).with_name("tp2_launches.csv")
# Launches that ran one after the other stay together in blocks of four: what lasts a while is kept.
RUN_LENGTH = 4


def launch_residuals(path: Path = LAUNCHES) -> Floats:
    """Log of each launch's median against the mean log of its setting, in order of running, scaled to sd 1.

    Taking out a mean that the launch itself is part of shrinks a setting with few launches; it is scaled back.
    """
    with path.open(encoding="utf-8", newline="") as lines:
        rows = list(csv.DictReader(lines))
    settings = np.array([row["arm"] for row in rows])
    logs = np.log([float(row["median_ms"]) for row in rows])
    for setting in np.unique(settings):
        chosen = settings == setting
        num = int(chosen.sum())
        logs[chosen] = (logs[chosen] - logs[chosen].mean()) * np.sqrt(num / (num - 1))
    return np.asarray(logs / logs.std())


def measured_sd(path: Path = LAUNCHES) -> float:
    """Launch noise of the file: pooled standard deviation of logs within settings."""
    with path.open(encoding="utf-8", newline="") as lines:
        rows = list(csv.DictReader(lines))
    settings = {row["arm"] for row in rows}
    groups = [np.log([float(row["median_ms"]) for row in rows if row["arm"] == setting]) for setting in settings]
    squares = sum(float(((group - group.mean()) ** 2).sum()) for group in groups)
    return float(np.sqrt(squares / (len(rows) - len(groups))))


def real_launches(batch: Batch, rng: np.random.Generator) -> Floats:
    """Launches of a TP=2 decode graph on two H200s, resampled in runs of four and scaled to `sd` (measured: 0.16 %)."""
    pool = launch_residuals()
    num, num_trials = len(batch.is_head), 4 * batch.is_head.shape[1]
    starts = rng.integers(0, len(pool), (num, -(-num_trials // RUN_LENGTH), 1))
    places = (starts + np.arange(RUN_LENGTH)) % len(pool)
    return batch.sd * pool[places.reshape(num, -1)[:, :num_trials]].reshape(batch.is_head.shape)
