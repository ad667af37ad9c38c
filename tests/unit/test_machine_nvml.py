"""What is read of a GPU through the real bindings: values, and why there is none. Never 0 for unknown."""

import pytest
from standin import Script, build_standin, h200, play_here

from perfguard.errors import ClockError
from perfguard.machine.fields import CHEAP, DEAR, FIELDS
from perfguard.machine.nvml import open_nvml
from perfguard.machine.nvml_fields import READERS
from perfguard.machine.nvml_sensors import plain_power_is_average

UUID = "GPU-00000000-1111-2222-3333-444444444444"
# No slice, no such card in this machine's slots, and what NVML never tells.
PLACE = {"parent_uuid", "parent_bridge", "pcie_traffic_is_detoured"}
READABLE = set(FIELDS) - PLACE - {"sm_clock_locked_mhz", "memory_clock_locked_mhz"}


def read(name, uuid=UUID):
    with open_nvml() as nvml:
        return nvml.read(uuid, [name])[name]


def test_every_field_of_the_table_has_a_reader_and_a_cost():
    assert set(READERS) == set(FIELDS)
    assert {"sm_clock_mhz", "temperature_c", "power_average_w", "event_reasons", "pcie_generation"} <= set(CHEAP)
    assert {"energy_j", "pcie_tx_bytes_per_s", "pcie_replay_count", "processes"} <= set(DEAR)


def test_a_healthy_card_is_read_with_its_units(played):
    played.write("now 0", *h200(field__74=2_500_000), "process 0 4242 1048576")
    with open_nvml() as nvml:
        found = nvml.read(UUID, list(FIELDS))
    expected = {
        "name": "NVIDIA H200",
        "pci_bus_id": "00000000:19:00.0",
        "driver": "580.65.06",
        "cuda_driver": "13.0",
        "numa_node": 0,
        "memory_total_bytes": 141 * 2**30,
        "sm_clock_mhz": 345,
        "sm_clock_max_mhz": 1980,
        "sm_clock_application_mhz": 1980,
        "memory_clock_mhz": 3201,
        "temperature_c": 31,
        "memory_temperature_c": 38,
        "temperature_margin_c": 56,
        "power_average_w": 76.5,
        "power_instant_w": 77.1,
        "power_limit_w": 700.0,
        "energy_j": 1000.0,
        "event_reasons": 1,
        "event_reason_names": ["idle"],
        "event_sw_power_cap_us": 2500,  # 2,500,000 ns
        "pstate": 8,
        "pcie_generation": 1,
        "pcie_generation_max": 5,
        "pcie_tx_bytes_per_s": 1_000_000,
        "nvlink_states": [1],
        "nvlink_replay_errors": 0,
        "ecc_is_on": True,
        "remap_is_pending": False,
        "compute_mode": "default",
        "mig_is_on": False,
        "processes": [[4242, 1048576]],
        "utilisation_percent": 0,
    }
    assert {name: found[name].value for name in expected} == expected
    assert {name for name, reading in found.items() if not reading.is_known} == set(FIELDS) - READABLE
    assert {reading.status for reading in found.values() if not reading.is_known} == {"not_supported"}


def test_locked_clocks_cannot_be_read_and_that_is_said(played):
    played.write(*h200())
    assert read("sm_clock_locked_mhz").status == "not_supported"
    assert "no call" in read("sm_clock_locked_mhz").why


@pytest.mark.parametrize(
    ("code", "status"), [(3, "not_supported"), (4, "no_permission"), (999, "error"), (15, "error")]
)
def test_a_refused_field_is_unknown_with_its_reason_and_never_zero(played, code, status):
    played.write(*h200(power_w=f"error {code}"))
    with open_nvml() as nvml:
        found = nvml.read(UUID, ["power_average_w", "temperature_c"])
    assert (found["power_average_w"].status, found["power_average_w"].value) == (status, None)
    assert found["power_average_w"].why
    assert found["temperature_c"].value == 31


@pytest.mark.parametrize(
    ("lacking", "deprecated", "reasons"),
    [
        (["nvmlDeviceGetCurrentClocksEventReasons"], [], 0x84),
        (["nvmlDeviceGetCurrentClocksThrottleReasons"], [], 0x84),
        ([], ["nvmlDeviceGetCurrentClocksEventReasons"], 0x84),
        ([], ["nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"], None),
        (["nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"], [], None),
    ],
)
def test_event_reasons_are_asked_by_their_new_and_their_old_name(
    tmp_path, script, monkeypatch, lacking, deprecated, reasons
):
    library = build_standin(tmp_path / "older", without=lacking) if lacking else script.shared_object
    machine = play_here(Script(path=script.path, shared_object=library), monkeypatch)
    machine.write(*h200(event_reasons=0x84), *(f"fault {name} 26" for name in deprecated))
    assert read("event_reasons").value == reasons
    assert read("event_reasons").status == ("not_supported" if reasons is None else "value")


def test_temperature_and_processes_are_asked_by_their_older_names_too(played):
    played.write(
        *h200(),
        "process 0 17 -",
        "fault nvmlDeviceGetTemperatureV 13",
        "fault nvmlDeviceGetComputeRunningProcesses_v3 13",
    )
    assert read("temperature_c").value == 31
    assert read("processes").value == [[17, None]]


def test_counters_fall_back_to_the_older_violation_call(played):
    played.write(*h200(field__74="error 3", violation__0=7000))
    assert read("event_sw_power_cap_us").value == 7


OLDER_NUMBERS = {f"field__{number}": "error 3" for number in (269, 270, 271)} | {
    f"field__{number}__type": 3 for number in (251, 252, 253)
}


