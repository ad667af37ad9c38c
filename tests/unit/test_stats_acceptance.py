"""Accept rates by position, their limits, and what tells a wrong wiring from a weak draft."""

import pytest
from scipy.stats import norm

from perfguard.stats.acceptance import Z, accept_length, rates_by_position, wilson, wiring
from perfguard.stats.economics import (
    Speculation,
    expected_distinct_experts,
    gain_table,
    mean_ratio,
    predictions,
    weight_bytes,
)


def test_rates_are_of_those_that_came_so_far():
    rates = rates_by_position(100, [60, 30, 15])
    assert [(rate.tried, rate.accepted, rate.rate) for rate in rates] == [(100, 60, 0.6), (60, 30, 0.5), (30, 15, 0.5)]
    assert accept_length([rate.rate for rate in rates]) == pytest.approx(1 + 0.6 + 0.3 + 0.15)


def test_counts_that_no_cycle_could_give_are_refused():
    with pytest.raises(ValueError, match="do not descend"):
        rates_by_position(10, [5, 6])


def test_the_limits_are_the_roots_of_the_normal_test():
    """At a limit p the observed share lies exactly Z standard errors away; Z is the 99.5 % quantile."""
    assert pytest.approx(norm.ppf(0.995), abs=2e-4) == Z
    low, high = wilson(12, 40)
    for limit in (low, high):
        assert abs(0.3 - limit) == pytest.approx(Z * (limit * (1 - limit) / 40) ** 0.5)
    assert wilson(0, 0) == (0.0, 1.0)


@pytest.mark.parametrize(
    ("cycles", "accepted", "found"),
    [
        (1000, [700, 420, 210], "good"),  # 70, 60, 50 %: slow decay
        (1000, [10, 8, 7], "collapsed"),  # near chance
        (1000, [250, 225, 200], "collapsed"),  # 25 %, then 90 %
        (1000, [250, 50, 10], "good"),  # weak from the start to the end
        (29, [0, 0, 0], "unknown"),
        (1000, [1000, 1000, 1000], "good"),
        (40, [3, 0, 0], "good"),  # 7.5 % of 40 may be 24 %: not sure enough
    ],
)
def test_a_collapse_at_position_1_is_wiring_and_slow_decay_is_the_draft(cycles, accepted, found):
    assert wiring(rates_by_position(cycles, accepted)) == found


def test_no_counts_are_unknown():
    assert wiring(()) == "unknown"


@pytest.mark.parametrize(
    ("experts", "top_k", "tokens", "expected"),
    [(128, 8, 1, 8), (128, 8, 3, 22.5), (128, 8, 4, 29.1), (384, 8, 3, 23.5), (8, 2, 4, 5.5)],
)
def test_distinct_experts_of_uniform_routing(experts, top_k, tokens, expected):
    assert expected_distinct_experts(experts, top_k, tokens) == pytest.approx(expected, abs=0.05)


def test_weight_bytes_of_a_small_model_by_hand():
    """One layer of width 4: q and o 2·4·4, k and v 2·2·4, router 4·2, one expert 3·4·8; head 10·4; 2 bytes each."""
    config = {
        "hidden_size": 4, "num_heads": 2, "num_kv_heads": 1, "head_dim": 2, "num_experts": 2, "expert_size": 8,
        "num_layers": 1, "vocab_size": 10,
    }  # fmt: skip
    assert weight_bytes(config, 2, 1.0) == 2 * (32 + 16 + 8 + 96 + 40)


def test_an_interval_needs_two_blocks_and_covers_their_spread():
    assert mean_ratio([2.5]) == (2.5, None, None)
    middle, low, high = mean_ratio([2.0, 2.0, 2.0])
    assert (middle, low, high) == pytest.approx((2.0, 2.0, 2.0))
    middle, low, high = mean_ratio([1.0, 4.0])
    assert middle == pytest.approx(2.0)
    assert low < 1.0 < 4.0 < high


def test_the_founding_numbers_lose_27_percent_and_a_verify_of_20_ms_breaks_even():
    """29 ms verify and 4 ms draft against 12 ms a token, 2.0 tokens a cycle."""
    rows = dict(gain_table(Speculation(accept_length=2.0, draft_s=0.004, verify_s=0.029), 0.012, [2.0, 3.0]))
    assert rows[2.0][2] == pytest.approx(24 / 33 - 1)
    assert rows[3.0][2] == pytest.approx(36 / 33 - 1)
    faster = Speculation(accept_length=2.0, draft_s=0.004, verify_s=0.020)
    assert gain_table(faster, 0.012, [2.0])[0][1][2] == pytest.approx(0.0)


def test_predictions_meet_the_measured_number_and_know_the_first_pass_apart():
    measured = Speculation(accept_length=1.85, draft_s=0.005, verify_s=0.020, accept_s=0.001)
    one, two, *_ = predictions([0.6, 0.25 / 0.6], measured, 0.010, extend_s=0.003)
    assert one.cycle_s == pytest.approx(0.003 + 0.015 + 0.001)
    assert (two.cycle_s, two.accept_length) == pytest.approx((0.026, 1.85))
    assert not two.is_extended
