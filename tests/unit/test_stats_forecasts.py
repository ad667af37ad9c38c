"""Prices, forecasts and economics: numbers a person plans with."""

import math

import pytest
import scipy.stats

from perfguard.policy import Policy
from perfguard.records import Outcome
from perfguard.stats.design import rules_of
from perfguard.stats.economics import Speculation, break_even_accept_length, decompose, gain, levers
from perfguard.stats.effects import Estimate
from perfguard.stats.power import (
    blocks_still_needed,
    chance_of_confirmation,
    chance_of_verdict,
    smallest_detectable,
    smallest_reported,
)
from perfguard.stats.prices import LaunchCost, price_lines, price_list

RULES = rules_of(Policy(), 1)


def estimate(effect, sd, num_blocks):
    return Estimate(effect=effect, se=sd / math.sqrt(num_blocks), sd=sd, df=3 * num_blocks - 1)


def test_a_quiet_machine_will_reach_a_verdict_and_a_wild_one_will_not():
    assert chance_of_verdict(RULES, estimate(0.0, 0.005, 4), 4) > 0.99
    assert chance_of_verdict(RULES, estimate(0.05, 0.005, 4), 4) > 0.99
    assert chance_of_verdict(RULES, estimate(0.0, 0.10, 4), 4) < 0.05


def test_the_chance_of_a_verdict_is_that_of_the_final_estimate():
    # After 4 of 10 blocks: final se 0.005 sqrt(0.4) = 0.00316, spread of the final estimate 0.005 sqrt(0.6) = 0.00387.
    found = Estimate(effect=0.01, se=0.005, sd=0.01, df=11)
    inside = RULES.margin - scipy.stats.t.isf(0.0125, 29) * 0.0031623
    last = RULES.design.looks[max(RULES.design.looks)]
    beyond = max(RULES.margin, RULES.floor + scipy.stats.norm.isf(last) * 0.0031623)
    final = scipy.stats.norm(0.01, 0.0038730)
    expected = final.cdf(inside) - final.cdf(-inside) + final.cdf(-beyond) + final.sf(beyond)
    assert chance_of_verdict(RULES, found, 4) == pytest.approx(expected, rel=1e-4)


def test_confirmation_is_hopeless_in_the_other_direction():
    assert chance_of_confirmation(RULES, estimate(0.05, 0.005, 5), 5, 1) > 0.99
    assert chance_of_confirmation(RULES, estimate(0.05, 0.005, 5), 5, -1) < 1e-6


def test_forecasts_take_a_standard_error_of_zero():
    still = Estimate(effect=0.03, se=0.0, sd=0.0, df=11)
    assert chance_of_verdict(RULES, still, 4) == 1.0
    assert chance_of_confirmation(RULES, still, 5, 1) == 1.0
    assert blocks_still_needed(RULES, still, 4) == 1 + 3


def test_blocks_needed_for_equivalence_follow_the_formula():
    # t(0.9875, 29) = 2.364; (2.364 * 0.02 / (0.0198 - 0.0098))^2 = 22.3 blocks, 10 are there.
    assert blocks_still_needed(RULES, estimate(0.0098, 0.02, 10), 10) == 13
    assert blocks_still_needed(RULES, estimate(RULES.margin, 0.02, 10), 10) is None


def test_more_blocks_detect_smaller_slowdowns():
    found = [smallest_detectable(RULES, 0.01, q) for q in (2, 4, 6, 10)]
    assert found == sorted(found, reverse=True)
    assert smallest_detectable(RULES, 0.01, 1) is None
    assert smallest_reported(RULES, 0.01, 4) is None
    assert smallest_reported(RULES, 0.01, 5) > smallest_reported(RULES, 0.01, 20) > RULES.floor


