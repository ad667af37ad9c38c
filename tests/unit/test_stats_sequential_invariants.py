"""What holds for every comparison: mirrored, in another unit, replayed from any prefix, and whatever was measured."""

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stats_cases import LATENCY, ORDERS, block, measured, mirrored, noisy, run

from perfguard.policy import Policy
from perfguard.records import Metric, Outcome
from perfguard.stats.sequential import decide

MEMORY = Metric(name="memory", unit="bytes", better="lower", primary=False)
OTHER = Metric(name="other", unit="s", better="lower")
EXCHANGED = {Outcome.REGRESSION: Outcome.IMPROVEMENT, Outcome.IMPROVEMENT: Outcome.REGRESSION}


def codes(reasons):
    return [reason.code for reason in reasons]


positive = st.floats(0.5, 2.0)


@given(
    st.lists(st.tuples(st.sampled_from(ORDERS), st.tuples(*[positive] * 4)), min_size=1, max_size=6),
    st.sampled_from([0.0, 0.02, 0.5]),
)
@settings(max_examples=60, deadline=None)
def test_exchanging_the_arms_mirrors_the_verdict(trials, spread):
    blocks = [block(order, [v**spread for v in values]) for order, values in trials]
    policy = Policy(is_confirmed=False)
    one, other = decide(policy, [LATENCY], blocks), decide(policy, [LATENCY], mirrored(blocks))
    if "LOTTERY" in codes(one.metrics[0].reasons + other.metrics[0].reasons):
        return  # a lottery counts against head only
    assert (one.state, one.outcome) == (other.state, other.outcome)
    assert one.metrics[0].slowdown == pytest.approx(1 / other.metrics[0].slowdown)
    assert one.metrics[0].ci_low == pytest.approx(1 / other.metrics[0].ci_high)


@pytest.mark.parametrize("seed", range(8))
def test_a_whole_comparison_mirrors_when_the_arms_are_exchanged(seed):
    blocks, decisions = run({"latency": noisy(0.008, 1.03)}, seed=seed)
    other = decide(Policy(), [LATENCY], mirrored(blocks))
    assert other.outcome is EXCHANGED.get(decisions[-1].outcome, decisions[-1].outcome)
    assert other.state == "done"


@given(st.integers(0, 10_000), st.floats(1e-9, 1e9))
@settings(max_examples=30, deadline=None)
def test_a_change_of_unit_changes_nothing(seed, factor):
    rng = random.Random(seed)
    draws = {"latency": noisy(0.01, rng.choice([1.0, 1.03, 1.1]))}
    blocks = [measured(seed, 1 if k < 4 else 2, k, draws) for k in range(8)]
    scaled = [block(b.order, [v * factor for v in b.values["latency"]], stage=b.stage, builds=b.builds) for b in blocks]
    one, other = decide(Policy(), [LATENCY], blocks), decide(Policy(), [LATENCY], scaled)
    assert (one.state, one.outcome, one.blocks_needed) == (other.state, other.outcome, other.blocks_needed)
    assert one.metrics[0].slowdown == pytest.approx(other.metrics[0].slowdown)
    assert one.metrics[0].p_order == other.metrics[0].p_order


@pytest.mark.parametrize("seed", range(6))
def test_a_stored_comparison_replays_on_every_prefix(seed):
    draws = {"latency": noisy(0.01, 1.03), "other": noisy(0.02), "memory": noisy(0.001)}
    metrics = [LATENCY, OTHER, MEMORY]
    blocks, decisions = run(draws, seed=seed, metrics=metrics)
    assert [decide(Policy(), metrics, blocks[:q]) for q in range(len(blocks) + 1)] == decisions
    # Once done, further blocks change no result.
    more = [*blocks, measured(seed, blocks[-1].stage, 99, draws)]
    again = decide(Policy(), metrics, more)
    assert [r for r in again.metrics if r.metric.primary] == [r for r in decisions[-1].metrics if r.metric.primary]


odd = st.one_of(st.floats(1e-300, 1e300), st.sampled_from([1.0, 1.0, 1.02, 2.0, 1e-300, 1e300]))


@given(
    st.lists(
        st.tuples(st.sampled_from(ORDERS), st.sampled_from(["1122", "1212", "1111"]), st.tuples(*[odd] * 4)), max_size=9
    ),
    st.integers(0, 6),
)
@settings(max_examples=150, deadline=None)
def test_whatever_was_measured_gives_numbers_and_no_nan(trials, num_ones):
    blocks = [
        block(order, values, stage=1 if k < num_ones else 2, builds=builds if k >= num_ones else "1111")
        for k, (order, builds, values) in enumerate(trials)
    ]
    (result,) = decide(Policy(), [LATENCY], blocks).metrics
    numbers = (result.slowdown, result.ci_low, result.ci_high, result.p_order, result.mde)
    assert all(number is None or math.isfinite(number) for number in numbers)
    if result.slowdown is not None:
        assert result.ci_low <= result.slowdown <= result.ci_high
        assert 0 < result.p_order <= 1
