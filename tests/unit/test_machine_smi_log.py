"""Logs of nvidia-smi, a few lines of our own and, where they are at hand, public ones."""

import os
from pathlib import Path

import pytest

from perfguard.machine.samples import distinct_samples, is_frozen, update_period_s
from perfguard.machine.smi_log import Log, read_cell, read_log

HEAD = "timestamp, pstate, clocks.current.sm [MHz], power.draw [W]\n"
# A folder with the public logs of JimZeyuYang/GPU_Power_Benchmark; docs/machine-clocks.md says which.
REAL = os.environ.get("PERFGUARD_REAL_DATA", "")
real = pytest.mark.skipif(not REAL, reason="PERFGUARD_REAL_DATA names no folder of public logs")


def test_columns_are_read_by_name_with_times_from_the_first_row_on():
    log = read_log(HEAD + "2023/07/14 10:10:26.905, P0, 1410, 56.38\n2023/07/14 10:10:26.920, P2, 1395 MHz, 57.1 W\n")
    assert log.times_s == pytest.approx([0.0, 0.015])
    assert [reading.value for reading in log.columns["clocks.current.sm"]] == [1410.0, 1395.0]
    assert [reading.value for reading in log.columns["power.draw"]] == [56.38, 57.1]
    assert [reading.value for reading in log.columns["pstate"]] == ["P0", "P2"]


def test_a_column_that_the_driver_renamed_has_the_new_name():
    log = read_log("timestamp, clocks_throttle_reasons.active\n2023/07/14 10:10:26.905, 0x04\n")
    assert list(log.columns) == ["clocks_event_reasons.active"]


@pytest.mark.parametrize(
    ("cell", "status"),
    [
        ("[Unknown Error]", "error"),
        ("[N/A]", "not_supported"),
        ("N/A", "not_supported"),
        ("[Not Supported]", "not_supported"),
        ("[Insufficient Permissions]", "no_permission"),
        ("Requested functionality has been deprecated", "error"),
        ("", "error"),
    ],
)
def test_a_cell_without_a_number_keeps_its_reason_and_is_never_0(cell, status):
    reading = read_cell(cell)
    assert (reading.value, reading.status) == (None, status)
    assert reading.why


def test_a_line_that_was_cut_off_is_left_out():
    assert len(read_log(HEAD + "2023/07/14 10:10:26.905, P0, 1410, 56.38\n2023/07/14 10:1").times_s) == 1


@pytest.mark.parametrize("text", ["", "name, power\nA100, 50\n"])
def test_another_file_is_refused(text):
    with pytest.raises(ValueError, match="does not begin with 'timestamp'"):
        read_log(text)


def of_file(name: str) -> Log:
    (path,) = Path(REAL).rglob(name)
    return read_log(path.read_text())


def changes(log: Log, column: str) -> list[tuple[float, object]]:
    return distinct_samples(log.times_s, [reading.value for reading in log.columns[column]])


@real
def test_the_a100_log_holds_about_150_readings_of_power_and_not_1245():
    log = of_file("a100_step_load_13ms.csv")
    power = changes(log, "power.draw")
    assert len(log.times_s) == 1245
    assert len(power) == 153
    assert update_period_s(power) == pytest.approx(0.104, abs=0.005)


@real
def test_the_sensor_of_a_v100_is_renewed_every_20_ms():
    assert update_period_s(changes(of_file("v100_clock_and_power_8ms.csv"), "power.draw")) == pytest.approx(0.02)


@real
def test_average_and_instant_power_of_a_newer_card_are_different_sensors():
    log = of_file("rtx3090_step_load_7ms.csv")
    average, instant = log.columns["power.draw.average"], log.columns["power.draw.instant"]
    apart = [abs(a.value - b.value) for a, b in zip(average, instant, strict=True)]
    assert 250 < max(apart) < 260


@real
def test_a_log_of_errors_with_a_stuck_sensor_is_read_and_the_sensor_called_frozen():
    log = of_file("unknown_error_stuck_sensor.csv")
    assert {reading.status for reading in log.columns["clocks.current.sm"]} == {"error"}
    assert is_frozen([reading.value for reading in log.columns["power.draw"]])
