"""Simulated searches through the real decision code: `perfguard.stats.culprit.decide` and, to confirm, the verdict
procedure itself (`benchmarks.verdicts.engine.compare`), with fresh builds and a machine of its own.
"""

from dataclasses import dataclass, field, replace

import numpy as np

from benchmarks.bisect.histories import History, Machine
from benchmarks.verdicts.engine import compare, draw_batch
from benchmarks.verdicts.scenarios import SCENARIOS
from perfguard.policy import Policy
from perfguard.records import Outcome
from perfguard.stats.culprit import decide, is_anchor_first
from perfguard.stats.culprit_links import confirm_policy
from perfguard.stats.culprit_records import Confirmation, Reading, SearchDecision, SearchSetup, SearchState
from perfguard.stats.design import Rules, rules_of


@dataclass(frozen=True, kw_only=True)
class Searched:
    """How one search ended. `named`: the first candidate it wanted to confirm; trials before that and in all."""

    decision: SearchDecision
    named: int | None
    trials_before: int
    trials: int
    builds: int


@dataclass(frozen=True, kw_only=True)
class World:
    """What a search meets: the history, the machine of its readings, and the noise of its confirmations."""

    history: History
    machine: Machine
    scenario: str
    sd: float
    rng: np.random.Generator
    rules: Rules = field(default_factory=lambda: rules_of(confirm_policy(Policy()), 1))


def search(setup: SearchSetup, world: World) -> Searched:
    """Follows the decisions to their end."""
    state, memo = SearchState(), {}
    named, before = None, 0
    while (decision := decide(setup, state, memo)).state != "done":
        if decision.state == "measure":
            state = replace(state, readings=(*state.readings, read(setup, world, decision, len(state.readings))))
            continue
        if named is None:
            named, before = decision.after, decision.num_trials
        found = confirm(world, decision)
        state = replace(state, confirmations={**state.confirmations, decision.after: found})
    return Searched(
        decision=decision,
        named=named,
        trials_before=decision.num_trials if named is None else before,
        trials=decision.num_trials,
        builds=1 + len({reading.position for reading in state.readings}),
    )


def read(setup: SearchSetup, world: World, decision: SearchDecision, index: int) -> Reading:
    """One pair of adjacent trials in the order that the seed draws."""
    first, second = (0, decision.position) if is_anchor_first(setup, index) else (decision.position, 0)
    one, two = world.machine.run(world.history, first), world.machine.run(world.history, second)
    return Reading(position=decision.position, log_slowdown=two - one if first == 0 else one - two)


def confirm(world: World, decision: SearchDecision) -> Confirmation:
    """The verdict on before against after, both built afresh."""
    history, sd = world.history, world.sd
    batch = draw_batch(1, world.rules, sd, world.rng, Policy().confirm_builds)
    noise = SCENARIOS[world.scenario](batch, world.rng)[0]
    is_head = batch.is_head[0]
    cost = np.where(is_head, history.costs[decision.after], history.costs[decision.before])
    rate = np.where(is_head, history.slow_rates[decision.after], history.slow_rates[decision.before])
    logs = noise + cost + history.slow_by * (world.rng.random(is_head.shape) < rate)
    result = compare(world.rules, logs, is_head, batch.builds[0])
    return Confirmation(outcome=Outcome(result.outcome), trials=result.trials)
