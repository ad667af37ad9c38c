"""Gates on one card in one trial. Expected words and codes are worked out by hand from what the card is made to say."""

import pytest

from perfguard.conditions.events import kind_of
from perfguard.conditions.trial_gates import campaign_findings, gated
from perfguard.gate_policy import GatePolicy
from tests.unit import condition_cases as cases
from tests.unit.condition_cases import CARD, GATES, MIB


def found(of, earlier=(), links=None, gates=GATES):
    trials = [*(cases.trial("base", one) for one in earlier), cases.trial("head", of)]
    return campaign_findings(gates, cases.read(trials), links or {})[-1][1]


def codes(*arguments, **options):
    return [(one.code, one.action) for one in found(*arguments, **options)]


def of_card(**parts):
    return cases.conditions({CARD: cases.card(**parts)})


def test_a_healthy_card_sets_off_no_gate():
    assert found(cases.conditions()) == []


def test_a_trial_without_conditions_is_judged_by_none():
    trial = cases.campaign_cases.trial(1, 0, 0, "base", 1.0)
    assert gated(GATES, trial, [], {}) is trial


@pytest.mark.parametrize(("counter", "gate"), [
    ("event_sw_thermal_us", "thermal"),
    ("event_hw_thermal_us", "thermal"),
    ("event_sw_power_cap_us", "power_cap"),
])  # fmt: skip
def test_a_counter_tells_of_a_limit_that_sampled_flags_missed(counter, gate):
    """350 ms in one second of load, while the flags were never seen set."""
    (one,) = found(of_card(after={counter: 350_000}))
    assert (one.gate, one.action) == (gate, "record")
    assert "for 35 % of the loaded time" in one.text


def test_where_counters_are_not_supported_the_flags_count():
    none = {name: cases.unknown("not_supported") for name in cases.IDLE if name.startswith("event_")}
    mask = [[-0.5, 0x1], [0.0, 0x0], [0.75, 0x20]]
    (one,) = found(of_card(before=none, load={"event_reasons": mask}))
    assert (one.gate, "for 25 % of the loaded time" in one.text) == ("thermal", True)


def test_a_limit_before_the_trial_was_ready_is_not_under_load():
    assert found(of_card(load={"event_reasons": [[-0.5, 0x40], [0.0, 0x0]]})) == []


def test_what_a_command_does_before_it_uses_the_card_is_not_load():
    """Idle half of the time, at 345 MHz, by the driver or by utilisation: the clock under load is 1980."""
    late = {"sm_clock_mhz": [[-0.1, 345], [0.5, 1980]]}
    for idle in ({"event_reasons": [[-0.1, 1], [0.5, 0]]}, {"utilisation_percent": [[-0.1, 0], [0.5, 98]]}):
        (one,) = cases.read([cases.trial("base", of_card(load={**late, **idle}))])
        assert one.gpus[0].under_load("sm_clock_mhz") == [(0.5, 1980.0)]
        assert one.gpus[0].busy_s == 0.5


def test_where_nothing_tells_of_load_all_the_measured_time_counts():
    blind = {"event_reasons": cases.unknown(), "utilisation_percent": cases.unknown()}
    series = {name: [[-0.1, value]] for name, value in blind.items()}
    (one,) = cases.read([cases.trial("base", of_card(load={**series, "sm_clock_mhz": [[-0.1, 345], [0.5, 1980]]}))])
    assert one.gpus[0].under_load("sm_clock_mhz") == [(0.5, 345.0), (0.5, 1980.0)]


@pytest.mark.parametrize(("mask", "kinds"), [
    (0x0, set()),
    (0x1, set()),
    (0x4, {"power_cap"}),
    (0x5, {"power_cap"}),
    (0x88, {"power_brake"}),
    (0x80, {"power_brake"}),
    (0x8, {"power_cap"}),
    (0x48, {"thermal"}),
    (0x28, {"thermal", "power_cap"}),
    (0x84, {"power_brake", "power_cap"}),
    (0x200, set()),
    (0x800, set()),
])  # fmt: skip
def test_every_mask_is_read_bit_by_bit_and_idle_is_no_limit(mask, kinds):
    assert kind_of(mask) == kinds


def test_a_hardware_slowdown_without_a_cause_is_recorded_and_voids_nothing():
    slowed = of_card(load={"event_reasons": 0x8, "sm_clock_mhz": 1700})
    assert codes(slowed) == [("POWER_CAP", "record")]
    assert gated(GATES, cases.trial("head", slowed), [], {}).status == "ok"


