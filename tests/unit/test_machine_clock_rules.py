"""Which clock is locked, whether it held, and where a search goes next."""

import pytest

from perfguard.machine.clock_rules import (
    LoadedClock,
    busy_span,
    cautious_clock,
    clocks_of_launch,
    loaded_clock,
    nearest_supported,
    next_candidate,
)

H200 = tuple(range(1980, 330, -15))


@pytest.mark.parametrize(("asked", "found"), [(1830, 1830), (1837, 1830), (5000, 1980), (100, 345)])
def test_the_clock_locked_is_a_supported_one_at_or_below_the_one_asked_for(asked, found):
    assert nearest_supported(H200, asked) == found


def test_without_a_calibration_three_quarters_of_the_maximum_are_locked():
    assert cautious_clock(H200) == 1485  # 0.75 x 1980, which is a step
    assert cautious_clock(()) is None


def test_a_lock_holds_if_the_clock_was_there_for_nearly_all_of_the_loaded_time():
    # 1830 asked for; 2 s of ramp before the load, 100 s of load with 4 s below.
    samples = [(-2.0, 345), (0.0, 1830), (50.0, 1650), (54.0, 1815), (60.0, 1830)]
    seen = loaded_clock(samples, 0.0, 100.0, 1830)
    assert seen == LoadedClock(low_mhz=1815, held_share=pytest.approx(0.96))


def test_a_clock_that_the_power_limit_cycles_is_not_held():
    samples = [(float(t), [1830, 1815, 1650, 1500][t % 4]) for t in range(100)]
    seen = loaded_clock(samples, 0.0, 100.0, 1830)
    assert seen.low_mhz == 1500
    assert seen.held_share == pytest.approx(0.5)


def test_what_was_never_read_is_not_a_clock():
    gap = {"unknown": "error", "why": "Unknown Error"}
    assert loaded_clock([(0.0, gap)], 0.0, 10.0, 1830) is None
    assert loaded_clock([], 0.0, 10.0, 1830) is None
    half = loaded_clock([(0.0, 1830), (5.0, gap)], 0.0, 10.0, 1830)
    assert half.held_share == pytest.approx(0.5)  # unseen time proves nothing


def test_a_search_goes_down_to_what_the_slowest_card_reached_and_at_least_one_step():
    held, falls = LoadedClock(low_mhz=1980, held_share=1.0), LoadedClock(low_mhz=1740, held_share=0.2)
    assert next_candidate(1980, [held, falls]) == 1740
    assert next_candidate(1740, [LoadedClock(low_mhz=1740, held_share=0.90)]) == 1725
    assert next_candidate(1725, [LoadedClock(low_mhz=1725, held_share=0.95)]) is None


def test_only_the_time_in_which_the_card_was_busy_counts():
    # Loading until 3 s, a last idle second.
    assert busy_span([(-1.0, 0), (3.0, 100), (9.0, 0)], 10.0) == (3.0, 9.0)
    assert busy_span([(-5.0, 100)], 10.0) == (0.0, 10.0)
    assert busy_span([(0.0, {"unknown": "not_supported"})], 10.0) == (0.0, 10.0)


def test_the_clocks_of_a_launch_are_those_of_the_cards_that_were_seen():
    during = {
        "until_s": 10.0,
        "fields": {"sm_clock_mhz": [[-1.0, 345], [2.0, 1500]], "utilisation_percent": [[-1.0, 0], [2.0, 100]]},
    }
    conditions = {"gpus": {"GPU-a": {"before": {}, "during": during}, "GPU-b": {"before": {}}}}
    assert clocks_of_launch(conditions, 1500) == [LoadedClock(low_mhz=1500, held_share=pytest.approx(1.0))]
    assert clocks_of_launch({}, 1500) == []
