"""Gates on the host, on what must not change, and on telemetry itself. Ten seconds, four threads."""

import pytest

from perfguard.conditions.trial_gates import campaign_findings, gated
from tests.unit import condition_cases as cases
from tests.unit.condition_cases import CARD, GATES, MIB


def codes(*of):
    """Of the last of several trials in turn."""
    trials = [cases.trial("base", one) for one in of]
    return [(one.code, one.action) for one in campaign_findings(GATES, cases.read(trials), {})[-1][1]]


@pytest.mark.parametrize(("after", "seen"), [
    ({"steal_s": 101.2}, [("STEAL", "warn")]),  # 1.2 s of 40 s of processor time: 3 %
    ({"steal_s": 100.4}, []),
    ({"swap_in_bytes": 40 * MIB}, [("SWAP", "warn")]),
    ({"swap_in_bytes": 4 * MIB, "swap_out_bytes": 4 * MIB}, []),
    ({"waited_cpu_s": 703.5}, [("PRESSURE", "record")]),  # 3.5 s of 10 s
    ({"waited_memory_s": 3.5}, [("PRESSURE", "record")]),
    ({"waited_cpu_s": 701.9, "waited_io_s": 41.9}, []),
    ({"gpu_xids": [["0000:19:00", 31], ["0000:19:00", 63]]}, [("XID", "void")]),
    ({"gpu_xids": []}, []),  # the ring buffer lost its oldest line
    ({"wall_s": 1_000_010.0 - 3600}, [("CLOCK_JUMPED", "void")]),
    ({"wall_s": 1_000_011.0}, [("CLOCK_JUMPED", "void")]),
    ({"wall_s": 1_000_010.2}, []),  # NTP slewing
    ({"wall_s": 1_000_610.0, "boottime_s": 5_610.0}, [("MACHINE_SLEPT", "void")]),
])  # fmt: skip
def test_the_host_during_a_trial(after, seen):
    assert codes(cases.conditions(host_after=after)) == seen


def test_what_the_host_does_not_tell_sets_off_nothing():
    nothing = {name: cases.unknown("not_supported") for name in cases.HOST}
    assert codes(cases.conditions(host_before=nothing, host_after=nothing)) == []


@pytest.mark.parametrize(("name", "value"), [
    ("driver", "590.10"),
    ("pci_bus_id", "00000000:1A:00.0"),
    ("numa_node", 1),
])  # fmt: skip
def test_a_card_that_is_another_one_than_at_the_first_trial_stops_the_campaign(name, value):
    changed = cases.conditions({CARD: cases.card(before={name: value})})
    assert codes(cases.conditions(), changed) == [("MACHINE_CHANGED", "stop")]


def test_a_driver_that_changes_within_one_trial_is_seen_too():
    changed = cases.conditions({CARD: cases.card(after={"driver": "590.10"})})
    assert codes(cases.conditions(), changed) == [("MACHINE_CHANGED", "stop")]


def test_other_cards_than_at_the_first_trial_stop_the_campaign():
    assert codes(cases.conditions(), cases.conditions({"GPU-b": cases.card()})) == [("MACHINE_CHANGED", "stop")]


def test_a_fact_that_could_not_be_read_once_has_not_changed():
    blind = cases.conditions({CARD: cases.card(before={"driver": cases.unknown()}, after={"driver": "580.65.06"})})
    assert codes(cases.conditions(), blind) == []


@pytest.mark.parametrize(("status", "seen"), [
    ("ok", []),
    ("none", []),
    ("died", [("TELEMETRY", "warn")]),
    ("hung", [("TELEMETRY", "warn")]),
])  # fmt: skip
def test_telemetry_that_died_or_hung_is_said_and_the_trial_counts(status, seen):
    blind = cases.conditions({}, telemetry={"status": status, "why": "NVML: no answer within 5 s"})
    assert codes(cases.conditions(), blind) == seen
    assert gated(GATES, cases.trial("base", blind), [cases.trial()], {}).status == "ok"