def test_prices_of_a_plan_are_worked_out_by_hand():
    # A launch: 60 s load, 20 s measured, a pause of 0 to 4 s, 2 on average: 82 s, a block 328 s.
    cost = LaunchCost(load_s=60, measured_s=20, setup_s=100, rebuild_s=200)
    prices = price_list(Policy(), 1, cost, sd=0.01)
    assert prices.block_s == pytest.approx(328)
    moments = {m.outcome: (m.blocks, m.wall_s) for m in prices.earliest}
    assert moments[Outcome.EQUIVALENT] == (2, pytest.approx(100 + 2 * 328))
    assert moments[Outcome.SUSPECT] == (2, pytest.approx(100 + 2 * 328))
    assert moments[Outcome.REGRESSION] == (5, pytest.approx(100 + 200 + 5 * 328))
    hour = prices.offers[0]
    assert (hour.name, hour.blocks) == ("1 hour", 10)
    assert prices.offers[1].blocks == 20
    assert hour.mde > prices.offers[1].mde > 1


def test_a_budget_that_cannot_reach_any_verdict_says_so_first():
    cost = LaunchCost(load_s=900, measured_s=60)
    lines = price_lines(price_list(Policy(budget_s=3600), 1, cost, sd=None))
    assert lines[0] == "this budget (60 min) cannot reach any verdict"
    assert lines[1] == "1 hour (60 min) cannot reach any verdict"
    assert any(line.startswith("earliest REGRESSION: 5 blocks, 5.") for line in lines)


def test_without_confirmation_no_report_is_on_offer():
    prices = price_list(Policy(is_confirmed=False), 1, LaunchCost(load_s=1, measured_s=1), sd=0.01)
    assert {m.outcome for m in prices.earliest} == {Outcome.EQUIVALENT, Outcome.SUSPECT}


def test_excluding_rare_slow_launches_costs_launches():
    prices = price_list(Policy(max_blocks=20), 1, LaunchCost(load_s=1, measured_s=1), sd=0.01, slow_rate=0.10)
    # 29 clean head launches, two a block.
    assert next(m.blocks for m in prices.earliest if m.outcome is Outcome.EQUIVALENT) == 15


def test_an_unchanged_head_on_a_quiet_machine_likely_takes_the_fewest_blocks():
    cost = LaunchCost(load_s=1, measured_s=1)
    assert price_list(Policy(), 1, cost, sd=0.002).likely_equivalent == 2
    assert price_list(Policy(), 1, cost, sd=0.05).likely_equivalent is None
    assert price_list(Policy(), 1, cost, sd=None).likely_equivalent is None


# 29 ms to verify and 4 ms to draft against 12 ms a plain token, at an accept length of 2.0.
NOW = Speculation(accept_length=2.0, draft_s=0.004, verify_s=0.029)


def test_speculation_that_loses_27_percent_breaks_even_at_2_75():
    assert break_even_accept_length(NOW, 0.012) == pytest.approx(2.75)
    assert gain(NOW, 0.012) == pytest.approx(2.0 / 2.75 - 1)
    assert round(100 * gain(NOW, 0.012)) == -27


def test_levers_come_best_first():
    found = levers(NOW, 0.012, accept_length=3.0, verify_s=0.020)
    assert [lever.name for lever in found] == ["accept_length", "verify_s", "draft_s"]
    # 3.0 / 2.75 = 1.09; 2.0 * 12 / 24 = 1: a faster verify alone only breaks even; 2.0 * 12 / 29 = 0.83.
    assert [lever.gain for lever in found] == pytest.approx([1 / 11, 0, -5 / 29])


def test_throughput_decomposes_into_accept_length_and_cycle_time():
    then = Speculation(accept_length=2.4, draft_s=0.004, verify_s=0.020)
    found = decompose(then, NOW)
    assert found.accept_length == pytest.approx(math.log(2.0 / 2.4))
    assert found.cycle == pytest.approx(math.log(33 / 24))
    assert found.throughput == pytest.approx(math.log(NOW.throughput / then.throughput))
