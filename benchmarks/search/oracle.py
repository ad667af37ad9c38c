"""Simulated searches: the real search asks, the real decision code answers on simulated launches."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import log1p

import numpy as np

from benchmarks.verdicts.engine import Simulated, compare, draw_batch
from benchmarks.verdicts.scenarios import Noise
from perfguard.policy import Policy
from perfguard.records import Outcome
from perfguard.stats.design import Rules, rules_of
from perfguard.stats.search import Configuration, End, Question, check_policy, next_step, step_policy

# Log slowdown of a configuration against A; positions in it are set as in A.
Truth = Callable[[Configuration], float]


@dataclass(frozen=True, kw_only=True)
class Case:
    """`num` factors of which `right` matter."""

    num: int
    right: tuple[int, ...]
    truth: Truth


@dataclass(frozen=True, kw_only=True)
class Searched:
    end: End
    trials: int
    comparisons: int


def one_factor(num: int, where: Sequence[int], effects: Sequence[float]) -> Case:
    return Case(num=num, right=(where[0],), truth=lambda c: log1p(effects[0]) * (where[0] not in c))


def two_that_add(num: int, where: Sequence[int], effects: Sequence[float]) -> Case:
    def truth(c: Configuration) -> float:
        return sum(log1p(e) * (w not in c) for w, e in zip(where[:2], effects[:2], strict=True))

    return Case(num=num, right=tuple(sorted(where[:2])), truth=truth)


def slow_only_together(num: int, where: Sequence[int], effects: Sequence[float]) -> Case:
    """Slow where both are as in B: either one as in A is fast."""
    return Case(
        num=num,
        right=tuple(sorted(where[:2])),
        truth=lambda c: log1p(effects[0]) * (where[0] not in c and where[1] not in c),
    )


def fast_only_together(num: int, where: Sequence[int], effects: Sequence[float]) -> Case:
    """Fast where both are as in A: either one as in B is slow."""
    return Case(
        num=num,
        right=tuple(sorted(where[:2])),
        truth=lambda c: log1p(effects[0]) * (where[0] not in c or where[1] not in c),
    )


def none_matters(num: int, where: Sequence[int], effects: Sequence[float]) -> Case:
    return Case(num=num, right=(), truth=lambda c: 0.0)


KINDS = {
    "none": none_matters,
    "one": one_factor,
    "two, adding": two_that_add,
    "two, slow only together": slow_only_together,
    "two, fast only together": fast_only_together,
}


def draw_case(kind: str, num: int, effects: tuple[float, float], rng: np.random.Generator) -> Case:
    """Random places, effects uniform in the range (0.05 is five percent)."""
    where = [int(w) for w in rng.permutation(num)]
    return KINDS[kind](num, where, [float(e) for e in rng.uniform(*effects, 2)])


def search(case: Case, policy: Policy, noise: Noise, sd: float, rng: np.random.Generator) -> Searched:
    rules = {True: rules_of(check_policy(policy), 1), False: rules_of(step_policy(policy), 1)}
    answers: dict[Question, Outcome] = {}
    trials = 0
    while isinstance(step := next_step(case.num, answers), Question):
        effect = case.truth(step.head) - case.truth(step.base)
        simulated = answer(rules[step.is_check], noise, effect, sd, rng, policy.confirm_builds)
        answers[step] = simulated.outcome
        trials += simulated.trials
    return Searched(end=step, trials=trials, comparisons=len(answers))


def answer(
    rules: Rules, noise: Noise, effect: float, sd: float, rng: np.random.Generator, num_builds: int
) -> Simulated:
    """One comparison of two configurations that differ by `effect` (a log)."""
    batch = draw_batch(1, rules, sd, rng, num_builds)
    logs = noise(batch, rng)[0] + effect * batch.is_head[0]
    return compare(rules, logs, batch.is_head[0], batch.builds[0])


def each_alone(case: Case, policy: Policy, noise: Noise, sd: float, rng: np.random.Generator) -> Searched:
    """What is done without a search: A against B, then each factor alone as in B against A, confirmed like a check."""
    rules = rules_of(check_policy(policy), 1)
    everything = frozenset(range(case.num))
    sides = [frozenset[int](), *(everything - {k} for k in range(case.num))]
    found = [answer(rules, noise, case.truth(side), sd, rng, policy.confirm_builds) for side in sides]
    named = tuple(k for k, one in enumerate(found[1:]) if one.outcome is Outcome.REGRESSION)
    end = End(outcome="EXPLAINED" if named else "INCONCLUSIVE", why="", found=named)
    return Searched(end=end, trials=sum(one.trials for one in found), comparisons=len(found))
