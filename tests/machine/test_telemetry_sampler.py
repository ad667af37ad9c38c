"""The sampler process against scripted GPUs: what it sees, and what it does to a trial when NVML fails (nothing)."""

import os
import signal
import subprocess
import sys
import time

import pytest
from standin import h200

from perfguard.machine.child import start_child
from perfguard.machine.sampler import AROUND, DURING, interval_for
from perfguard.machine.telemetry import MAX_LOSSES, SAMPLER, Telemetry, open_telemetry

UUIDS = tuple(f"GPU-{index:08x}-1111-2222-3333-444444444444" for index in range(2))


@pytest.fixture
def machine(script, monkeypatch):
    """A machine with two cards, seen by every process that is started here."""
    for name in ("LD_LIBRARY_PATH", "PERFGUARD_STANDIN"):
        monkeypatch.setenv(name, script.env[name])
    return script.write(*h200(0), *h200(1))


@pytest.fixture
def telemetry():
    """As a campaign has it; what it says is kept."""
    said = []
    with open_telemetry(has_gpu=True, say=said.append) as telemetry:
        telemetry.answer_limit_s = 2.0
        telemetry.interval_s = 0.1  # as found by an earlier sampler: on a loaded machine it would be longer
        telemetry.said = said
        yield telemetry


def watched(telemetry, uuids=UUIDS, seconds=0.35):
    telemetry.begin(uuids)
    time.sleep(seconds)
    return telemetry.end()


def values(recording, uuid, name):
    return [value for _, value in recording.during[uuid]["fields"][name]]


def test_a_launch_is_seen_before_during_and_after(machine, telemetry):
    telemetry.begin(UUIDS)
    machine.set_load(True)
    time.sleep(0.35)
    seen = telemetry.end()
    assert seen.status == "ok"
    for uuid in UUIDS:
        assert seen.before[uuid]["sm_clock_mhz"] == 345
        assert seen.after[uuid]["sm_clock_mhz"] == 1980
        assert values(seen, uuid, "sm_clock_mhz") in ([1980], [345, 1980])
        assert set(seen.during[uuid]["fields"]) == set(DURING)
        assert set(seen.before[uuid]) == set(seen.after[uuid]) == set(AROUND)
        assert seen.after[uuid]["energy_j"] > seen.before[uuid]["energy_j"]


def test_values_that_do_not_change_are_kept_once_however_often_they_were_read(machine, telemetry):
    seen = watched(telemetry)
    during = seen.during[UUIDS[0]]
    assert during["num_samples"] >= 2
    assert during["interval_s"] == 0.1
    assert all(len(samples) == 1 for samples in during["fields"].values())


def test_between_launches_some_fields_can_be_looked_at(machine, telemetry):
    assert telemetry.look(UUIDS, ["temperature_c"]) == {uuid: {"temperature_c": 31} for uuid in UUIDS}
    assert watched(telemetry, seconds=0.0).status == "ok"
    assert Telemetry(has_gpu=False).look(UUIDS, ["temperature_c"]) == {}


def test_only_the_cards_of_the_trial_are_read(machine, telemetry):
    seen = watched(telemetry, uuids=UUIDS[1:])
    assert set(seen.before) == set(seen.during) == {UUIDS[1]}


def test_dear_fields_are_read_before_and_after_and_never_while_it_runs(machine, telemetry):
    machine.write(*h200(0), "log all")
    seen = watched(telemetry, uuids=UUIDS[:1])
    calls = [call.function for call in machine.calls()]
    samples = seen.during[UUIDS[0]]["num_samples"]
    assert calls.count("nvmlDeviceGetTotalEnergyConsumption") == 2
    assert calls.count("nvmlDeviceGetPcieThroughput") == 0
    assert calls.count("nvmlDeviceGetCurrPcieLinkWidth") >= samples + 2


def test_what_cannot_be_read_says_why_once_and_takes_no_other_field_with_it(machine, telemetry):
    machine.write(*h200(0, power_w="error 3", field__185="error 3", field__186="error 3"))
    seen = watched(telemetry, uuids=UUIDS[:1])
    (power,) = values(seen, UUIDS[0], "power_average_w")
    assert power["unknown"] == "not_supported"
    assert values(seen, UUIDS[0], "temperature_c") == [31]


