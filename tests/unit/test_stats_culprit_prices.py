"""Forecasts of what a bisect takes, against information theory worked out by hand and figures of simulated searches."""

from math import log1p

import pytest

from perfguard.stats.culprit_prices import capacity, phantom_trials, search_trials


def test_a_reading_tells_nothing_without_signal_and_a_bit_where_it_is_beyond_doubt():
    assert capacity(0.0) == pytest.approx(0.0, abs=1e-9)
    assert capacity(400.0) == 1.0
    assert capacity(64.0) == pytest.approx(1.0, abs=1e-3)
    # Small signals: snr / (8 ln 2) bits, the first term of the series.
    assert capacity(0.01) == pytest.approx(0.01 / (8 * 0.693147), rel=0.01)


@pytest.mark.parametrize(("num", "simulated"), [(16, 23), (64, 27), (256, 32), (1024, 36)])
def test_five_percent_at_one_percent_noise_takes_what_simulated_searches_took(num, simulated):
    assert search_trials(num, log1p(0.05), 0.01) == pytest.approx(simulated, rel=0.2)


def test_noise_and_small_changes_cost_and_a_calm_machine_has_a_least_price():
    assert search_trials(64, log1p(0.03), 0.01) > search_trials(64, log1p(0.05), 0.01)
    assert search_trials(64, log1p(0.05), 0.02) > search_trials(64, log1p(0.05), 0.01)
    assert phantom_trials(log1p(0.02), 0.0001) == 6
    assert phantom_trials(log1p(0.02), 0.01) == pytest.approx(12, abs=4)
