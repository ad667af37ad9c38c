import math
import random

import numpy as np
import pytest
import scipy.stats
from stats_cases import LATENCY, ORDERS

from perfguard.policy import Policy
from perfguard.records import BlockValues, Metric, Trial
from perfguard.stats.effects import series, series_of_logs
from perfguard.stats.validity import (
    carry_over_p,
    carry_over_reasons,
    failure_reasons,
    fisher_p,
    void_reasons,
)

COUNT = Metric(name="drafted", unit="tokens", better="lower", primary=False, exact=True)


def trial(side, status="ok", stage=1):
    return Trial(
        id="t", stage=stage, block=0, slot=0, side=side, build=1, attempt=0, status=status,
        started_at="", wall_s=1.0, measured_s=1.0, values={},
    )  # fmt: skip


def test_fishers_test_agrees_with_scipy():
    rng = random.Random(5)
    for _ in range(200):
        table = [rng.randrange(8) for _ in range(4)]
        expected = scipy.stats.fisher_exact([table[:2], table[2:]]).pvalue
        assert fisher_p(*table) == pytest.approx(expected), table


def test_one_arm_that_fails_is_a_finding():
    trials = [trial("base") for _ in range(8)] + [trial("head", "crashed") for _ in range(6)] + [trial("head")] * 2
    (reason,) = failure_reasons(Policy(), trials)
    assert reason.code == "ARM_FAILS"
    # 8 choose 6 tables of 16 choose 6, both tails: 2 * 28 / 8008.
    assert reason.text.startswith("6 of 8 head launches and 0 of 8 base launches")
    assert "p = 0.007" in reason.text


def test_failures_spread_over_both_arms_or_before_the_first_block_are_none():
    both = [trial(side, status) for side in ("base", "head") for status in ("ok", "ok", "invalid", "timed_out")]
    assert failure_reasons(Policy(), both) == ()
    warm = [trial("head", "crashed", stage=0) for _ in range(9)] + [trial("base") for _ in range(9)]
    assert failure_reasons(Policy(), warm) == ()
    assert failure_reasons(Policy(), []) == ()


def test_more_than_a_third_of_blocks_void_is_invalid():
    def is_void(valid, void, is_final):
        return bool(void_reasons(Policy(), num_valid=valid, num_void=void, is_final=is_final))

    assert is_void(2, 2, True)
    assert not is_void(4, 2, True)
    # While measuring goes on, ten valid blocks may still come: 5 of 15 are a third, 6 of 16 are more.
    assert not is_void(0, 5, False)
    assert is_void(0, 6, False)


def blocks_with_carry_over(seed, carry, num_blocks=10, effect=0.0):
    rng, blocks, last = random.Random(seed), [], "A"
    for index in range(num_blocks):
        order, values = rng.choice(ORDERS), []
        for arm in order:
            values.append(math.exp(rng.gauss(0, 0.005) + carry * (last == "B") + effect * (arm == "B")))
            last = arm
        blocks.append(BlockValues(stage=1, index=index, order=order, builds="1111", values={"latency": tuple(values)}))
    return blocks


def test_trials_that_depend_on_their_predecessor_are_found():
    (reason,) = carry_over_reasons(Policy(), [LATENCY], blocks_with_carry_over(3, 0.03), seed=0)
    assert reason.code == "CARRY_OVER"
    assert "latency" in reason.text


def test_a_slow_head_is_no_carry_over():
    for seed in range(20):
        assert carry_over_reasons(Policy(), [LATENCY], blocks_with_carry_over(seed, 0.0, effect=0.05), seed=0) == ()


def test_carry_over_is_rarely_seen_where_there_is_none():
    ps = [carry_over_p(series(LATENCY, blocks_with_carry_over(seed, 0.0, effect=0.03)), 0) for seed in range(200)]
    # 200 draws at 5 %: 10 with a standard deviation of 3.
    assert sum(p <= 0.05 for p in ps) <= 25
    assert min(ps) > 0


def test_carry_over_worked_out_by_hand():
    # Order BABA, logs 2 1 0 1: no effect of head, and slots 2 and 4 follow a head trial. Slots 2-4 less their mean are
    # 1/3 -2/3 1/3, so the observed sum is 2/3. Head in slots 12 13 14 23 24 34 gives -1/3 2/3 1/3 -1/3 -2/3 1/3: one of
    # six reaches it.
    one = series_of_logs(np.array([[2.0, 1.0, 0.0, 1.0]]), np.array([[True, False, True, False]]))
    assert carry_over_p(one, 0) == pytest.approx(2 / 6)


def test_nothing_measured_has_no_carry_over():
    assert carry_over_reasons(Policy(), [LATENCY], [], seed=0) == ()
