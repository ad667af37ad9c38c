"""Simulated comparisons through the real decision code (`perfguard.stats.sequential.follow`), thousands a minute.

Leaves out only what `decide` adds for people (intervals, texts); a test holds both to the same outcomes.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.verdicts.scenarios import Batch, Flags, Floats, Noise, Numbers
from perfguard.policy import Policy
from perfguard.records import Metric, Outcome
from perfguard.stats.design import Rules
from perfguard.stats.effects import series_of_logs
from perfguard.stats.plan import HEAD_SLOTS
from perfguard.stats.results import MetricState, outcome_of
from perfguard.stats.sequential import follow, overall

METRIC = Metric(name="seconds", unit="s", better="lower")


@dataclass(frozen=True, kw_only=True)
class Simulated:
    """How one simulated comparison ended, after how many trials."""

    outcome: Outcome
    trials: int


def draw_batch(num: int, rules: Rules, sd: float, rng: np.random.Generator, num_builds: int) -> Batch:
    """Random orders and builds of `num` comparisons, as `plan_block` draws them."""
    num_blocks = rules.max_blocks + rules.max_confirm_blocks
    heads = np.array([[slot in pair for slot in range(4)] for pair in HEAD_SLOTS])
    is_head = heads[rng.integers(0, 6, (num, num_blocks))]
    pairs = np.arange(num_blocks - rules.max_blocks) % (num_builds // 2)
    builds = np.ones(is_head.shape, dtype=np.int64)
    fresh = 2 + 2 * pairs[None, :, None] + _seconds(is_head, rng)[:, rules.max_blocks :]
    builds[:, rules.max_blocks :] = fresh
    return Batch(is_head=is_head, builds=builds, num_ones=rules.max_blocks, sd=sd)


def _seconds(is_head: Flags, rng: np.random.Generator) -> Flags:
    """In each arm of each block one of the two slots, by coin, runs the second build of its pair."""
    score = rng.random(is_head.shape)
    is_second = np.zeros(is_head.shape, dtype=bool)
    for is_arm in (is_head, ~is_head):
        np.put_along_axis(is_second, np.where(is_arm, score, np.inf).argmin(axis=2)[..., None], True, axis=2)
    return is_second


def simulate(
    rules: Rules,
    noise: Noise,
    *,
    effect: float,
    sd: float,
    num: int,
    seed: int,
    num_builds: int = Policy().confirm_builds,
) -> list[Simulated]:
    """`num` comparisons of one metric in which head is slower by `effect` (0.03 is three percent; below 0 faster)."""
    rng = np.random.default_rng(seed)
    batch = draw_batch(num, rules, sd, rng, num_builds)
    logs = noise(batch, rng) + np.log1p(effect) * batch.is_head
    return [compare(rules, logs[n], batch.is_head[n], batch.builds[n]) for n in range(num)]


def compare(rules: Rules, logs: Floats, is_head: Flags, builds: Numbers) -> Simulated:
    """One comparison on given log slowdowns (Q, 4); the first `max_blocks` blocks are stage one's."""
    return compare_several(rules, logs[None], is_head, builds)


def _state(rules: Rules, logs: Floats, is_head: Flags, builds: Numbers) -> MetricState:
    num_ones = rules.max_blocks
    ones = series_of_logs(logs[:num_ones], is_head[:num_ones])
    twos = series_of_logs(logs[num_ones:], is_head[num_ones:])
    return follow(rules, METRIC, ones, twos, builds[num_ones:], seed=0)


def simulate_several(
    rules: Rules,
    noise: Noise,
    *,
    effects: Sequence[float],
    correlation: float,
    sd: float,
    num: int,
    seed: int,
    num_builds: int = Policy().confirm_builds,
) -> list[Simulated]:
    """`num` comparisons of several primary metrics, each with its own effect, on the same orders and builds.

    The noise of a metric is sqrt(correlation) of one that all share and sqrt(1 - correlation) of its own: with 1 all
    metrics move as one. `rules` must be those of as many primary metrics.
    """
    rng = np.random.default_rng(seed)
    batch = draw_batch(num, rules, sd, rng, num_builds)
    shared = noise(batch, rng)
    per_metric = [
        np.sqrt(correlation) * shared + np.sqrt(1 - correlation) * noise(batch, rng) + np.log1p(effect) * batch.is_head
        for effect in effects
    ]
    logs = np.stack(per_metric, axis=1)
    return [compare_several(rules, logs[n], batch.is_head[n], batch.builds[n]) for n in range(num)]


def compare_several(rules: Rules, logs_KQ4: Floats, is_head: Flags, builds: Numbers) -> Simulated:
    """One comparison of K metrics: stage one goes on until all have ended, stage two until all suspects have."""
    states = [_state(rules, logs, is_head, builds) for logs in logs_KQ4]
    blocks = max(state.one.at for state in states) + max(state.two.at if state.two else 0 for state in states)
    return Simulated(outcome=overall([outcome_of(state) for state in states]), trials=4 * blocks)


def share(results: Sequence[Simulated], *outcomes: Outcome) -> float:
    return sum(result.outcome in outcomes for result in results) / len(results)


def mean_trials(results: Sequence[Simulated]) -> float:
    return sum(result.trials for result in results) / len(results)
