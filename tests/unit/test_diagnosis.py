"""Findings from states: each thing that can be wrong with a machine is named, with what to do; a well one is not."""

import pytest

from perfguard.diagnosis import diagnose, exit_code
from perfguard.diagnosis.records import MachineState, Setup
from perfguard.diagnosis.setup import git_version, nccl_settings
from perfguard.machine.reading import Reading, unknown

GIB = 2**30
UUID = "GPU-aaaa"
GPU = {
    "name": "NVIDIA H200",
    "pci_bus_id": "00000000:19:00.0",
    "sm_clock_mhz": 345,
    "sm_clock_max_mhz": 1980,
    "sm_clock_application_mhz": 1980,
    "sm_clock_application_default_mhz": 1980,
    "event_reasons": 1,
    "temperature_c": 31,
    "temperature_margin_c": 56,
    "power_average_w": 76.5,
    "power_limit_w": 700.0,
    "power_limit_default_w": 700.0,
    "pstate": 8,
    "pcie_generation": 1,
    "pcie_width": 16,
    "pcie_generation_max": 5,
    "pcie_width_max": 16,
    "remap_is_pending": False,
    "remap_has_failed": False,
    "ecc_uncorrected_count": 0,
    "ecc_corrected_count": 0,
    "processes": [],
    "utilisation_percent": 0,
    "memory_used_bytes": 2 * 2**20,
    "compute_mode": "default",
    "mig_is_on": False,
    "persistence_is_on": True,
}
HOST = {
    "num_threads": 64,
    "cpu_limit": "none",
    "governor": "performance",
    "turbo_is_on": True,
    "load_1min": 0.5,
    "pressure_cpu_percent": 0.1,
    "pressure_memory_percent": 0.0,
    "pressure_io_percent": 0.0,
    "steal_s": 10.0,
    "swap_in_bytes": 4096,
    "swap_out_bytes": 4096,
    "clock_source": "tsc",
    "wall_s": 1000.0,
    "monotonic_s": 100.0,
    "boottime_s": 120.0,
    "container": "",
    "pids_are_global": True,
    "is_wsl": False,
    "gpu_xids": [],
}
SETUP = {
    "git": Reading(value="git version 2.39.5"),
    "cache_free_bytes": Reading(value=100 * GIB),
    "database": Reading(value=True),
    "is_root": True,
    "bindings": "nvidia-ml-py 13.580.65",
}


def readings(values):
    return {name: value if isinstance(value, Reading) else Reading(value=value) for name, value in values.items()}


def state(gpu=None, host=None, setup=None, **kwargs):
    """A well machine with one card but for what is given; a second passes between the two looks at the host."""
    later = {"wall_s": 1001.0, "monotonic_s": 101.0, "boottime_s": 121.0}
    defaults = {
        "gpus": {UUID: readings(GPU | (gpu or {}))},
        "host_before": readings(HOST),
        "host": readings(HOST | later | (host or {})),
        "setup": Setup(**(SETUP | (setup or {}))),
    }
    return MachineState(**(defaults | kwargs))


def found(code, of):
    (finding,) = [finding for finding in diagnose(of) if finding.code == code]
    return finding


def test_a_well_machine_gives_no_advice_and_ends_with_0():
    findings = diagnose(state())
    assert {finding.severity for finding in findings} == {"ok"}
    assert [finding.advice for finding in findings if finding.advice] == []
    assert exit_code(findings) == 0


