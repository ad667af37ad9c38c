"""Noise of simulated machines, as log slowdowns of trials. Sizes are assumptions, stated here, not measurements.

A batch holds N comparisons of Q blocks of 4 trials, in the order they would run; stage one's blocks come first.
Only the scenarios of `ARM_DEPENDENT` look at arms or builds; all others meet the condition of the guarantee.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Numbers = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Orders and builds of a batch: (N, Q, 4). `sd` is the noise of one launch, `num_ones` blocks are stage one's.

    `sessions` (4 Q): the session of each trial where it is not the stage's, as with tools that know no stages.
    """

    is_head: Flags
    builds: Numbers
    num_ones: int
    sd: float
    sessions: Numbers | None = None


Noise = Callable[[Batch, np.random.Generator], Floats]
Rule = Callable[[Floats, Floats], Flags]


def iid(batch: Batch, rng: np.random.Generator) -> Floats:
    """Launches vary by `sd`, nothing else."""
    return rng.normal(0.0, batch.sd, batch.is_head.shape)


def drift(batch: Batch, rng: np.random.Generator) -> Floats:
    """The machine warms up: 10 % slower in the end, a random time constant of 5 to 40 trials."""
    time = _trial_numbers(batch)
    constant = rng.uniform(5, 40, (len(batch.is_head), 1, 1))
    return iid(batch, rng) + 0.10 * (1 - np.exp(-time / constant))


def session(batch: Batch, rng: np.random.Generator) -> Floats:
    """Each session runs at another level, sd 2 %: each of our stages, each side of tools that run one after the other,
    each night of a stored history.
    """
    stages = (np.arange(_flat(batch)[1]) >= 4 * batch.num_ones).astype(np.int64)
    sessions = stages if batch.sessions is None else batch.sessions
    levels = rng.normal(0.0, 0.02, (len(batch.is_head), int(sessions.max()) + 1))
    return iid(batch, rng) + _shaped(levels[:, sessions], batch)


def bimodal(batch: Batch, rng: np.random.Generator) -> Floats:
    """Sticky clocks: two levels 8 % apart, changed with probability 0.1 before each trial."""
    flips = rng.random(_flat(batch)) < 0.1
    return iid(batch, rng) + 0.08 * _shaped(np.cumsum(flips, axis=1) % 2, batch)


def autocorrelated(batch: Batch, rng: np.random.Generator) -> Floats:
    """AR(1) with correlation 0.8 and sd 2 % beside the launch noise."""
    shocks = rng.normal(0.0, 0.02 * np.sqrt(1 - 0.8**2), _flat(batch))
    level = np.empty_like(shocks)
    level[:, 0] = rng.normal(0.0, 0.02, len(shocks))
    for t in range(1, shocks.shape[1]):
        level[:, t] = 0.8 * level[:, t - 1] + shocks[:, t]
    return iid(batch, rng) + _shaped(level, batch)


def outliers(batch: Batch, rng: np.random.Generator) -> Floats:
    """One trial in twenty is 5 to 40 % slow."""
    is_hit = rng.random(batch.is_head.shape) < 0.05
    return iid(batch, rng) + is_hit * rng.uniform(0.05, 0.34, is_hit.shape)


def periodic(batch: Batch, rng: np.random.Generator) -> Floats:
    """A neighbour takes 4 % every other while, its period near two trials; pauses of up to 20 % precede trials."""
    lengths = 1.0 + rng.uniform(0.0, 0.2, _flat(batch))
    period = rng.uniform(1.8, 2.6, (len(lengths), 1))
    phase = rng.uniform(0.0, 1.0, (len(lengths), 1))
    is_busy = ((np.cumsum(lengths, axis=1) / period + phase) % 1.0) < 0.5
    return iid(batch, rng) + 0.04 * _shaped(is_busy, batch)


def build_luck(batch: Batch, rng: np.random.Generator) -> Floats:
    """Each build is faster or slower by itself, sd 1 %: stage one cannot see it, stage two has fresh builds."""
    luck = rng.normal(0.0, 0.01, (len(batch.is_head), 2, batch.builds.max() + 1))
    rows = np.arange(len(luck))[:, None, None]
    return iid(batch, rng) + luck[rows, batch.is_head.astype(int), batch.builds]


def lottery(batch: Batch, rng: np.random.Generator) -> Floats:
    """A quarter of head's launches is 6 % slow and base has no slow ones: a change, and not one of the mean alone."""
    is_slow = batch.is_head & (rng.random(batch.is_head.shape) < 0.25)
    return iid(batch, rng) + 0.06 * is_slow


def carry_over(batch: Batch, rng: np.random.Generator) -> Floats:
    """A trial that follows a head trial is 1 % slow."""
    before = np.zeros(_flat(batch), dtype=bool)
    before[:, 1:] = batch.is_head.reshape(len(batch.is_head), -1)[:, :-1]
    return iid(batch, rng) + 0.01 * _shaped(before, batch)


def throttling(batch: Batch, rng: np.random.Generator) -> Floats:
    """Head heats the machine: every trial is slower by 0.5 % for each head trial among the last four."""
    heads = batch.is_head.reshape(len(batch.is_head), -1).astype(float)
    heat = np.zeros_like(heads)
    for lag in range(1, 5):
        heat[:, lag:] += heads[:, :-lag]
    return iid(batch, rng) + 0.005 * _shaped(heat, batch)


def noisier_head(batch: Batch, rng: np.random.Generator) -> Floats:
    """Head's launches vary three times as much as base's."""
    return iid(batch, rng) * np.where(batch.is_head, 3.0, 1.0)


GUARANTEED: dict[str, Noise] = {
    "iid": iid,
    "drift": drift,
    "session offset": session,
    "sticky clocks": bimodal,
    "AR(1)": autocorrelated,
    "outliers": outliers,
    "periodic neighbour": periodic,
}
ARM_DEPENDENT: dict[str, Noise] = {
    "per-build luck": build_luck,
    "head lottery": lottery,
    "carry-over": carry_over,
    "head heats the machine": throttling,
    "head 3x noisier": noisier_head,
}
SCENARIOS = GUARANTEED | ARM_DEPENDENT


def _flat(batch: Batch) -> tuple[int, int]:
    return len(batch.is_head), 4 * batch.is_head.shape[1]


def _shaped(per_trial: NDArray[np.generic], batch: Batch) -> Floats:
    return per_trial.reshape(batch.is_head.shape).astype(float)


def _trial_numbers(batch: Batch) -> Floats:
    return np.arange(_flat(batch)[1], dtype=float).reshape(1, -1, 4)
