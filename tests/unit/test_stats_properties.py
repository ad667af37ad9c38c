"""What holds for any data at all: mirrored arms, constants, and values that are no measurement."""

import json
import math
import sys
from dataclasses import asdict

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from stats_cases import LATENCY, ORDERS, block, mirrored

from perfguard.policy import Policy
from perfguard.records import BlockValues, Metric, Outcome
from perfguard.stats.sequential import decide
from perfguard.trial.readings import judge_values

EXCHANGED = {Outcome.REGRESSION: Outcome.IMPROVEMENT, Outcome.IMPROVEMENT: Outcome.REGRESSION}
RATE = Metric(name="latency", unit="token/s", better="higher")
COUNT = Metric(name="count", unit="1", better="higher", primary=False, exact=True)


def build(trials, num_ones):
    """Blocks of stage one, then blocks in which every trial has a build of its own."""
    return [
        block(order, values, stage=1 if k < num_ones else 2, builds="1111" if k < num_ones else "1234")
        for k, (order, values) in enumerate(trials)
    ]


# Effects of both signs around margin and floor, ties, and single slow launches; head is the side of an effect.
launch = st.sampled_from([1.0, 1.0, 1.001, 1.004, 1.01, 1.3])
effect = st.sampled_from([0.9, 0.97, 1.0, 1.0, 1.015, 1.03, 1.2])


@given(st.lists(st.tuples(st.sampled_from(ORDERS), st.tuples(*[launch] * 4)), min_size=5, max_size=12), effect)
@settings(max_examples=80, deadline=None)
def test_exchanging_the_arms_mirrors_the_verdict_of_both_stages(trials, effect):
    slowed = [
        (order, tuple(v * (effect if arm == "B" else 1.0) for arm, v in zip(order, values, strict=True)))
        for order, values in trials
    ]
    blocks = build(slowed, 2)
    one, other = decide(Policy(), [LATENCY], blocks), decide(Policy(), [LATENCY], mirrored(blocks))
    if any("LOTTERY" in reason.code for result in (*one.metrics, *other.metrics) for reason in result.reasons):
        return  # slow launches count against head only
    assert other.outcome is EXCHANGED.get(one.outcome, one.outcome)
    assert (other.state, other.metrics[0].decided_at) == (one.state, one.metrics[0].decided_at)
    assert other.metrics[0].p_order == pytest.approx(one.metrics[0].p_order)


@given(st.lists(st.tuples(st.sampled_from(ORDERS), st.tuples(*[launch] * 4)), min_size=2, max_size=8), effect)
@settings(max_examples=60, deadline=None)
def test_a_rate_and_the_time_it_stands_for_are_judged_alike(trials, effect):
    blocks = build(
        [(o, tuple(v * (effect if a == "B" else 1.0) for a, v in zip(o, values, strict=True))) for o, values in trials],
        2,
    )
    rates = [block(b.order, [1 / v for v in b.values["latency"]], stage=b.stage, builds=b.builds) for b in blocks]
    one, other = decide(Policy(), [LATENCY], blocks), decide(Policy(), [RATE], rates)
    assert (one.state, one.outcome) == (other.state, other.outcome)
    assert one.metrics[0].slowdown == pytest.approx(other.metrics[0].slowdown)


# A median of two values adds them, so the largest float has to be left room for that.
@given(st.floats(5e-324, 8e307), st.lists(st.sampled_from(ORDERS), min_size=2, max_size=6))
@example(5e-324, ["AABB", "AABB"])
@example(8e307, ["ABBA", "BAAB", "BBAA"])
@settings(max_examples=60, deadline=None)
def test_identical_values_end_equivalent_with_numbers_that_json_can_hold(value, orders):
    decision = decide(Policy(), [LATENCY], [block(order, [value] * 4) for order in orders])
    assert (decision.state, decision.outcome) == ("done", Outcome.EQUIVALENT)
    (result,) = decision.metrics
    assert (result.slowdown, result.ci_low, result.ci_high, result.decided_at) == (1.0, 1.0, 1.0, 2)
    json.dumps(asdict(decision), allow_nan=False, default=str)


readings = st.one_of(st.floats(), st.integers(), st.booleans(), st.none(), st.text(max_size=3), st.just(10**400))


@given(readings)
@example(math.nan)
@example(-math.inf)
@example(0.0)
@example(-0.0)
@example(-1e-300)
@example(5e-324)
@settings(max_examples=300, deadline=None)
def test_only_positive_finite_numbers_ever_become_values(read):
    found = judge_values((LATENCY,), {"latency": read}, seen="")
    is_number = isinstance(read, int | float) and not isinstance(read, bool)
    is_good = is_number and 0 < read <= sys.float_info.max
    assert dict(found.values) == ({"latency": float(read)} if is_good else {})
    # A value that is none makes its trial invalid: there is always a reason, and none without need.
    assert (found.reasons == ()) == is_good


@given(st.lists(st.tuples(*[st.sampled_from([0.0, -1.0, 1.0, 2.0])] * 4), min_size=2, max_size=4))
@settings(max_examples=60, deadline=None)
def test_counts_that_decide_nothing_may_be_zero_and_give_no_nan(counts):
    blocks = [
        BlockValues(
            stage=1, index=k, order="ABBA", builds="1111", values={"latency": (1.0, 1.01, 1.0, 1.01), "count": row}
        )
        for k, row in enumerate(counts)
    ]
    decision = decide(Policy(), [LATENCY, COUNT], blocks)
    json.dumps(asdict(decision), allow_nan=False, default=str)
