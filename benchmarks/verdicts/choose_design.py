"""Candidates for looks and alphas, simulated beside the rule of `perfguard/stats/design.py`.

    python -m benchmarks.verdicts.choose_design [comparisons a scenario] [primary metrics]

The score is the expected number of trials over MIXTURE; a candidate that reports -3 % or -5 % at a noise of half the
margin in fewer than 99 % of cases is marked. All candidates spend the same alpha and meet the same random numbers.
"""

import sys
from collections.abc import Callable
from dataclasses import replace

from benchmarks.verdicts.engine import mean_trials, share, simulate
from benchmarks.verdicts.scenarios import iid
from perfguard.policy import Policy
from perfguard.records import Outcome
from perfguard.stats.design import Design, Rules, rules_of

# (true slowdown, noise of a launch, weight): most comparisons change nothing; what changes should be settled soon.
MIXTURE = (
    (0.0, 0.01, 0.30),
    (0.0, 0.003, 0.10),
    (0.0, 0.02, 0.10),
    (0.03, 0.01, 0.20),
    (0.05, 0.01, 0.15),
    (0.05, 0.02, 0.10),
    (0.03, 0.003, 0.05),
)
MUST_FIND = ((0.03, 0.01), (0.05, 0.01))

Spend = Callable[[int, int, float], dict[int, float]]


def halving(first: int, last: int, alpha: float) -> dict[int, float]:
    """Every second look takes half of what is left, the last one all of it."""
    later = [*range(first + 2, last, 2), last]
    shares = [0.5 ** min(k, len(later) - 1) for k in range(1, len(later) + 1)]
    return _with_first(first, later, shares, alpha)


def even(first: int, last: int, alpha: float) -> dict[int, float]:
    """All later looks, two blocks apart, take the same."""
    later = [*range(first + 2, last, 2), last]
    return _with_first(first, later, [1 / len(later)] * len(later), alpha)


def every_block(first: int, last: int, alpha: float) -> dict[int, float]:
    """A look after every block, halving."""
    later = list(range(first + 1, last + 1))
    return _with_first(first, later, [0.5 ** min(k, len(later) - 1) for k in range(1, len(later) + 1)], alpha)


def front(first: int, last: int, alpha: float) -> dict[int, float]:
    """The first later look takes two thirds of what is left, and so on."""
    later = [*range(first + 2, last, 2), last]
    shares = [2 * 3.0**-k for k in range(1, len(later))]
    return _with_first(first, later, [*shares, 1 - sum(shares)], alpha)


def _with_first(first: int, later: list[int], shares: list[float], alpha: float) -> dict[int, float]:
    rest = alpha - 6.0**-first
    spent = {q: rest * part for q, part in zip(later, shares, strict=True) if rest * part >= 6.0**-q}
    return {first: 6.0**-first, **spent}


def candidate(rules: Rules, firsts: tuple[int, int], share_of_one: float, spend: Spend, bound: float) -> Rules | None:
    """Rules with these first looks and this spending; None if alpha does not reach that far."""
    room = bound * 6.0 ** sum(firsts)
    if room < 1:
        return None
    one = spend(firsts[0], rules.max_blocks, 6.0 ** -firsts[0] * room**share_of_one)
    two = spend(firsts[1], rules.max_confirm_blocks, 6.0 ** -firsts[1] * room ** (1 - share_of_one))
    return replace(rules, design=Design(looks=one, confirm_looks=two))


def candidates(num_primaries: int) -> dict[str, Rules]:
    policy = Policy()
    rules, bound = rules_of(policy, num_primaries), policy.alpha / (2 * num_primaries)
    found: dict[str, Rules | None] = {"the rule": rules}
    for firsts in ((2, 3), (3, 2), (3, 3), (2, 4)):
        found[f"first looks {firsts}, 1/3, halving"] = candidate(rules, firsts, 1 / 3, halving, bound)
    for share_of_one in (0.0, 0.2, 0.5, 0.8):
        found[f"first looks (2, 3), {share_of_one}, halving"] = candidate(rules, (2, 3), share_of_one, halving, bound)
    for spend in (even, every_block, front):
        found[f"first looks (2, 3), 1/3, {spend.__name__}"] = candidate(rules, (2, 3), 1 / 3, spend, bound)
    return {name: rules for name, rules in found.items() if rules is not None}


def score(rules: Rules, num: int) -> tuple[float, dict[tuple[float, float], float]]:
    """Expected trials over the mixture, and how often each true change is reported."""
    trials, power = 0.0, {}
    for effect, sd, weight in MIXTURE:
        results = simulate(rules, iid, effect=effect, sd=sd, num=num, seed=round(1e4 * effect + 1e6 * sd))
        trials += weight * mean_trials(results)
        if effect:
            power[effect, sd] = share(results, Outcome.REGRESSION)
    return trials, power


def main() -> None:
    num = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    num_primaries = int(sys.argv[2]) if len(sys.argv) > 2 else 2
    for name, rules in candidates(num_primaries).items():
        trials, power = score(rules, num)
        mark = "" if all(power[case] >= 0.99 for case in MUST_FIND) else "  misses too many"
        found = ", ".join(f"-{100 * e:.0f} % at {100 * sd:g} %: {100 * p:.1f}" for (e, sd), p in power.items())
        print(f"{trials:6.2f} trials  {name:34}  reported % {found}{mark}", flush=True)


if __name__ == "__main__":
    main()