REFUSED = unknown("not_supported", "Not Supported")
LOCKED = 0x2
CARD_CASES = [
    # what was read, the finding, how bad, a word of its text
    ({"power_average_w": REFUSED}, "gpu_readable", "unknown", "power"),
    ({"sm_clock_application_mhz": 1200}, "gpu_clocks", "warn", "1200 MHz"),
    ({"event_reasons": LOCKED, "sm_clock_mhz": 1500}, "gpu_clocks", "warn", "locked"),
    ({"sm_clock_mhz": REFUSED}, "gpu_clocks", "unknown", "not supported"),
    ({"event_reasons": 0x88, "sm_clock_mhz": 345}, "gpu_brakes", "fail", "power brake"),
    ({"event_reasons": 0x40}, "gpu_brakes", "warn", "hw_thermal"),
    ({"event_reasons": 0x20}, "gpu_brakes", "warn", "sw_thermal"),
    ({"event_reasons": 0x800}, "gpu_brakes", "ok", "0x800"),
    ({"event_reasons": 0x4}, "gpu_brakes", "ok", "sw_power_cap"),
    ({"temperature_c": 84, "temperature_margin_c": 3}, "gpu_temperature", "warn", "3 °C below"),
    (
        {"temperature_c": 84, "temperature_margin_c": REFUSED, "slowdown_temperature_c": 87},
        "gpu_temperature",
        "warn",
        "3 °C below",
    ),
    ({"power_limit_w": 400.0}, "gpu_power_limit", "warn", "400 W, 700 W"),
    # gen 1 is how an idle card rests; under load, and with fewer lanes than the slot has, it is a finding
    ({"pstate": 0, "pcie_generation": 5}, "gpu_link", "ok", "PCIe 5 x16"),
    ({"pstate": 0, "pcie_generation": 1}, "gpu_link", "warn", "under load"),
    ({"pstate": 8, "pcie_generation": 1}, "gpu_link", "ok", "falls back"),
    ({"pcie_width": 8}, "gpu_link", "warn", "x8"),
    ({"pcie_width": REFUSED}, "gpu_link", "unknown", "not supported"),
    ({"remap_is_pending": True}, "gpu_memory", "fail", "do not trust"),
    ({"remap_has_failed": True}, "gpu_memory", "fail", "failed"),
    ({"ecc_uncorrected_count": 1}, "gpu_memory", "fail", "1 uncorrected"),
    ({"ecc_uncorrected_count": REFUSED, "remap_is_pending": REFUSED}, "gpu_memory", "unknown", "not supported"),
    ({"processes": [[4242, GIB]]}, "gpu_users", "fail", "4242"),
    ({"processes": [[4242, GIB]], "utilisation_percent": 0}, "gpu_users", "fail", "0 %"),
    ({"utilisation_percent": 90}, "gpu_users", "warn", "90 %"),
    ({"utilisation_percent": 90, "memory_used_bytes": 20 * GIB}, "gpu_users", "fail", "90 %"),
    ({"graphics_processes": [[1200, 2**20]]}, "gpu_users", "warn", "draw on it"),
    ({"memory_used_bytes": 0}, "gpu_users", "ok", "0 MiB"),
    ({"memory_used_bytes": 32 * 2**20}, "gpu_users", "ok", "32 MiB"),
    ({"processes": REFUSED}, "gpu_users", "unknown", "not supported"),
    ({"compute_mode": "prohibited"}, "gpu_modes", "fail", "prohibited"),
    ({"mig_is_on": True}, "gpu_modes", "warn", "MIG"),
    ({"persistence_is_on": False}, "gpu_modes", "warn", "persistence"),
]


@pytest.mark.parametrize(("gpu", "code", "severity", "word"), CARD_CASES)
def test_what_is_wrong_with_a_card_is_named(gpu, code, severity, word):
    finding = found(code, state(gpu))
    assert (finding.severity, finding.about) == (severity, "GPU 0 NVIDIA H200")
    assert word in finding.text
    assert bool(finding.advice) == (severity != "ok")


