"""The machine's own history in results.db: what is kept, when a step is told, and what is said of its cause."""

import json
from dataclasses import replace

import pytest

from perfguard.hooks import Hooks, tell_of_machine_change
from perfguard.machine_history import add_readings, remember, with_links
from perfguard.records import MachineReading
from perfguard.store import open_store
from tests.unit import campaign_cases, condition_cases
from tests.unit.condition_cases import CARD, card, conditions
from tests.unit.store_cases import reading_names

MACHINE = {
    "host": {"hostname_sha256": "m1", "kernel": "Linux 6.8"},
    "gpu": {"driver": "570.1", "gpus": [{"uuid": CARD, "pci_bus_id": "00000000:19:00.0"}]},
}


@pytest.fixture
def store(tmp_path):
    with open_store(tmp_path / "r.db") as opened:
        yield opened


def night(store, number, seconds, machine=MACHINE, of=None):
    """One comparison of the same base; notices of what it makes certain."""
    campaign = with_links(campaign_cases.campaign(id=f"c-{number}", machine=machine), store)
    store.add_campaign(campaign)
    found = of or conditions()
    trials = [
        replace(t, record={**t.record, "conditions": found}, measured_s=1.0)
        for t in campaign_cases.measured(campaign, lambda side: seconds)
    ]
    return remember(campaign, trials, store), campaign


def test_the_level_of_the_reference_arm_steps_and_the_notice_names_what_changed(store):
    for number in range(9):
        assert night(store, number, 1.0 + 0.001 * (number % 3))[0] == []
    updated = {**MACHINE, "gpu": {**MACHINE["gpu"], "driver": "580.2"}}
    assert night(store, 10, 1.07, updated)[0] == []
    assert night(store, 11, 1.07, updated)[0] == []
    (notice,), _ = night(store, 12, 1.071, updated)
    assert notice["name"].startswith("level/bench/seconds/")
    assert (notice["before"], notice["after"]) == (1.001, 1.07)
    assert notice["changed"] == ["gpu.driver was 570.1 and is 580.2"]
    assert "accuses no commit" in notice["text"]
    assert night(store, 13, 1.07, updated)[0] == [], "it is told once"


def test_another_commit_is_another_series(store):
    _, campaign = night(store, 0, 1.0)
    base, head = campaign.arms
    other = replace(base, revision=replace(base.revision, commit="e" * 40))
    later = replace(campaign, id="c-2", arms=(other, head))
    store.add_campaign(later)
    remember(later, campaign_cases.measured(later, campaign_cases.same), store)
    assert len([name for name in reading_names(store, "m1") if name.startswith("level/")]) == 2


def test_a_campaign_that_goes_on_is_counted_once(store):
    _, campaign = night(store, 0, 1.0)
    remember(campaign, campaign_cases.measured(campaign, campaign_cases.same), store)
    names = reading_names(store, "m1")
    assert [len(store.machine_readings("m1", name)) for name in names] == [1] * len(names)


def test_links_of_earlier_campaigns_travel_with_the_next_one(store):
    assert "links" not in night(store, 0, 1.0)[1].method
    assert night(store, 1, 1.0)[1].method["links"] == {CARD: {"generation": 5, "width": 16}}


def test_a_card_that_moved_to_a_narrow_slot_is_news_for_five_campaigns(store):
    """From then on that is what this machine is."""
    night(store, 0, 1.0)
    narrow = conditions({CARD: card(load={"pcie_width": 8})})
    known = [night(store, number, 1.0, of=narrow)[1].method["links"][CARD]["width"] for number in range(1, 7)]
    assert known == [16, 16, 16, 16, 16, 8]


def reading(value, number=0, source="bench"):
    return MachineReading(name="copy", unit="GB/s", value=value, measured_at=f"2026-01-{number + 1:02}", source=source)


def test_readings_come_back_as_they_were_stored_oldest_first(store):
    later = replace(reading(2.0, 3), facts={"driver": "1"})
    store.add_machine_readings("m1", [later, reading(1.0, 2)])
    store.add_machine_readings("m1", [replace(later, value=9.0)])
    assert store.machine_readings("m1", "copy") == [reading(1.0, 2), later]
    assert store.machine_readings("m2", "copy") == []


@pytest.mark.parametrize("value", [0.0, -1.0, float("nan"), float("inf")])
def test_what_is_no_reading_is_refused(store, value):
    with pytest.raises(ValueError, match="positive finite"):
        store.add_machine_readings("m1", [reading(value)])


def test_the_hook_is_told_of_a_step(store, tmp_path):
    for number, value in enumerate([100.0] * 9 + [80.0] * 2):
        assert add_readings("m1", [reading(value, number)], store) == []
    notices = add_readings("m1", [reading(80.0, 11)], store)
    hooks = Hooks(commands={"on_suspect": "touch suspicion", "on_machine_change": "cat > told.json"}, folder=tmp_path)
    assert tell_of_machine_change(hooks, notices) == ""
    told = json.loads((tmp_path / "told.json").read_text())
    assert (told["schema"], told["notices"][0]["code"]) == ("perfguard/machine_moved@1", "MACHINE_MOVED")
    assert not (tmp_path / "suspicion").exists()


def test_no_step_no_call_and_a_hook_that_fails_is_only_said(tmp_path):
    hooks = Hooks(commands={"on_machine_change": "exit 3"}, folder=tmp_path)
    assert tell_of_machine_change(hooks, []) == ""
    assert tell_of_machine_change(hooks, [{"code": "MACHINE_MOVED"}]) == "on_machine_change 'exit 3': exit code 3"


def test_trials_without_a_card_give_levels_only(store):
    night(store, 0, 1.0, of=condition_cases.conditions({}))
    assert [name.split("/")[0] for name in reading_names(store, "m1")] == ["level"]
