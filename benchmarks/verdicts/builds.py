"""What goes by the build and not by the launch: how often is unchanged code reported?

Three machines: builds made in turn are fast and slow in turn; each is a little slower than the one before; each has
luck of its own. Every trial of a build has its build's part. The order in which builds are made is drawn, as
`build_order` draws it, or always base, head, base, head. Beside the default policy stands the one in which stage two
always keeps alpha by itself. Run as `python -m benchmarks.verdicts.builds`.
"""

import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from benchmarks.verdicts.engine import compare, draw_batch
from benchmarks.verdicts.scenarios import Floats, Numbers
from perfguard.policy import Policy
from perfguard.records import Outcome
from perfguard.stats.design import rules_of
from perfguard.stats.plan import HEAD_SLOTS

SEED = 20261130
LAUNCH_NOISE = 0.003
# Places in the order of builds (N, arms, builds), size, generator -> logarithms, the larger the slower.
Machine = Callable[[Numbers, float, np.random.Generator], Floats]
MACHINES: dict[str, Machine] = {
    "in turn": lambda places, size, _: size * (places % 2),
    "ageing": lambda places, size, _: size * places,
    "luck": lambda places, size, rng: size * rng.standard_normal(places.shape),
}
ALONE = Policy(confirms_alone=True, max_confirm_blocks=14)
# Before builds were compared: stage two shared alpha whatever they did, and used eight of them again.
BEFORE = Policy(confirm_builds=8, build_luck_alpha=0.0)
POLICIES = {
    "default": Policy(),
    "as before": BEFORE,
    "one pair of builds": Policy(confirm_builds=2),
    "alone": ALONE,
    "one pair of builds, alone": replace(ALONE, confirm_builds=2),
}
HEADS = np.array([[slot in pair for slot in range(4)] for pair in HEAD_SLOTS], dtype=int)
IN_TURN = np.array([[0, 1, 0, 1]])


def places_of_builds(num: int, num_fresh: int, rng: np.random.Generator, *, is_drawn: bool) -> Numbers:
    """(num, 2, num_fresh + 2): the place of build 1, 2, … of each arm; nothing has the number 0."""
    places = np.zeros((num, 2, num_fresh + 2), dtype=int)
    rows = np.arange(num)
    first = rng.integers(0, 2, num) if is_drawn else np.zeros(num, dtype=int)
    places[rows, 1 - first, 1] = 1
    for pair in range(num_fresh // 2):
        arms = (HEADS if is_drawn else IN_TURN)[rng.integers(0, 6 if is_drawn else 1, num)]
        for slot in range(4):
            arm = arms[:, slot]
            number = 2 + 2 * pair + (arms[:, :slot] == arm[:, None]).sum(axis=1)
            places[rows, arm, number] = 2 + 4 * pair + slot
    return places


def reported(policy: Policy, machine: str, size: float, num: int, *, is_drawn: bool) -> float:
    """Share of unchanged comparisons that end REGRESSION or IMPROVEMENT."""
    rng = np.random.default_rng(SEED)
    rules = rules_of(policy, 1)
    num_fresh = min(policy.confirm_builds, 2 * policy.max_confirm_blocks)
    batch = draw_batch(num, rules, LAUNCH_NOISE, rng, num_fresh)
    of_build = MACHINES[machine](places_of_builds(num, num_fresh, rng, is_drawn=is_drawn), size, rng)
    own = of_build[np.arange(num)[:, None, None], batch.is_head.astype(int), batch.builds]
    logs = own + LAUNCH_NOISE * rng.standard_normal(own.shape)
    ended = Counter(compare(rules, logs[n], batch.is_head[n], batch.builds[n]).outcome for n in range(num))
    return (ended[Outcome.REGRESSION] + ended[Outcome.IMPROVEMENT]) / num


def main(num: int) -> None:
    print(f"Unchanged comparisons reported, of {num}; margin 2 %, launch noise {100 * LAUNCH_NOISE:g} %, seed {SEED}")
    for machine, size in (("in turn", 0.05), ("ageing", 0.01), ("luck", 0.01), ("luck", 0.02), ("luck", 0.05)):
        for name, policy in POLICIES.items():
            shares = [reported(policy, machine, size, num, is_drawn=is_drawn) for is_drawn in (False, True)]
            told = "base, head in turn {:.2%}, drawn {:.2%}".format(*shares)
            print(f"{machine} {100 * size:g} %, {name}: {told}", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5000)
