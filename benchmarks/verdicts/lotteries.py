"""Code that is fast in most launches and slow in some: how often is it acquitted, and is it named?

    python -m benchmarks.verdicts.lotteries

Half a minute on one core. Each case is judged as people run it, which may be after 8 trials, and held to 40 trials.
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from benchmarks.verdicts.engine import METRIC, draw_batch
from benchmarks.verdicts.scenarios import Batch, Floats, Noise
from perfguard.policy import Policy
from perfguard.records import Outcome
from perfguard.stats.design import Rules, rules_of
from perfguard.stats.effects import Series, first, series_of_logs
from perfguard.stats.lottery import find_lottery
from perfguard.stats.results import outcome_of
from perfguard.stats.sequential import follow

NUM = 2_000
SEED = 11
REPORTED = (Outcome.REGRESSION, Outcome.IMPROVEMENT)


@dataclass(frozen=True, kw_only=True)
class Case:
    """Head's launches are slower by `size` (a ratio less 1) at `rate`; launches vary by `sd`."""

    rate: float
    size: float
    sd: float


@dataclass(frozen=True, kw_only=True)
class Ended:
    """How one comparison ended. `is_named`: modes were reported, or a change was."""

    outcome: Outcome
    is_named: bool
    trials: int


CASES = tuple(
    Case(rate=0.25, size=size, sd=sd) for size, sd in ((0.2, 0.003), (0.06, 0.003), (0.2, 0.01), (0.06, 0.01))
)


def slow_launches(case: Case) -> Noise:
    """Head raises the rate of slow launches; base has none."""

    def noise(batch: Batch, rng: np.random.Generator) -> Floats:
        is_slow = batch.is_head & (rng.random(batch.is_head.shape) < case.rate)
        return rng.normal(0.0, batch.sd, batch.is_head.shape) + np.log1p(case.size) * is_slow

    return noise


def simulate_lottery(rules: Rules, case: Case, *, num: int, seed: int) -> list[Ended]:
    rng = np.random.default_rng(seed)
    batch = draw_batch(num, rules, case.sd, rng, Policy().confirm_builds)
    logs = slow_launches(case)(batch, rng)
    return [_ended(rules, logs[n], batch, n) for n in range(num)]


def _ended(rules: Rules, logs: Floats, batch: Batch, n: int) -> Ended:
    num_ones, is_head, builds = rules.max_blocks, batch.is_head[n], batch.builds[n]
    ones = series_of_logs(logs[:num_ones], is_head[:num_ones])
    twos = series_of_logs(logs[num_ones:], is_head[num_ones:])
    state = follow(rules, METRIC, ones, twos, builds[num_ones:], seed=0)
    seen = [first(ones, state.one.at)] + ([first(twos, state.two.at)] if state.two else [])
    outcome = outcome_of(state)
    trials = 4 * sum(len(series.effects) for series in seen)
    return Ended(outcome=outcome, is_named=outcome in REPORTED or _has_modes(rules, seen), trials=trials)


def _has_modes(rules: Rules, seen: Sequence[Series]) -> bool:
    return any(len(series.effects) > 1 and find_lottery(series, rules.margin) is not None for series in seen)


def row(rules: Rules, case: Case, num: int) -> str:
    ended = simulate_lottery(rules, case, num=num, seed=SEED)
    equivalent = sum(end.outcome is Outcome.EQUIVALENT for end in ended) / num
    named = sum(end.is_named for end in ended) / num
    trials = sum(end.trials for end in ended) / num
    words = f"{100 * case.rate:g} % of launches {100 * case.size:g} % slow, launch sd {100 * case.sd:g} %"
    return f"| {words} | {100 * equivalent:.1f} | {100 * named:.1f} | {trials:.1f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--num", type=int, default=NUM, help="comparisons a case")
    num = parser.parse_args().num
    usual = rules_of(Policy(), 1)
    for title, rules in (("as people run it", usual), ("held to 40 trials", replace(usual, min_blocks=10))):
        print(f"\n| head, {title} | EQUIVALENT % | modes or a change named % | trials |\n|---|---|---|---|")
        for case in CASES:
            print(row(rules, case, num), flush=True)


if __name__ == "__main__":
    main()
