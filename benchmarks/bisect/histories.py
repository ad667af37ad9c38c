"""Simulated histories: what each commit costs, planted culprits or none, on the machines of the verdict benchmark.

Sizes are assumptions, stated in `benchmarks/verdicts/scenarios.py`; nothing here was measured.
"""

from dataclasses import dataclass, field

import numpy as np

from benchmarks.verdicts.scenarios import SCENARIOS, Batch, Floats

# Trials in a row that one search may need, in blocks of four; it stops at 400.
NUM_BLOCKS = 110
BUILD_LUCK_SD = 0.01


@dataclass(frozen=True, kw_only=True)
class History:
    """Log slowdown of every position 0..N, and the rate of launches at each that are slower by `slow_by` (log)."""

    costs: Floats
    slow_rates: Floats
    slow_by: float = 0.0

    @property
    def num_candidates(self) -> int:
        return len(self.costs) - 1


@dataclass(kw_only=True)
class Machine:
    """One simulated machine on which trials run one after the other; luck of builds where the scenario has it."""

    timeline: Floats
    luck: Floats
    rng: np.random.Generator
    at: int = field(default=0)

    def run(self, history: History, position: int) -> float:
        """Log time of the next trial, of this position."""
        noise = float(self.timeline[self.at % len(self.timeline)])
        self.at += 1
        is_slow = self.rng.random() < history.slow_rates[position]
        return float(history.costs[position]) + history.slow_by * is_slow + float(self.luck[position]) + noise


def plain(num: int, steps: dict[int, float]) -> History:
    """Each candidate of `steps` makes everything from it on slower by this share (0.05: 5 % slower; below 0 faster)."""
    costs = np.zeros(num + 1)
    for candidate, effect in steps.items():
        costs[candidate:] += np.log1p(effect)
    return History(costs=costs, slow_rates=np.zeros(num + 1))


def with_lottery(num: int, candidate: int, rate: float, effect: float) -> History:
    """From `candidate` on this rate of the launches is slower by `effect`."""
    rates = np.where(np.arange(num + 1) >= candidate, rate, 0.0)
    return History(costs=np.zeros(num + 1), slow_rates=rates, slow_by=float(np.log1p(effect)))


def machines(scenario: str, sd: float, num_candidates: int, num: int, rng: np.random.Generator) -> list[Machine]:
    """`num` machines of a scenario that does not look at arms, or of "per-build luck"."""
    is_lucky = scenario == "per-build luck"
    is_head = np.zeros((num, NUM_BLOCKS, 4), dtype=bool)
    builds = np.ones(is_head.shape, dtype=np.int64)
    batch = Batch(is_head=is_head, builds=builds, num_ones=NUM_BLOCKS // 2, sd=sd)
    noise = SCENARIOS["iid" if is_lucky else scenario](batch, rng).reshape(num, -1)
    luck = rng.normal(0.0, BUILD_LUCK_SD if is_lucky else 0.0, (num, num_candidates + 1))
    return [Machine(timeline=noise[n], luck=luck[n], rng=rng) for n in range(num)]