HOST_CASES = [
    ({"governor": "powersave"}, "host_frequency", "warn", "powersave"),
    ({"governor": REFUSED}, "host_frequency", "unknown", "not supported"),
    ({"load_1min": 40.0}, "host_load", "warn", "40.0 on 64"),
    ({"pressure_cpu_percent": 25.0}, "host_load", "warn", "25 %"),
    ({"load_1min": REFUSED, "pressure_cpu_percent": REFUSED}, "host_load", "unknown", ""),
    ({"swap_in_bytes": 8192}, "host_memory", "warn", "swaps now"),
    ({"pressure_memory_percent": 30.0}, "host_memory", "warn", "30 %"),
    ({"steal_s": 16.4}, "host_steal", "warn", "10%"),  # 6.4 s taken of 64 threads in one second
    ({"steal_s": 10.1}, "host_steal", "ok", "0.2%"),
    ({"clock_source": "hpet"}, "host_clock", "warn", "hpet"),
    ({"wall_s": -2599.0}, "host_clock", "warn", "-3600.0 s"),
    ({"boottime_s": 181.0, "wall_s": 1061.0}, "host_clock", "warn", "slept 60.0 s"),
    ({"is_wsl": True}, "host_container", "unknown", "WSL"),
    ({"container": "docker", "pids_are_global": False}, "host_container", "unknown", "pids of its own"),
    ({"container": "docker", "cpu_limit": 2.5}, "host_container", "warn", "2.5 processors"),
]


@pytest.mark.parametrize(("host", "code", "severity", "word"), HOST_CASES)
def test_what_is_wrong_with_a_host_is_named(host, code, severity, word):
    finding = found(code, state(host=host))
    assert (finding.severity, finding.about) == (severity, "host")
    assert word in finding.text


SETUP_CASES = [
    ({"git": unknown("error", "git cannot be started")}, "git", "fail", "cannot be started"),
    ({"git": Reading(value="git version 2.30.2")}, "git", "fail", "older than 2.31"),
    ({"cache_free_bytes": Reading(value=GIB)}, "disk", "warn", "1.0 GiB"),
    ({"cache_free_bytes": Reading(value=2**20)}, "disk", "fail", "0.0 GiB"),
    ({"database": unknown("no_permission", "/results cannot be written")}, "database", "fail", "/results"),
    ({"environment": {"NCCL_P2P_DISABLE": "1"}}, "settings", "warn", "NCCL_P2P_DISABLE=1"),
    ({"environment": {"CUDA_LAUNCH_BLOCKING": "1"}}, "settings", "warn", "every kernel is waited for"),
    ({"environment": {"TORCHDYNAMO_DISABLE": "1"}}, "settings", "warn", "nothing is compiled"),
    ({"environment": {"OMP_NUM_THREADS": "4"}}, "settings", "warn", "OMP_NUM_THREADS=4"),
    ({"environment": {"NCCL_P2P_DISABLE": "0"}}, "settings", "ok", ""),
    ({"nccl_files": {"/etc/nccl.conf": ["NCCL_ALGO=Ring"]}}, "settings", "warn", "/etc/nccl.conf: NCCL_ALGO=Ring"),
    ({"nccl_files": {"/etc/nccl.conf": []}}, "settings", "ok", ""),
    ({"environment": {"CUDA_VISIBLE_DEVICES": ""}}, "cuda_visible", "warn", "sees no card"),
    ({"environment": {"CUDA_VISIBLE_DEVICES": "GPU-aa"}}, "cuda_visible", "ok", "GPU 0"),
    ({"is_root": False}, "clock_permission", "warn", "not root"),
]


@pytest.mark.parametrize(("setup", "code", "severity", "word"), SETUP_CASES)
def test_what_perfguard_lacks_is_named(setup, code, severity, word):
    finding = found(code, state(setup=setup))
    assert finding.severity == severity
    assert word in finding.text
    assert bool(finding.advice) == (severity != "ok")


def test_in_a_container_no_process_is_named_and_none_listed_is_no_proof():
    inside = {"container": "docker", "pids_are_global": False}
    hidden = found("gpu_users", state(host=inside))
    assert hidden.severity == "unknown"
    assert "cannot be seen" in hidden.text
    listed = found("gpu_users", state({"processes": [[17, GIB]]}, host=inside, own_pids=frozenset({17})))
    assert listed.severity == "fail"
    assert "17" not in listed.text


