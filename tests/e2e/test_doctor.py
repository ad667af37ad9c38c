"""`perfguard doctor` as a person runs it, on machines with scripted GPUs and on none."""

import json
import os
import subprocess

import pytest
from cli_support import PERFGUARD
from standin import h200

from perfguard.doctor import examine


def doctor(env, *arguments, cwd):
    command = [str(PERFGUARD), "doctor", *arguments]
    return subprocess.run(command, env=env, cwd=cwd, capture_output=True, text=True, timeout=60)


def own_env(script, tmp_path, **more):
    return {**script.env, "PERFGUARD_CACHE": str(tmp_path / "cache"), "HOME": str(tmp_path), **more}


def by_code(report):
    return {finding["code"]: finding for finding in report["findings"]}


def test_a_machine_with_two_cards_is_examined(script, tmp_path):
    script.write(*h200(0), *h200(1, pcie_width=8), "topology 0 1 20")
    env = own_env(script, tmp_path, NCCL_P2P_DISABLE="1")
    result = doctor(env, "--json", "-", "--self-cost", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    report = json.loads(result.stdout)
    assert report["schema"] == "perfguard/doctor@1"
    assert len(report["gpus"]) == 2
    assert {f["code"] for f in report["findings"] if f["about"].startswith("GPU 1") and f["severity"] == "warn"} == {
        "gpu_link"
    }
    assert "NCCL_P2P_DISABLE=1" in by_code(report)["settings"]["text"]
    assert by_code(report)["gpu_topology"]["text"] == "PXB: 0-1"
    first = next(iter(report["gpus"].values()))
    assert first["power_instant_w"] == 77.1
    assert first["sm_clock_locked_mhz"]["unknown"] == "not_supported"
    cost = report["self_cost"]
    assert cost["num_gpus"] == 2
    assert 0 < cost["sample_s"] < cost["before_and_after_s"]
    assert cost["share_of_a_core"] == cost["sample_s"] / cost["interval_s"]


def test_a_card_in_use_ends_with_4_and_says_by_whom(script, tmp_path):
    script.write(*h200(0), f"process 0 {os.getpid()} 1048576")
    result = doctor(own_env(script, tmp_path), cwd=tmp_path)
    assert result.returncode == 4
    assert "✗ fail" in result.stdout
    assert "foreign process" in result.stdout
    assert "Not fit to measure now" in result.stdout


def test_no_gpu_is_no_failure(tmp_path):
    env = {**os.environ, "PERFGUARD_CACHE": str(tmp_path / "cache"), "LD_LIBRARY_PATH": str(tmp_path)}
    result = doctor(env, "--json", str(tmp_path / "doctor.json"), cwd=tmp_path)
    assert result.returncode == 0, result.stdout
    assert "can measure here" in result.stdout
    assert json.loads((tmp_path / "doctor.json").read_text())["exit_code"] == 0
    assert not (tmp_path / ".perfguard").exists()


@pytest.mark.parametrize("crash", ["nvmlInitWithFlags", "nvmlDeviceGetClockInfo"])
def test_a_library_that_crashes_takes_nobody_with_it(script, tmp_path, crash):
    script.write(*h200(0), f"fault {crash} crash")
    result = doctor(own_env(script, tmp_path), "--json", "-", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert "SIGSEGV" in by_code(json.loads(result.stdout))["gpu_present"]["text"]


def test_a_driver_that_refuses_much_still_answers_for_the_rest(script, tmp_path):
    """As under Windows' subsystem for Linux: much is refused, nothing is 0."""
    refused = ("nvmlDeviceGetPowerUsage", "nvmlDeviceGetComputeRunningProcesses_v3")
    older = "fault nvmlDeviceGetComputeRunningProcesses_v2 3"
    script.write(*h200(0, event_reasons=0xFFF), *(f"fault {name} 3" for name in refused), older)
    report = json.loads(doctor(own_env(script, tmp_path), "--json", "-", cwd=tmp_path).stdout)
    (gpu,) = report["gpus"].values()
    assert gpu["power_average_w"]["unknown"] == gpu["processes"]["unknown"] == "not_supported"
    assert gpu["temperature_c"] == 31
    assert gpu["event_reason_names"][-1] == "0x800"
    assert by_code(report)["gpu_readable"]["severity"] == "unknown"


def test_nothing_can_be_stored_where_nothing_may_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    report = examine(tmp_path / "file" / "results.db")
    assert by_code(report)["database"]["severity"] == "fail"
    assert report["exit_code"] == 4
