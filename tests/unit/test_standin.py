"""The stand-in for NVML plays what is scripted to the real bindings, and keeps what was set between processes."""

import json
import signal
import subprocess
import sys

import pytest
from standin import Script, build_standin, h200

ASK = """
import json, sys
import pynvml as n
def told(error):
    return f"error {error.value}"
def ask():
    n.nvmlInit()
    d = n.nvmlDeviceGetHandleByIndex(0)
    return eval(sys.argv[1], {"n": n, "d": d})
try:
    print(json.dumps(ask()))
except n.NVMLError as error:
    print(json.dumps(told(error)))
"""


def ask(script, expression, **kwargs):
    command = [sys.executable, "-c", ASK, expression]
    result = subprocess.run(command, env=script.env, capture_output=True, text=True, timeout=30, **kwargs)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def test_the_real_bindings_read_what_is_scripted(script):
    script.write(*h200(0, power_w=76.5), *h200(1), "topology 0 1 20", "process 0 4242 1048576", "process 0 17 -")
    other = "n.nvmlDeviceGetHandleByPciBusId('00000000:1A:00.0')"
    assert ask(
        script,
        "[n.nvmlDeviceGetName(d), n.nvmlDeviceGetCount(), n.nvmlDeviceGetPowerUsage(d),"
        " n.nvmlDeviceGetPciInfo(d).busId, n.nvmlDeviceGetSupportedGraphicsClocks(d, 3201)[:2],"
        f" n.nvmlDeviceGetTopologyCommonAncestor({other}, d), n.nvmlDeviceGetIndex({other}),"
        " [(p.pid, p.usedGpuMemory) for p in n.nvmlDeviceGetComputeRunningProcesses(d)]]",
    ) == ["NVIDIA H200", 2, 76500, "00000000:19:00.0", [1980, 1965], 20, 1, [[4242, 1048576], [17, None]]]


@pytest.mark.parametrize(
    ("value", "now", "read"),
    [
        ("ramp 0:40 60:85", 30, 62),  # 40 + 45 / 2
        ("ramp 0:40 60:85", 61, 85),
        ("step 0:40 5:50", 4.9, 40),
        ("step 0:40 5:50", 5, 50),
        ("cycle 0.5 30 31 32", 1.2, 32),
        ("cycle 0.5 30 31 32", 1.6, 30),
        ("error 4", 0, "error 4"),
    ],
)
def test_values_follow_the_time_of_the_script(script, value, now, read):
    script.write(f"now {now}", *h200(0, temperature_c=value))
    assert ask(script, "n.nvmlDeviceGetTemperatureV(d, 0)") == read


def test_an_idle_link_is_narrow_and_rises_under_load(script):
    script.write(*h200(0))
    assert ask(script, "n.nvmlDeviceGetCurrPcieLinkGeneration(d)") == 1
    script.set_load(True)
    assert ask(script, "n.nvmlDeviceGetCurrPcieLinkGeneration(d)") == 5
    script.set_load(False)
    assert ask(script, "n.nvmlDeviceGetCurrPcieLinkGeneration(d)") == 1


def test_a_lock_outlives_the_process_that_set_it_and_is_logged(script):
    script.write(*h200(0, sm_clock_mhz=1980))
    assert ask(script, "n.nvmlDeviceSetGpuLockedClocks(d, 1500, 1500)") is None
    assert ask(script, "[n.nvmlDeviceGetClockInfo(d, 1), n.nvmlDeviceGetCurrentClocksEventReasons(d) & 2]") == [1500, 2]
    ask(script, "n.nvmlDeviceResetGpuLockedClocks(d)")
    assert ask(script, "n.nvmlDeviceGetClockInfo(d, 1)") == 1980
    assert [(call.function, call.arguments, call.code) for call in script.calls()] == [
        ("nvmlDeviceSetGpuLockedClocks", (1500, 1500), 0),
        ("nvmlDeviceResetGpuLockedClocks", (), 0),
    ]


def test_a_lock_is_a_request_that_the_power_limit_may_not_hold(script):
    script.write("now 0.7", *h200(0, sm_hold_mhz="cycle 0.5 1830 1650"))
    ask(script, "n.nvmlDeviceSetGpuLockedClocks(d, 1830, 1830)")
    assert ask(script, "n.nvmlDeviceGetClockInfo(d, 1)") == 1650