def test_a_card_that_is_lost_in_mid_trial_is_a_gap_with_a_reason_and_the_other_is_read_on(machine, telemetry):
    telemetry.begin(UUIDS)
    time.sleep(0.25)
    machine.write(*h200(0), *h200(1), "fault * 15 gpu=0")
    time.sleep(0.35)
    seen = telemetry.end()
    lost, other = (values(seen, uuid, "temperature_c") for uuid in UUIDS)
    assert seen.status == "ok"
    assert lost[0] == 31
    assert lost[-1]["unknown"] == "error"
    assert other == [31]


def test_a_call_that_hangs_ends_the_telemetry_of_this_trial_and_not_of_the_next(machine, telemetry):
    telemetry.begin(UUIDS)
    time.sleep(0.25)
    machine.write(*h200(0), *h200(1), "fault nvmlDeviceGetTemperature hang", "fault nvmlDeviceGetTemperatureV hang")
    time.sleep(0.3)
    seen = telemetry.end()
    assert seen.status == "hung"
    assert "did not answer" in seen.why
    assert values(seen, UUIDS[0], "sm_clock_mhz")[0] == 345  # what was seen before is kept
    machine.write(*h200(0), *h200(1))
    assert watched(telemetry).status == "ok"


def test_a_sampler_that_does_not_answer_is_given_up_within_its_limit(machine, telemetry):
    telemetry.answer_limit_s = 0.5
    telemetry.begin(UUIDS)
    pid = telemetry.child.process.pid
    os.kill(pid, signal.SIGSTOP)
    assert telemetry.end().status == "hung"
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_crash_inside_the_driver_library_costs_the_telemetry_of_one_trial(machine, telemetry):
    machine.write(*h200(0), *h200(1), "fault nvmlDeviceGetClockInfo crash after=8 calls=1")
    seen = watched(telemetry, seconds=0.5)
    assert seen.status == "died"
    assert "signal 11" in seen.why
    assert seen.before[UUIDS[0]]["sm_clock_mhz"] == 345
    assert watched(telemetry).status == "ok"


def test_after_several_losses_it_stays_off_and_says_so_once(machine, telemetry):
    machine.write(*h200(0), *h200(1), "fault nvmlDeviceGetTotalEnergyConsumption crash")
    states = [watched(telemetry, seconds=0.0).status for _ in range(MAX_LOSSES + 2)]
    assert states == ["died"] * (MAX_LOSSES + 2)
    assert telemetry.num_losses == MAX_LOSSES
    assert telemetry.child is None
    (said,) = telemetry.said
    assert f"given up after {MAX_LOSSES} times" in said


def test_where_nvml_does_not_open_there_is_none_said_once_with_its_reason(machine, telemetry):
    machine.write("fault nvmlInit_v2 18", "fault nvmlInitWithFlags 18")
    assert [watched(telemetry, seconds=0.0).status for _ in range(3)] == ["none"] * 3
    (said,) = telemetry.said
    assert "version mismatch" in said.lower()


def test_a_machine_without_gpu_starts_no_process():
    telemetry = Telemetry(has_gpu=False)
    assert watched(telemetry, seconds=0.0).status == "none"
    assert telemetry.child is None
    seeing = Telemetry(has_gpu=True)
    assert watched(seeing, uuids=(), seconds=0.0).why == "no GPU is visible to the trial"
    assert seeing.child is None


def test_the_sampler_dies_with_a_perfguard_that_is_killed(machine):
    code = (
        "import sys, time; from perfguard.machine.telemetry import Telemetry; t = Telemetry(has_gpu=True);"
        f"t.begin({UUIDS!r}); print(t.child.process.pid, flush=True); time.sleep(60)"
    )
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    pid = int(parent.stdout.readline())
    parent.kill()
    parent.wait()
    parent.stdout.close()
    until_s = time.monotonic() + 20
    while time.monotonic() < until_s and os.path.exists(f"/proc/{pid}/exe"):
        time.sleep(0.02)
    assert not os.path.exists(f"/proc/{pid}/exe")


def test_a_sampler_that_is_interrupted_from_the_terminal_goes_on(machine):
    child = start_child(SAMPLER, ["0.1", "2.0"])
    try:
        assert child.hear(30.0) == {"interval_s": 0.1}
        for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
            os.kill(child.process.pid, number)
        assert set(child.ask({"do": "begin", "uuids": list(UUIDS)}, 10.0)) == set(UUIDS)
    finally:
        child.close(1.0)


@pytest.mark.parametrize(("cost_s", "interval_s"), [(0.0001, 0.1), (0.001, 0.1), (0.004, 0.4), (1.0, 2.0)])
def test_readings_take_at_most_one_percent_of_a_core(cost_s, interval_s):
    assert interval_for(cost_s) == pytest.approx(interval_s)
