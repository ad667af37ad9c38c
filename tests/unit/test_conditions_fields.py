"""Values that cannot be, coverage, waiting for a cooler card, forgotten settings."""

import pytest

from perfguard.conditions.arm_gates import counted
from perfguard.conditions.coverage import coverage_json
from perfguard.conditions.leftovers import leftover_settings
from perfguard.conditions.plausible import read_trial
from perfguard.conditions.waits import cooldown_s
from perfguard.gate_policy import GatePolicy
from tests.unit import condition_cases as cases
from tests.unit.condition_cases import CARD, GATES


def of_card(**parts):
    return cases.conditions({CARD: cases.card(**parts)})


@pytest.mark.parametrize(("load", "field"), [
    ({"power_average_w": 900.0}, "power_average_w"),  # the limit is 700 W
    ({"power_average_w": 760.0}, None),  # regulators overshoot
    ({"sm_clock_mhz": 2100}, "sm_clock_mhz"),
    ({"temperature_c": 0}, "temperature_c"),
    ({"temperature_c": 255}, "temperature_c"),
    ({"utilisation_percent": 250}, "utilisation_percent"),
    ({}, None),
])  # fmt: skip
def test_a_value_that_cannot_be_makes_its_field_invalid(load, field):
    (gpu,) = read_trial(cases.trial("base", of_card(load=load))).gpus
    assert list(gpu.doubtful) == ([field] if field else [])
    assert field is None or gpu.under_load(field) == []


def stuck(temperature=40):
    return of_card(before={"temperature_c": 40}, load={"temperature_c": [[-0.5, 40], [0.0, temperature]]})


def test_a_temperature_that_never_moves_under_load_is_frozen():
    trials = cases.read([cases.trial("base", stuck())] * 4)
    assert all("exactly 40 in 4 trials" in one.gpus[0].doubtful["temperature_c"] for one in trials)
    assert cases.read([cases.trial("base", stuck())] * 3)[0].gpus[0].doubtful == {}, "three may be luck"


def test_a_temperature_that_moves_by_one_degree_is_alive():
    trials = cases.read([cases.trial("base", stuck())] * 3 + [cases.trial("base", stuck(41))])
    assert trials[0].gpus[0].doubtful == {}


def test_an_idle_card_may_stand_still():
    idle = of_card(load={"temperature_c": [[-0.5, 40], [0.0, 40]], "utilisation_percent": 0})
    assert cases.read([cases.trial("base", idle)] * 4)[0].gpus[0].doubtful == {}


def coverage(*of, machine=None):
    trials = [cases.trial("base", one) for one in of]
    return coverage_json(counted(cases.read(trials)), len(trials), machine or {})


def test_full_coverage_counts_fields_and_cards():
    names = cases.IDLE.keys() | cases.LOAD.keys()
    assert coverage(cases.conditions())["text"] == f"{len(names)} of {len(names)} fields of 1 GPU usable"


def test_a_field_without_permission_is_named_and_is_never_zero():
    found = coverage(of_card(before={"pcie_replay_count": cases.unknown("no_permission", "root only")}))
    assert found["unusable"] == {"pcie_replay_count": "no_permission: root only"}
    assert found["text"].endswith("not usable: pcie_replay_count (no_permission: root only)")
    assert "pcie_replay_count" not in found["usable"]


def test_a_field_that_cannot_be_is_not_covered():
    assert "cannot be" in coverage(of_card(load={"sm_clock_mhz": 5000}))["unusable"]["sm_clock_mhz"]


def test_no_usable_telemetry_is_a_line_of_its_own():
    nothing = {name: cases.unknown("error", "Unknown Error") for name in {**cases.IDLE, **cases.LOAD}}
    dead = cases.conditions({CARD: {"before": nothing, "after": nothing, "during": {}}})
    assert coverage(dead)["text"].startswith("no usable GPU telemetry: ")


GPU_MACHINE = {"gpu": {"gpus": [{"uuid": CARD}]}}


@pytest.mark.parametrize(("machine", "why", "text"), [
    ({}, "", "no GPU here; host conditions recorded"),
    (GPU_MACHINE, "NVML hung", "no usable GPU telemetry (NVML hung); host conditions recorded"),
])  # fmt: skip
def test_without_any_card_the_machine_says_whether_that_is_right(machine, why, text):
    blind = cases.conditions({}, telemetry={"status": "none", "why": why})
    assert coverage(blind, machine=machine)["text"] == text


def test_trials_of_an_older_perfguard_have_no_conditions():
    assert coverage_json([], 8, {})["text"] == "machine conditions were not recorded"


def test_coverage_of_some_trials_says_so():
    read = cases.read([cases.trial(), cases.campaign_cases.trial(1, 0, 1, "head", 1.0)])
    assert "in 1 of 2 trials" in coverage_json(read, 2, {})["text"]


STARTS = [{CARD: 40.0}, {CARD: 44.0}, {CARD: 42.0}]


@pytest.mark.parametrize(("degrees", "starts", "waited_s", "wait_s"), [
    (60.0, STARTS, 0.0, 2.0),  # above 42 + 3
    (45.0, STARTS, 0.0, 0.0),
    (30.0, STARTS, 0.0, 0.0),  # waiting warms nothing
    (60.0, [], 0.0, 0.0),  # the first trial sets the level
    (60.0, STARTS, 29.0, 1.0),
    (60.0, STARTS, 30.0, 0.0),  # the wait has an end
    (60.0, [{"GPU-b": 30.0}], 0.0, 0.0),
])  # fmt: skip
def test_waiting_for_a_cooler_card(degrees, starts, waited_s, wait_s):
    assert cooldown_s(GATES, {CARD: degrees}, starts, waited_s) == wait_s


def test_waiting_can_be_switched_off():
    assert cooldown_s(GatePolicy(cooldown_max_s=0), {CARD: 90.0}, STARTS, 0.0) == 0.0


@pytest.mark.parametrize(("environment", "wanted", "number"), [
    ({"NCCL_P2P_DISABLE": "1"}, {}, 1),
    ({"NCCL_P2P_DISABLE": "0"}, {}, 0),
    ({"NCCL_P2P_DISABLE": "1"}, {"NCCL_P2P_DISABLE": "1"}, 0),  # asked for
    ({"NCCL_DEBUG": "info", "PATH": "/bin"}, {}, 1),
    ({"NCCL_PROTO": ""}, {}, 0),
    ({"OMP_NUM_THREADS": "4"}, {}, 0),  # as often meant as forgotten: the doctor's to tell
])  # fmt: skip
def test_forgotten_settings_are_pointed_out(environment, wanted, number):
    assert len(leftover_settings(environment, wanted)) == number


def test_cards_that_are_there_and_not_used_are_not_coverage():
    idle = of_card(load={"utilisation_percent": 0, "power_average_w": 80.0})
    assert coverage(idle, machine=GPU_MACHINE)["text"] == "no GPU was used; host conditions recorded"
