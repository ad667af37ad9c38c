"""False suspicions of scope in-process: fake instances of one launch a block, through the real stage one.

Limits are exact: a rate is refused where the count has a chance below 1 in 10,000 under it (binomial distribution).
"""

import math
import random

import pytest
from scipy.stats import binom

from perfguard.policy import Policy
from perfguard.records import BlockValues, Metric
from perfguard.stats.design import rules_of
from perfguard.stats.effects import series
from perfguard.stats.plan import plan_block
from perfguard.stats.stage_one import end_of_stage_one
from runners.fake import FakeParams, instance_factors

NUM = 1000
SEED = 41
METRIC = Metric(name="speed", unit="token/s", better="higher")
UNLIKELY = 1e-4
# A margin of nearly nothing takes away what usually protects: the coin tosses alone are left.
BARE = Policy(alpha=0.05, margin=1e-9, futility=0.0, tost_alpha=1e-12, max_blocks=6, max_confirm_blocks=6)


def one_launch(plan, coin, order):
    """Speeds of the four instances of a launch, in the order they are built."""
    return [100 / factor for factor in instance_factors([plan] * 4, coin)]


def twins_share_luck(plan, coin, order):
    """What it would be like if the two instances of a side were one copy of the code."""
    luck = {side: coin.gauss(0.0, plan.instance_noise) for side in "AB"}
    factors = instance_factors([plan] * 4, coin)
    return [100 / factor * math.exp(luck[side]) for factor, side in zip(factors, order, strict=True)]


def num_suspected(policy, plan, *, order=None, speeds=one_launch):
    """Of NUM comparisons of a commit with itself; `order` fixed instead of drawn."""
    print(f"seed {SEED}")
    coin, rules, found = random.Random(SEED), rules_of(policy, 1), 0
    for number in range(NUM):
        blocks = []
        for index in range(policy.max_blocks):
            drawn = order or plan_block(SEED * NUM + number, 1, index, policy.confirm_builds).order
            values = {METRIC.name: tuple(speeds(plan, coin, drawn))}
            blocks.append(BlockValues(stage=1, index=index, order=drawn, builds="1111", values=values))
        found += end_of_stage_one(rules, series(METRIC, blocks), seed=0).kind == "suspect"
    return found


def allowed(policy):
    """Both directions, all looks."""
    return 2 * sum(rules_of(policy, 1).design.looks.values())


def is_within(count, rate):
    return binom.sf(count - 1, NUM, rate) >= UNLIKELY


@pytest.mark.parametrize("plan", [
    FakeParams(instance_noise=0.01),
    FakeParams(instance_noise=0.003, order_drift=0.01),
    FakeParams(instance_noise=0.003, order_drift=-0.02),
], ids=["noise", "the first built is fastest", "the first built is slowest"])  # fmt: skip
@pytest.mark.parametrize("policy", [Policy(), BARE], ids=["default", "coin tosses alone"])
def test_an_unchanged_head_is_suspected_no_more_often_than_the_looks_allow(policy, plan):
    assert is_within(num_suspected(policy, plan), allowed(policy))


def test_the_drawn_order_is_what_keeps_build_order_from_looking_like_a_change():
    plan = FakeParams(instance_noise=0.003, order_drift=0.01)
    assert not is_within(num_suspected(BARE, plan, order="AABB"), allowed(BARE))


def test_twins_that_shared_their_copy_of_the_code_would_be_suspected_too_often():
    plan = FakeParams(instance_noise=0.003)
    assert not is_within(num_suspected(BARE, plan, speeds=twins_share_luck), allowed(BARE))
