"""The host's state: what it says is right where it can be checked, and unknown is never a number."""

import os

import psutil
import pytest

from perfguard.machine.host_state import (
    HOST_FIELDS,
    container_kind,
    cpu_limit,
    host_state,
    pressure_percent,
    turbo_is_on,
)
from perfguard.machine.kernel_log import kernel_log, xids
from perfguard.machine.pci import acs_detours, bridges_above, numa_node, parent_bridge, traffic_is_detoured
from perfguard.machine.reading import Reading, from_json, to_json, unknown
from perfguard.machine.time_jump import TimeJump, time_jump


def test_every_field_is_a_value_or_says_why_not():
    state = host_state()
    assert set(state) == set(HOST_FIELDS)
    assert all(reading.is_known or reading.why for reading in state.values())
    assert all(reading.value is not None for reading in state.values() if reading.is_known)
    assert state["num_threads"].value == psutil.cpu_count()
    assert state["kernel"].value == f"{os.uname().sysname} {os.uname().release}"


@pytest.mark.parametrize(
    ("after", "jump"),
    [
        ((110.0, 15.0, 25.0), TimeJump(wall_s=0, slept_s=0)),
        ((-3490.0, 15.0, 25.0), TimeJump(wall_s=-3600, slept_s=0)),  # the wall clock was set back an hour
        ((3710.0, 15.0, 3625.0), TimeJump(wall_s=0, slept_s=3600)),  # suspended for an hour
    ],
)
def test_a_set_clock_and_a_machine_that_slept_are_told_apart(after, jump):
    names = ("wall_s", "monotonic_s", "boottime_s")
    early, late = (
        {name: Reading(value=at) for name, at in zip(names, row, strict=True)} for row in ((100.0, 5.0, 15.0), after)
    )
    assert time_jump(early, late) == jump
    assert time_jump(early, {**late, "boottime_s": unknown("not_supported", "no such clock")}) is None


def test_pressure_is_the_share_of_ten_seconds():
    assert pressure_percent("some avg10=2.50 avg60=1.00 avg300=0.1 total=9\nfull avg10=0.10 avg60=0 total=1\n") == 2.5


def test_turbo_is_read_from_either_driver(tmp_path):
    with pytest.raises(FileNotFoundError):
        turbo_is_on(tmp_path)
    (tmp_path / "cpufreq").mkdir()
    (tmp_path / "cpufreq/boost").write_text("0\n")
    assert not turbo_is_on(tmp_path)
    (tmp_path / "intel_pstate").mkdir()
    (tmp_path / "intel_pstate/no_turbo").write_text("0\n")
    assert turbo_is_on(tmp_path)


def test_containers_are_recognised(tmp_path):
    assert container_kind(tmp_path, {}) == ""
    assert container_kind(tmp_path, {"container": "lxc"}) == "lxc"
    (tmp_path / ".dockerenv").touch()
    assert container_kind(tmp_path, {}) == "docker"
    assert container_kind(tmp_path, {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}) == "kubernetes"


def test_a_container_s_share_of_processors_is_read(tmp_path):
    (tmp_path / "cpu.max").write_text("250000 100000\n")
    assert cpu_limit(tmp_path) == 2.5
    (tmp_path / "cpu.max").write_text("max 100000\n")
    assert cpu_limit(tmp_path) is None


def test_xids_are_found_with_their_card():
    log = (
        "6,1,2,-;usb 1-1: new device\n"
        "4,2,3,-;NVRM: Xid (PCI:0000:3B:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.\n"
        "4,3,4,-;NVRM: Xid (PCI:0000:19:00): 94, pid=4242, name=python\n"
    )
    assert xids(log) == [["0000:3b:00", 79], ["0000:19:00", 94]]


def test_a_kernel_log_is_read_to_its_end(tmp_path):
    log = tmp_path / "kmsg"
    log.write_text("NVRM: Xid (PCI:0000:3B:00): 48, x\n" * 1000)
    assert len(xids(kernel_log(log))) == 1000


def test_the_place_of_a_card_is_read_from_the_kernel_s_tree(tmp_path):
    root = tmp_path / "pci0000:00"
    card = root / "0000:00:01.0" / "0000:17:00.0" / "0000:19:00.0"
    card.mkdir(parents=True)
    (card / "numa_node").write_text("1\n")
    (tmp_path / "devices").mkdir()
    (tmp_path / "devices/0000:19:00.0").symlink_to(card)
    devices = tmp_path / "devices"
    assert numa_node("00000000:19:00.0", devices) == 1
    assert parent_bridge("00000000:19:00.0", devices) == "0000:17:00.0"
    assert bridges_above("00000000:19:00.0", devices) == ["0000:17:00.0", "0000:00:01.0"]
    for bridge in ("0000:17:00.0", "0000:00:01.0"):
        (devices / bridge).mkdir()
        (devices / bridge / "config").write_bytes(bytes(4096))
    assert not traffic_is_detoured("00000000:19:00.0", devices)
    (devices / "0000:17:00.0/config").write_bytes(bytes(64))
    with pytest.raises(PermissionError):
        traffic_is_detoured("00000000:19:00.0", devices)
    (card / "numa_node").write_text("-1\n")
    with pytest.raises(LookupError):
        numa_node("00000000:19:00.0", devices)
    with pytest.raises(FileNotFoundError):
        parent_bridge("00000000:AA:00.0", devices)


def test_access_control_that_sends_traffic_through_the_root_is_seen():
    def config(control):
        space = bytearray(4096)
        space[0x100:0x104] = (0x0001 | 1 << 16 | 0x140 << 20).to_bytes(4, "little")  # error reporting, next at 0x140
        space[0x140:0x144] = (0x000D | 1 << 16).to_bytes(4, "little")
        space[0x146:0x148] = control.to_bytes(2, "little")
        return bytes(space)

    assert acs_detours(config(0x001D)) is True
    assert acs_detours(config(0)) is False
    assert acs_detours(bytes(4096)) is False
    assert acs_detours(config(0x001D)[:64]) is None  # what a user without rights is shown


def test_readings_survive_being_stored():
    for reading in (Reading(value=3), Reading(value=[[1, None]]), Reading(value=False), unknown("error", "lost")):
        assert from_json(to_json(reading)) == reading
    assert to_json(unknown("no_permission", "root only")) == {"unknown": "no_permission", "why": "root only"}
    assert from_json(None).status == "error"
    assert from_json({"unknown": "value"}).status == "error"