def test_our_own_process_is_no_neighbour():
    assert found("gpu_users", state({"processes": [[17, GIB]]}, own_pids=frozenset({17}))).severity == "ok"


def test_xids_belong_to_the_card_on_that_bus():
    assert found("gpu_xid", state(host={"gpu_xids": [["0000:19:00", 79]]})).severity == "warn"
    assert "79" in found("gpu_xid", state(host={"gpu_xids": [["0000:19:00", 79]]})).text
    assert found("gpu_xid", state(host={"gpu_xids": [["0000:3b:00", 79]]})).severity == "ok"
    unreadable = {"gpu_xids": unknown("no_permission", "root only")}
    assert found("gpu_xid", state(host=unreadable)).severity == "unknown"


def test_without_a_gpu_the_reason_is_told_and_one_can_still_measure():
    findings = diagnose(state(gpus={}, nvml_reason="NVML: Driver/library version mismatch"))
    assert "mismatch" in next(f.text for f in findings if f.code == "gpu_present")
    assert exit_code(findings) == 0
    assert not any(f.code == "clock_permission" for f in findings)


def test_a_lost_card_is_a_failed_machine():
    findings = diagnose(state(unreadable={"index 3": "GPU is lost"}))
    lost = next(f for f in findings if f.code == "gpu_lost")
    assert (lost.severity, lost.about) == ("fail", "GPU at index 3")
    assert exit_code(findings) == 4


def test_a_slice_is_called_one_and_judged_by_what_it_has():
    slice_ = {"MIG-377e0049": readings({"name": "NVIDIA H200 MIG 1g.18gb", "memory_used_bytes": 0, "processes": []})}
    findings = diagnose(
        state(gpus={UUID: readings(GPU | {"mig_is_on": True}), **slice_}, parents={"MIG-377e0049": UUID})
    )
    about = [f for f in findings if f.about.startswith("slice")]
    assert {f.code for f in about} == {"gpu_readable", "gpu_users", "gpu_modes"}
    assert about[0].about == "slice MIG-377e0049 of GPU 0"
    assert "cannot be read of a slice" in about[0].text
    assert next(f.text for f in findings if f.code == "gpu_present").startswith("1 readable")


def test_cards_that_differ_and_how_they_are_joined_are_told():
    other = readings(GPU | {"name": "NVIDIA L4", "pcie_traffic_is_detoured": True})
    both = state(gpus={UUID: readings(GPU), "GPU-bbbb": other}, topology={(UUID, "GPU-bbbb"): Reading(value="PIX")})
    assert found("gpu_models", both).severity == "warn"
    assert found("gpu_topology", both).text == "PIX: 0-1"
    assert "GPU 1" in found("gpu_acs", both).text


def test_an_index_is_not_guessed_to_be_a_card():
    two = {UUID: readings(GPU), "GPU-bbbb": readings(GPU)}
    index = Setup(**SETUP, environment={"CUDA_VISIBLE_DEVICES": "1"})
    assert found("cuda_visible", state(gpus=two)).severity == "ok"
    asked = MachineState(gpus=two, host=readings(HOST), host_before=readings(HOST), setup=index)
    assert found("cuda_visible", asked).severity == "unknown"


def test_versions_of_git_are_understood_as_vendors_write_them():
    assert git_version("git version 2.39.5 (Apple Git-154)") == (2, 39)
    assert git_version("git version 2.45.windows.1") == (2, 45)
    assert git_version("?") is None


def test_settings_in_a_file_are_read_without_comments():
    assert nccl_settings("# old\n\nNCCL_ALGO=Ring\n  NCCL_P2P_DISABLE=1 \n") == ["NCCL_ALGO=Ring", "NCCL_P2P_DISABLE=1"]
