"""Simulated sweeps through the real tests: how often a setting as fast as the best is dropped, and what it costs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from perfguard.policy import Policy
from perfguard.stats.effects import Floats
from perfguard.stats.sweep import Standing, after_round, sweep_rules

# Slowdowns of the settings; the true best ones have 0.
TRUTHS: dict[str, tuple[float, ...]] = {
    "2 equal": (0.0, 0.0),
    "2, one 5 % slower": (0.0, 0.05),
    "6 equal": (0.0,) * 6,
    "6, one best by 5 %": (0.0, *[0.05] * 5),
    "6: two best, two +7 %, two +38 %": (0.0, 0.0, 0.07, 0.07, 0.38, 0.38),
    "12 equal": (0.0,) * 12,
}
# (R, K) noise of launches in the order they ran, as logs.
SweepNoise = Callable[[int, int, float, np.random.Generator], Floats]


@dataclass(frozen=True, kw_only=True)
class Swept:
    is_wrong: bool
    is_settled: bool
    group: int
    launches: int


def iid(rounds: int, settings: int, sd: float, rng: np.random.Generator) -> Floats:
    return rng.normal(0.0, sd, (rounds, settings))


def drift(rounds: int, settings: int, sd: float, rng: np.random.Generator) -> Floats:
    """10 % slower in the end, with a time constant of 5 to 40 launches."""
    time = np.arange(rounds * settings).reshape(rounds, settings)
    return iid(rounds, settings, sd, rng) + 0.10 * (1 - np.exp(-time / rng.uniform(5, 40)))


def bimodal(rounds: int, settings: int, sd: float, rng: np.random.Generator) -> Floats:
    """Sticky clocks 8 % apart, changed with probability 0.1 before each launch."""
    flips = np.cumsum(rng.random(rounds * settings) < 0.1) % 2
    return iid(rounds, settings, sd, rng) + 0.08 * flips.reshape(rounds, settings)


def outliers(rounds: int, settings: int, sd: float, rng: np.random.Generator) -> Floats:
    """One launch in twenty is 30 % slower."""
    return iid(rounds, settings, sd, rng) + 0.30 * (rng.random((rounds, settings)) < 0.05)


NOISES: dict[str, SweepNoise] = {"iid": iid, "drift": drift, "bimodal": bimodal, "outliers": outliers}


def sweep(effects: Sequence[float], policy: Policy, noise: SweepNoise, sd: float, rng: np.random.Generator) -> Swept:
    """Noise comes in the order of launches; each round puts the settings into a random order. A dropped setting's
    launches are drawn and not counted."""
    logs = np.log1p(np.array(effects))
    rules = sweep_rules(policy, len(effects))
    slots = noise(policy.max_rounds, len(effects), sd, rng)
    order = rng.permuted(np.tile(np.arange(len(effects)), (policy.max_rounds, 1)), axis=1)
    values = np.take_along_axis(slots, order, axis=1) + logs
    now, launches, rounds = Standing(live=tuple(range(len(effects)))), 0, 0
    while not now.done:
        rounds += 1
        launches += len(now.live)
        now = after_round(rules, now, values[:rounds])
    best = set(np.flatnonzero(logs == logs.min()))
    is_settled = len(now.live) == 1 or "equal" in now.done
    wrong = any(drop.setting in best for drop in now.drops)
    return Swept(is_wrong=wrong, is_settled=is_settled, group=len(now.live), launches=launches)
