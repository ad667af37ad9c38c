"""Blocks and comparisons for tests of the statistics: values written down or drawn from a printed seed."""

import random
from collections.abc import Callable, Sequence
from itertools import combinations

from perfguard.policy import Policy
from perfguard.records import BlockValues, Decision, Metric
from perfguard.stats.plan import plan_block
from perfguard.stats.sequential import decide

LATENCY = Metric(name="latency", unit="s", better="lower")
ORDERS = tuple("".join("B" if j in pair else "A" for j in range(4)) for pair in combinations(range(4), 2))


def block(order: str, values: Sequence[float], *, name: str = "latency", stage: int = 1, builds: str = "1111"):
    return BlockValues(stage=stage, index=0, order=order, builds=builds, values={name: tuple(values)})


def split_block(base: Sequence[float], head: Sequence[float], order: str = "ABBA", **more) -> BlockValues:
    """Values given by arm, put into the slots of the order."""
    left = {"A": list(base), "B": list(head)}
    return block(order, [left[arm].pop(0) for arm in order], **more)


Draw = Callable[[random.Random, str, int], float]


def noisy(sd: float, slowdown: float = 1.0, level: float = 1.0) -> Draw:
    """A launch of `level` with lognormal noise; head slower by the factor."""
    return lambda rng, arm, stage: level * rng.lognormvariate(0.0, sd) * (slowdown if arm == "B" else 1.0)


def measured(seed: int, stage: int, index: int, draws: dict[str, Draw], num_builds: int = 2) -> BlockValues:
    """A block as planned, its values drawn for each metric."""
    plan, rng = plan_block(seed, stage, index, num_builds), random.Random(f"{seed}/{stage}/{index}")
    values = {name: tuple(draw(rng, arm, stage) for arm in plan.order) for name, draw in draws.items()}
    return BlockValues(stage=stage, index=index, order=plan.order, builds=plan.builds, values=values)


def run(
    draws: dict[str, Draw], *, seed: int = 1, policy: Policy | None = None, metrics: Sequence[Metric] = (LATENCY,)
) -> tuple[list[BlockValues], list[Decision]]:
    """A whole comparison, driven by its own decisions: the blocks and the decision after each."""
    policy, blocks, decisions = policy or Policy(), [], [decide(policy or Policy(), metrics, ())]
    while decisions[-1].state != "done":
        stage = 1 if decisions[-1].state == "measure" else 2
        blocks.append(measured(seed, stage, len(blocks), draws))
        decisions.append(decide(policy, metrics, blocks))
    return blocks, decisions


def mirrored(blocks: Sequence[BlockValues]) -> list[BlockValues]:
    """The same trials with base and head exchanged."""
    swap = str.maketrans("AB", "BA")
    return [
        BlockValues(stage=b.stage, index=b.index, order=b.order.translate(swap), builds=b.builds, values=b.values)
        for b in blocks
    ]
