"""What goes into a trial's record, and which cards a campaign may watch and change. Pure."""

import json

import pytest

from perfguard.holding import cards_of, visible_to, wanted_cards
from perfguard.machine.conditions import Around, conditions_json
from perfguard.machine.telemetry import Recording
from perfguard.machine.visible import Visible

CARDS = ("GPU-a", "GPU-b")
DURING = {
    "interval_s": 0.1,
    "from_s": 996.0,
    "until_s": 1010.5,
    "num_samples": 145,
    "missed": 0,
    "fields": {"sm_clock_mhz": [[996.0, 345], [1000.004, 1980]]},
    "thinned": {},
}


def around(**changed):
    recording = Recording(
        status="ok", before={"GPU-a": {"energy_j": 1}}, after={"GPU-a": {"energy_j": 9}}, during={"GPU-a": DURING}
    )
    values = {
        "recording": recording,
        "note": "",
        "zero_s": 1000.0,
        "is_ready": True,
        "host_before": {"load_1min": 0.5},
        "host_after": {"load_1min": 0.6},
        "clocks": {"wish": "observe", "got": "observe"},
    }
    return Around(**{**values, **changed})


def test_times_count_from_the_moment_the_measured_part_began():
    during = conditions_json(around())["gpus"]["GPU-a"]["during"]
    assert (during["from_s"], during["until_s"]) == (-4.0, 10.5)
    assert during["fields"]["sm_clock_mhz"] == [[-4.0, 345], [0.0, 1980]]
    assert "-0.0" not in json.dumps(during)


def test_what_is_recorded_is_plain_json():
    conditions = conditions_json(around())
    assert json.loads(json.dumps(conditions, allow_nan=False)) == conditions


def test_a_launch_that_died_before_it_was_ready_says_that_its_times_count_from_the_start():
    assert conditions_json(around(is_ready=False))["telemetry"]["zero"] == "start"


def test_a_card_that_was_seen_only_before_has_only_that():
    died = Recording(status="died", why="its process ended by signal 11", before={"GPU-a": {"energy_j": 1}})
    conditions = conditions_json(around(recording=died))
    assert conditions["gpus"] == {"GPU-a": {"before": {"energy_j": 1}}}
    assert conditions["telemetry"] == {"status": "died", "why": "its process ended by signal 11", "zero": "ready"}


def test_cards_whose_uuid_could_not_be_read_are_left_out():
    machine = {"gpu": {"gpus": [{"uuid": "GPU-a"}, {"uuid": None, "unknown": {"uuid": "GPU is lost"}}]}}
    assert cards_of(machine) == ("GPU-a",)
    assert cards_of({}) == ()


@pytest.mark.parametrize(
    ("env", "uuids"),
    [
        ({}, CARDS),
        ({"CUDA_VISIBLE_DEVICES": "GPU-b"}, ("GPU-b",)),
        ({"CUDA_VISIBLE_DEVICES": ""}, ()),
        ({"CUDA_VISIBLE_DEVICES": "1", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}, ("GPU-b",)),
        ({"CUDA_VISIBLE_DEVICES": "1"}, None),  # CUDA may number them otherwise
        ({"CUDA_VISIBLE_DEVICES": "MIG-1/2/3"}, ("MIG-1/2/3",)),
    ],
)
def test_the_cards_of_a_trial_follow_from_its_environment(env, uuids):
    assert visible_to(CARDS, env).uuids == uuids


def test_the_clocks_of_every_arm_s_cards_matter():
    arms = [Visible(uuids=("GPU-b",)), Visible(uuids=("GPU-a", "GPU-b"))]
    assert wanted_cards(arms) == Visible(uuids=("GPU-a", "GPU-b"))


def test_no_card_is_changed_on_a_guess():
    unknown = Visible(uuids=None, why="name them by UUID")
    assert wanted_cards([Visible(uuids=("GPU-a",)), unknown]) == unknown