def test_event_counters_are_found_under_the_numbers_of_either_driver(played):
    played.write(*h200(field__269=4_000, field__270=5_000, field__271=6_000))
    names = ("event_sw_thermal_us", "event_hw_thermal_us", "event_hw_power_brake_us")
    assert [read(name).value for name in names] == [4, 5, 6]
    played.write(*h200(**OLDER_NUMBERS | {"field__251": 7_000, "field__252": 8_000, "field__253": 9_000}))
    assert [read(name).value for name in names] == [7, 8, 9]


def test_the_bindings_number_is_asked_first(played, monkeypatch):
    import pynvml

    monkeypatch.setattr(pynvml, "NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN", 252)
    played.write(*h200(field__270=5_000, field__252=8_000, field__252__type=3))
    assert read("event_hw_thermal_us").value == 8


def test_a_number_that_means_something_else_by_its_type_is_no_counter(played, monkeypatch):
    """Power smoothing, an unsigned int, has taken the older numbers."""
    import pynvml

    monkeypatch.setattr(pynvml, "NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN", 252)
    played.write(*h200(field__252=99_000, field__270=5_000))
    assert read("event_hw_thermal_us").value == 5
    played.write(*h200(field__252=99_000, field__270="error 3"))
    assert read("event_hw_thermal_us").status == "not_supported"


def test_average_and_instant_power_are_told_apart(played):
    """The plain call averages from Ampere on, but for the A100's chip."""
    assert plain_power_is_average(9, "NVIDIA H200")
    assert not plain_power_is_average(7, "NVIDIA A100-SXM4-80GB")
    assert not plain_power_is_average(6, "Tesla T4")
    played.write(*h200(architecture=7, name="text NVIDIA A100", power_w=300, field__185=200_000, field__186="error 3"))
    assert read("power_average_w").value == 200.0
    assert read("power_instant_w").value == 300.0


def test_memory_that_is_shared_with_the_system_is_not_zero_bytes(played):
    for lines in (h200(memory_total_bytes=None), h200(memory_total_bytes=0, memory_used_bytes=0)):
        played.write(*lines)
        reading = read("memory_total_bytes")
        assert (reading.status, reading.value) == ("not_supported", None)
        assert "unified" in reading.why
    played.write(*h200(), "fault nvmlDeviceGetMemoryInfo_v2 13")
    assert read("memory_total_bytes").value == 141 * 2**30


def test_a_consumer_card_s_zeros_are_no_proof_of_health(played):
    played.write(*h200(name="text NVIDIA GeForce RTX 4090"))
    assert read("remap_is_pending").status == "not_supported"
    played.write(*h200(remapped_rows="list 0 4 1 0"))
    assert (read("remapped_rows_uncorrected").value, read("remap_is_pending").value) == (4, True)


def test_a_card_that_fell_off_leaves_the_others_readable(played):
    played.write(*h200(0), *h200(1), *h200(2), "fault * 15 gpu=1")
    with open_nvml() as nvml:
        assert len(nvml.uuids()) == 2
        assert "lost" in nvml.unreadable["index 1"].lower()
        assert nvml.read(UUID, ["temperature_c"])["temperature_c"].value == 31


def test_a_card_that_falls_off_later_is_an_error_and_not_slow(played):
    played.write("now 1", *h200(0), "fault * 15 gpu=0 from=5")
    with open_nvml() as nvml:
        assert nvml.read(UUID, ["sm_clock_mhz"])["sm_clock_mhz"].value == 345
        played.write("now 6", *h200(0), "fault * 15 gpu=0 from=5")
        lost = nvml.read(UUID, ["sm_clock_mhz"])["sm_clock_mhz"]
    assert lost.status == "error"
    assert "lost" in lost.why.lower()


def test_a_driver_that_goes_away_in_mid_run_is_a_gap_with_a_reason(played):
    played.write(*h200(), "fault nvmlDeviceGetClockInfo 999 after=2")
    with open_nvml() as nvml:
        readings = [nvml.read(UUID, ["sm_clock_mhz"])["sm_clock_mhz"] for _ in range(4)]
    assert [reading.status for reading in readings] == ["value", "value", "error", "error"]


def test_a_call_that_hangs_costs_one_limit_and_keeps_what_was_read_before(played):
    played.write(*h200(), "log all", "fault nvmlDeviceGetTemperatureV hang")
    with open_nvml(limit_s=0.3) as nvml:
        found = nvml.read(UUID, ["sm_clock_mhz", "temperature_c", "pstate"])
        for _ in range(20):
            assert nvml.read(UUID, ["sm_clock_mhz"])["sm_clock_mhz"].status == "error"
        with pytest.raises(ClockError, match="did not answer"):
            nvml.lock_sm_clocks(UUID, 1500, 1500)
    assert found["sm_clock_mhz"].value == 345
    assert {found["temperature_c"].status, found["pstate"].status} == {"error"}
    assert "did not answer within 0.3 s" in found["pstate"].why
    assert played.calls()[-1].function == "nvmlDeviceGetClockInfo"  # a call that hangs is not logged; none follows


def test_a_driver_that_loads_with_the_first_call_is_given_more_time_to_open(played):
    played.write(*h200(), "fault nvmlInitWithFlags sleep=0.6")
    with open_nvml(limit_s=0.3, open_limit_s=30) as nvml:
        assert nvml.read(UUID, ["temperature_c"])["temperature_c"].value == 31


def test_a_library_that_does_not_match_its_driver_gives_a_reason_and_no_card(played):
    played.write(*h200(), "fault nvmlInitWithFlags 18")
    with open_nvml() as nvml:
        assert nvml.uuids() == ()
        assert "mismatch" in nvml.reason
        assert nvml.read(UUID, ["temperature_c"])["temperature_c"].status == "error"
        assert nvml.system()["driver"].status == "error"
