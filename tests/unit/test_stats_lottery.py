import math

import numpy as np
import pytest

from perfguard.stats.effects import series_of_logs
from perfguard.stats.lottery import find_lottery, is_open, launches_to_exclude, slow_rate_not_excluded

MARGIN = math.log(1.02)
IS_HEAD = np.array([[False, True, True, False]])


def launches(num_blocks, slow=(), gap=0.06, sd=0.001, seed=1):
    """Blocks ABBA of quiet launches; `slow` lists (block, slot) that are slower by the gap."""
    logs = np.random.default_rng(seed).normal(0, sd, (num_blocks, 4))
    for block, slot in slow:
        logs[block, slot] += gap
    return series_of_logs(logs, np.repeat(IS_HEAD, num_blocks, axis=0))


def test_slow_launches_of_head_alone_are_counted_by_arm():
    found = find_lottery(launches(6, slow=[(0, 1), (3, 2), (5, 1)]), MARGIN)
    assert (found.num_slow_head, found.num_head, found.num_slow_base, found.num_base) == (3, 12, 0, 12)
    assert found.gap == pytest.approx(0.06, abs=0.002)
    assert is_open(found)


def test_slow_launches_of_both_arms_are_a_lottery_but_no_difference():
    found = find_lottery(launches(6, slow=[(0, 1), (3, 0)]), MARGIN)
    assert (found.num_slow_head, found.num_slow_base) == (1, 1)
    assert not is_open(found)


def test_modes_closer_than_the_margin_are_none():
    assert find_lottery(launches(6, slow=[(0, 1), (3, 2)], gap=0.015), MARGIN) is None


def test_a_head_that_is_always_slow_is_a_slowdown_and_no_lottery():
    always = [(block, slot) for block in range(6) for slot in (1, 2)]
    assert find_lottery(launches(6, slow=always), MARGIN) is None


def test_drift_between_blocks_is_no_lottery():
    one = launches(6)
    drifting = series_of_logs(one.logs + np.linspace(0, 0.5, 6)[:, None], one.is_head)
    assert find_lottery(drifting, MARGIN) is None


def test_noise_without_modes_is_rarely_taken_for_a_lottery():
    # Noise of half the margin, seeds 0-399: a mode further than four standard deviations from the others is rare.
    found = [find_lottery(launches(4, sd=0.01, seed=seed), MARGIN) is not None for seed in range(400)]
    assert sum(found) / 400 < 0.03


def test_identical_launches_have_no_modes():
    assert find_lottery(launches(3, sd=0.0), MARGIN) is None


def test_rates_of_slow_launches_that_clean_ones_leave_possible():
    # 0.05^(1/4) = 0.4729; 0.95 = 1 - 0.05 for a single launch.
    assert slow_rate_not_excluded(4) == pytest.approx(0.527, abs=0.001)
    assert slow_rate_not_excluded(1) == pytest.approx(0.95)
    assert launches_to_exclude(0.10) == 29
    assert launches_to_exclude(0.0) == 0
    assert (1 - 0.10) ** 29 <= 0.05 < (1 - 0.10) ** 28
