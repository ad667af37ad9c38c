"""What a campaign on scripted GPUs leaves in each trial's record, and how `--clocks` ends. The command line itself."""

import json
import os
import sys
from pathlib import Path

import pytest
from clock_support import FREE, cards, uuid, was_ever_locked
from standin import h200

sys.path.append(str(Path(__file__).resolve().parents[1] / "e2e"))
from cli_support import Project

from perfguard.machine.clock_rules import clocks_of_launch
from perfguard.store import open_store

SHORT = ("--metric", "x", "--", "sh", "-c", 'sleep 0.25; echo {\\"x\\": 1}')
RUN = ("run", "HEAD", "--trials", "1")


class Box:
    """A project on a machine of two scripted, busy cards."""

    def __init__(self, folder, script):
        self.script = script.write(*h200(0), *h200(1))
        script.set_load(True)
        self.project = Project(folder=folder)
        self.project.commit({"file": "1"})
        self.gpus = {name: script.env[name] for name in ("LD_LIBRARY_PATH", "PERFGUARD_STANDIN")}

    def run(self, *arguments, code=0, **env):
        return self.project.run(*arguments, code=code, **self.gpus, **env)

    def conditions(self):
        """Of every trial of the newest campaign, the unmeasured first run included."""
        with open_store(self.project.db) as store:
            newest = store.campaigns(1)[0].id
            return [trial.record["conditions"] for trial in store.trials(newest)]


@pytest.fixture
def box(tmp_path, script):
    return Box(tmp_path, script)


def test_each_trial_carries_cards_host_telemetry_and_clocks(box):
    box.run(*RUN, *SHORT)
    first_run, measured = box.conditions()
    for conditions in (first_run, measured):
        assert set(conditions) == {"gpus", "host", "telemetry", "clocks"}
        assert conditions["telemetry"] == {"status": "ok", "why": "", "zero": "ready"}
        assert conditions["clocks"]["wish"] == conditions["clocks"]["got"] == "observe"
        assert set(conditions["gpus"]) == {uuid(0), uuid(1)}
        assert conditions["host"]["after"]["monotonic_s"] > conditions["host"]["before"]["monotonic_s"]
    during = measured["gpus"][uuid(1)]["during"]
    ((first_s, clock_mhz),) = during["fields"]["sm_clock_mhz"]  # equal neighbours are one
    assert (first_s, clock_mhz) == (pytest.approx(during["from_s"], abs=0.5), 1980)
    assert during["from_s"] <= 0 < during["until_s"]  # it began before the measured part did
    assert not was_ever_locked(box.script)


def test_only_the_cards_that_the_trial_may_use_are_watched_and_locked(box):
    box.run(*RUN, "--clocks", "lock", "--env", f"CUDA_VISIBLE_DEVICES={uuid(1)}", *SHORT)
    assert set(box.conditions()[-1]["gpus"]) == {uuid(1)}
    assert {call.device for call in box.script.calls("nvmlDeviceSetGpuLockedClocks")} == {"1"}
    assert cards(box.script) == [FREE, FREE]


def test_cards_named_by_numbers_whose_order_is_unknown_are_all_watched_and_none_is_locked(box):
    said = box.run(*RUN, "--clocks", "lock", "--env", "CUDA_VISIBLE_DEVICES=1", *SHORT).stderr
    conditions = box.conditions()[-1]
    assert set(conditions["gpus"]) == {uuid(0), uuid(1)}
    assert "name them by UUID" in conditions["telemetry"]["why"]
    assert "name them by UUID" in said
    assert not was_ever_locked(box.script)


def test_a_machine_without_gpu_records_its_host_and_samples_nothing(box):
    box.script.write()
    box.run(*RUN, *SHORT)
    conditions = box.conditions()[-1]
    assert conditions["gpus"] == {}
    assert conditions["telemetry"]["status"] == "none"
    assert conditions["host"]["before"]["load_1min"] >= 0


def test_a_sampler_that_dies_is_in_the_record_and_the_trial_counts(box):
    box.script.write(*h200(0), "fault nvmlDeviceGetTotalEnergyConsumption crash after=3 calls=1")
    told = json.loads(box.run(*RUN, "--json", "-", *SHORT).stdout)
    assert told["outcome"] == "MEASURED"
    assert [conditions["telemetry"]["status"] for conditions in box.conditions()] == ["ok", "died"]


def test_a_lock_that_the_power_limit_does_not_allow_is_seen_in_the_record(box):
    box.script.write(*h200(0, sm_hold_mhz="cycle 0.1 1830 1650 1500"))
    box.run(*RUN, "--clocks", "lock", "--sm-clock", "1830", *SHORT)
    conditions = box.conditions()[-1]
    assert conditions["clocks"]["got"] == "locked"
    assert conditions["clocks"]["gpus"][uuid(0)]["target_mhz"] == 1830
    (seen,) = clocks_of_launch(conditions, 1830)
    assert seen.held_share < 0.95


def test_without_permission_a_wish_is_recorded_said_once_and_measured_unlocked(box):
    box.script.write(*h200(0), "fault nvmlDeviceSetGpuLockedClocks 4")
    said = box.run(*RUN, "--clocks", "lock", *SHORT).stderr
    assert said.count("no_permission") == 1
    assert {conditions["clocks"]["got"] for conditions in box.conditions()} == {"no_permission"}
    assert {conditions["clocks"]["wish"] for conditions in box.conditions()} == {"lock"}


def test_a_required_lock_that_is_refused_ends_with_exit_code_4_before_anything_is_measured(box):
    box.script.write(*h200(0), "fault nvmlDeviceSetGpuLockedClocks 4")
    done = box.run(*RUN, "--clocks", "require", *SHORT, code=4)
    assert "clocks are not locked (no_permission)" in done.stderr
    as_root = "" if os.geteuid() == 0 else "the same as root, or "
    assert f"next: {as_root}with --clocks observe" in done.stderr
    assert box.conditions() == []


def test_a_clock_without_a_lock_is_a_usage_error(box):
    done = box.run(*RUN, "--sm-clock", "1500", *SHORT, code=2)
    assert "--sm-clock 1500 is a clock to lock" in done.stderr


def test_calibrate_finds_the_highest_clock_that_holds_and_later_runs_lock_it(box):
    box.script.write(*h200(0, sm_hold_mhz=1740))
    name = (
        "[workload.w]\nrunner = 'command'\nread = 'json'\ncommand = ['sh', '-c', 'sleep 0.25; echo {\\\"x\\\": 1}']\n"
    )
    metric = "metrics = [{name = 'x', better = 'lower'}]\n"
    box.project.write({"perfguard.toml": f"{name}{metric}[policy]\npause_share = 0\n"})
    done = box.run("calibrate", "-w", "w", "--launches", "8", "--clocks", "lock", "--json", "-", code=(0, 1, 2, 3, 4))
    found = json.loads(done.stdout)["clocks"]
    assert (found["sm_mhz"], found["is_held"]) == (1740, True)
    assert [tried["sm_mhz"] for tried in found["tried"]] == [1980, 1740]
    assert cards(box.script) == [FREE, FREE]
    box.run("run", "HEAD", "--trials", "1", "-w", "w", "--clocks", "lock")
    assert box.conditions()[-1]["clocks"]["gpus"][uuid(0)]["target_mhz"] == 1740