def test_a_refused_setter_changes_nothing_and_is_logged(script):
    script.write(*h200(0, sm_clock_mhz=1980), "fault nvmlDeviceSetGpuLockedClocks 4")
    assert ask(script, "n.nvmlDeviceSetGpuLockedClocks(d, 1500, 1500)") == "error 4"
    assert ask(script, "n.nvmlDeviceGetClockInfo(d, 1)") == 1980
    assert [call.code for call in script.calls()] == [4]


def test_application_clocks_and_persistence_are_remembered(script):
    script.write(*h200(0, sm_clock_mhz=1980, persistence=0))
    ask(script, "(n.nvmlDeviceSetApplicationsClocks(d, 3201, 1200), n.nvmlDeviceSetPersistenceMode(d, 1))")
    assert ask(script, "[n.nvmlDeviceGetClock(d, 1, i) for i in (0, 1, 2)]") == [1200, 1200, 1980]
    assert ask(script, "n.nvmlDeviceGetPersistenceMode(d)") == 1


def test_field_values_answer_one_by_one(script):
    script.write(*h200(0, field__186="error 3", field__74=350_000_000))
    read = "[(f.nvmlReturn, f.value.ullVal) for f in n.nvmlDeviceGetFieldValues(d, [74, 186, 999])]"
    assert [pair[0] for pair in ask(script, read)] == [0, 3, 3]
    assert ask(script, read)[0][1] == 350_000_000


def test_one_lost_card_leaves_the_others(script):
    script.write("now 6", *h200(0), *h200(1), "fault * 15 gpu=1 from=5")
    assert ask(script, "n.nvmlDeviceGetTemperature(d, 0)") == 31
    assert ask(script, "n.nvmlDeviceGetHandleByIndex(1) and 0") == "error 15"
    script.write("now 4", *h200(0), *h200(1), "fault * 15 gpu=1 from=5")
    assert ask(script, "n.nvmlDeviceGetTemperature(n.nvmlDeviceGetHandleByIndex(1), 0)") == 31


def test_faults_begin_and_end_with_the_number_of_calls(script):
    script.write(*h200(0), "fault nvmlDeviceGetPowerUsage 999 after=2 calls=1")
    read = "[n.nvmlDeviceGetPowerUsage(d) for _ in range(2)]"
    assert ask(script, read) == [76500, 76500]
    assert ask(script, "n.nvmlDeviceGetPowerUsage(d)") == "error 999"
    assert ask(script, "n.nvmlDeviceGetPowerUsage(d)") == 76500


def test_a_call_can_hang_and_a_library_can_crash(script):
    script.write(*h200(0), "fault nvmlDeviceGetTemperature hang", "fault nvmlDeviceGetPowerUsage crash")
    with pytest.raises(subprocess.TimeoutExpired):
        subprocess.run([sys.executable, "-c", ASK, "n.nvmlDeviceGetTemperature(d, 0)"], env=script.env, timeout=1.5)
    crash = subprocess.run([sys.executable, "-c", ASK, "n.nvmlDeviceGetPowerUsage(d)"], env=script.env, timeout=30)
    assert crash.returncode == -signal.SIGSEGV


def test_a_driver_that_does_not_match_its_library_refuses_to_start(script):
    script.write("fault nvmlInitWithFlags 18")
    assert ask(script, "0") == "error 18"


def test_an_older_driver_lacks_functions(script, tmp_path):
    older = build_standin(tmp_path / "older", without=["nvmlDeviceGetCurrentClocksEventReasons"])
    machine = Script(path=script.path, shared_object=older).write(*h200(0))
    assert ask(machine, "n.nvmlDeviceGetCurrentClocksThrottleReasons(d)") == 1
    assert ask(machine, "n.nvmlDeviceGetCurrentClocksEventReasons(d)") == "error 13"


def test_a_slice_has_a_name_and_a_memory_of_its_own(script):
    slice_ = ("gpu 0.1 uuid text MIG-377e0049", "gpu 0.1 name text NVIDIA H200 MIG 1g.18gb")
    script.write(*h200(0, mig_mode=1), *slice_, "gpu 0.1 memory_total_bytes 19327352832")
    read = "n.nvmlDeviceGetMemoryInfo(n.nvmlDeviceGetMigDeviceHandleByIndex(d, 1)).total"
    assert ask(script, read) == 19327352832
    assert ask(script, "n.nvmlDeviceGetMigDeviceHandleByIndex(d, 0) and 0") == "error 6"
    assert ask(script, "n.nvmlDeviceGetCount()") == 1
    assert ask(script, "n.nvmlDeviceGetUtilizationRates(n.nvmlDeviceGetHandleByUUID('MIG-377e0049')).gpu") == "error 3"