def test_an_external_power_brake_voids_the_trial_although_it_is_cool():
    braked = of_card(load={"event_reasons": 0x88, "sm_clock_mhz": 345, "temperature_c": 60})
    assert codes(braked) == [("POWER_BRAKE", "void")]
    trial = gated(GATES, cases.trial("head", braked), [], {})
    assert (trial.status, [reason.code for reason in trial.reasons]) == ("invalid", ["POWER_BRAKE"])


def test_a_lock_that_is_not_held_is_said_and_voids_nothing():
    clocks = [[0.0, 1830], [0.25, 1815], [0.5, 1650], [0.75, 1500]]
    locked = {**of_card(load={"sm_clock_mhz": clocks}), "clocks": {"target_mhz": 1830}}
    (one,) = found(locked)
    assert (one.code, one.action) == ("LOCK_NOT_HELD", "warn")
    assert "1699 MHz under load, locked were 1830 MHz" in one.text  # (1830 + 1815 + 1650 + 1500) / 4
    assert gated(GATES, cases.trial("head", locked), [], {}).status == "ok"


def test_an_idle_link_of_generation_1_means_nothing():
    """Generation follows load: 1 when idle, 3 under load of a card that can do 4."""
    assert found(of_card(before={"pcie_generation_max": 4}, load={"pcie_generation": [[-1.0, 1], [0.1, 3]]})) == []


def test_generation_1_under_load_is_said_where_nothing_better_is_known():
    assert codes(of_card(load={"pcie_generation": 1})) == [("LINK", "warn")]


def test_a_link_slower_than_in_earlier_trials_voids_the_trial():
    slow = of_card(load={"pcie_generation": 3})
    assert codes(slow, earlier=[cases.conditions()]) == [("LINK", "void")]


def test_a_link_narrower_than_on_earlier_days_is_said_but_both_arms_share_it():
    narrow = of_card(load={"pcie_width": 8})
    (one,) = found(narrow, links={CARD: {"generation": 5, "width": 16}})
    assert (one.code, one.action) == ("LINK_HISTORY", "warn")
    assert "x8 under load, on this machine it was x16" in one.text


@pytest.mark.parametrize(("first", "last", "seen"), [
    (1_000_000, 1_000_000, []),
    (0, 40_000, [("REPLAYS", "warn")]),
    (4_294_967_295, 3, []),  # it began again: no number can be had from that
    (0, 12, []),
])  # fmt: skip
def test_replays_count_by_difference(first, last, seen):
    assert codes(of_card(before={"pcie_replay_count": first}, after={"pcie_replay_count": last})) == seen


@pytest.mark.parametrize("counter", ["ecc_uncorrected_count", "remapped_rows_uncorrected", "remapped_rows_corrected"])
def test_failing_memory_voids_the_trial(counter):
    assert codes(of_card(before={counter: 11}, after={counter: 12})) == [("MEMORY_ERRORS", "void")]


@pytest.mark.parametrize(("state", "stops"), [
    ({"remapped_rows_uncorrected": 4, "remap_is_pending": True}, True),
    ({"remap_has_failed": True}, True),
    ({"remapped_rows_corrected": 4}, False),
    ({}, False),
])  # fmt: skip
def test_a_card_that_wants_a_reset_stops_the_campaign(state, stops):
    assert [one.action for one in found(of_card(before=state))] == ["stop"] * stops


def test_a_lost_card_is_failed_hardware_once_and_clearly():
    lost = {name: cases.unknown("error", "GPU is lost") for name in cases.IDLE}
    (one,) = found(of_card(after=lost))
    assert (one.code, one.action) == ("GPU_LOST", "stop")
    assert "the hardware failed" in one.text


def test_a_process_of_others_before_the_launch_voids_the_trial():
    (one,) = found(of_card(before={"processes": [[4242, 3000 * MIB]]}, after={"processes": []}))
    assert (one.code, one.action) == ("FOREIGN_PROCESS", "void")
    assert "pid 4242 with 3000 MiB was there before the launch" in one.text


def test_a_process_whose_memory_is_unknown_counts_and_a_trifle_does_not():
    assert codes(of_card(before={"processes": [[4242, None]]})) == [("FOREIGN_PROCESS", "void")]
    assert codes(of_card(before={"processes": [[4242, 20 * MIB]]})) == []


def test_load_of_somebody_hidden_is_shown_by_memory():
    """In a container the process list is empty; memory and utilisation are those of the whole card."""
    busy = of_card(
        before={"utilisation_percent": 97, "memory_used_bytes": 9000 * MIB}, after={"utilisation_percent": 0}
    )
    assert codes(busy) == [("FOREIGN_LOAD", "void")]


def test_load_of_somebody_hidden_is_shown_by_power_above_what_is_usual():
    busy = of_card(before={"utilisation_percent": 97, "power_average_w": 300.0})
    assert codes(busy, earlier=[cases.conditions()] * 2) == [("FOREIGN_LOAD", "void")]
    assert codes(busy) == [("UTILISATION", "warn")], "nothing is known of what is usual"


# As a card told it, on which one launch followed another within 0.2 s; then somebody who stays, and a launch too short
# or too quick to tell.
LAGS = [(-6.87, 19), (-6.67, 0), (-4.87, 3), (-4.67, 0), (-3.67, 100), (-3.27, 0), (0.1, 95)]
STAYS = [(-6.87, 97), (-6.67, 60), (-6.27, 0), (-6.07, 88)]
SHORT = [(-0.5, 19), (-0.3, 0)]
QUICK = [(-0.9, 19), (-0.7, 0), (-0.2, 99), (0.4, 98)]


@pytest.mark.parametrize(
    ("utilisation", "seen"),
    [
        (LAGS, []),
        (STAYS, [("FOREIGN_LOAD", "void")]),
        (SHORT, [("FOREIGN_LOAD", "void")]),
        (QUICK, [("FOREIGN_LOAD", "void")]),
        ([], [("FOREIGN_LOAD", "void")]),
    ],
)
def test_the_load_of_our_own_launch_before_this_one_is_over_a_second_later(utilisation, seen):
    card = cases.card(before={"utilisation_percent": 19, "power_average_w": 265.0})
    card["during"] |= {"until_s": max((t for t, _ in utilisation), default=0.0)}
    card["during"]["fields"] = {"utilisation_percent": utilisation} if utilisation else {}
    earlier = [cases.conditions()] * 2
    assert codes(cases.conditions({cases.CARD: card}), earlier=earlier) == seen


def test_utilisation_with_nothing_to_show_for_it_only_warns():
    assert codes(of_card(before={"utilisation_percent": 60})) == [("UTILISATION", "warn")]


@pytest.mark.parametrize(("mib", "seen"), [(0, []), (2, []), (32, []), (900, [("FOREIGN_MEMORY", "warn")])])
def test_an_idle_card_is_not_at_zero(mib, seen):
    assert codes(of_card(before={"memory_used_bytes": mib * MIB})) == seen


def test_the_policy_decides_what_a_gate_does():
    brake = of_card(load={"event_reasons": 0x80})
    assert codes(brake, gates=GatePolicy(power_brake="record")) == [("POWER_BRAKE", "record")]
    assert gated(GatePolicy(power_brake="record"), cases.trial("head", brake), [], {}).status == "ok"


def test_no_gate_looks_at_the_measured_value():
    slow = cases.trial("head", cases.conditions(), values={"seconds": 1e6})
    assert gated(GATES, slow, [cases.trial()], {}).status == "ok"


def test_an_unmeasured_first_run_is_never_voided():
    brake = of_card(load={"event_reasons": 0x80})
    first = cases.campaign_cases.trial(0, 1, 0, "base", 1.0, record={"conditions": brake})
    assert gated(GATES, first, [], {}).status == "ok"


ELSEWHERE = cases.card(
    before={"utilisation_percent": 97, "power_average_w": 400.0, "processes": [[4242, 3000 * MIB]]},
    load={"utilisation_percent": 97, "power_average_w": 400.0, "event_reasons": 0x80, "pcie_generation": 1},
)


def test_a_neighbour_on_a_card_that_the_campaign_leaves_alone_is_no_concern():
    assert codes(cases.conditions({CARD: cases.card(), "GPU-other": ELSEWHERE})) == []


def test_a_neighbour_on_a_card_that_other_trials_use_is():
    assert codes(cases.conditions({CARD: ELSEWHERE}), earlier=[cases.conditions()])[-1] == ("FOREIGN_PROCESS", "void")
