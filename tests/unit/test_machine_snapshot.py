"""All GPUs read once in a process of its own: complete, and nothing that its library does reaches us."""

import json
import sys
import time
from dataclasses import asdict
from pathlib import Path

import pytest
from standin import h200

from perfguard.comparable import differences
from perfguard.machine.gpu import gpu_inventory
from perfguard.machine.nvml import open_nvml
from perfguard.machine.snapshot import from_plain, snapshot, take, to_plain

UUID = "GPU-00000000-1111-2222-3333-444444444444"
NAMES = ("name", "uuid", "temperature_c", "sm_clock_locked_mhz")


def as_stored(inventory):
    return json.loads(json.dumps(asdict(inventory)))


def test_the_process_sees_what_a_session_here_sees(played):
    played.write("now 0", *h200(0, mig_mode=1), *h200(1), *h200(2), "gpu 0.0 uuid text MIG-1", "fault * 15 gpu=2")
    with open_nvml() as nvml:
        here = take(nvml, NAMES)
    assert snapshot(NAMES) == here
    assert from_plain(to_plain(here)) == here
    assert dict(here.parents) == {"MIG-1": UUID}
    assert list(here.unreadable) == ["index 2"]
    assert here.gpus[UUID]["temperature_c"].value == 31


def test_a_crash_and_a_hang_are_reasons(played):
    played.write(*h200(0), "fault nvmlDeviceGetTemperatureV crash")
    assert snapshot(NAMES).reason == "NVML: its library crashed (SIGSEGV)"
    played.write(*h200(0), "fault nvmlInitWithFlags hang")
    assert snapshot(NAMES, open_limit_s=0.2).reason == "NVML did not answer within 0.2 s"


def test_a_process_that_never_ends_is_given_up_and_started_once(played, monkeypatch, tmp_path):
    stub = tmp_path / "python"
    stub.write_text(f"#!/bin/sh\ntrap '' TERM\necho $$ >> {tmp_path}/started\nexec sleep 3600\n")
    stub.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(stub))
    monkeypatch.setattr("perfguard.machine.snapshot.START_S", 1.5)
    assert "does not end" in snapshot(NAMES, limit_s=0.2, open_limit_s=0.2).reason
    (pid,) = (tmp_path / "started").read_text().split()
    while Path(f"/proc/{pid}").exists():  # killed, not waited for by the caller
        time.sleep(0.02)


def test_costs_are_told_when_asked_for(played):
    played.write(*h200(0))
    assert snapshot(["uuid"]).costs_s == {}
    costs = snapshot(["uuid"], with_costs=True).costs_s
    assert {"sm_clock_mhz", "energy_j", "processes"} <= set(costs)


def test_the_fingerprint_names_card_and_slot_and_a_card_that_does_not_answer(played):
    played.write(*h200(0, pcie_width_max=8), *h200(1), "fault * 15 gpu=1")
    inventory = gpu_inventory()
    assert (inventory.driver, inventory.cuda_driver) == ("580.65.06", "13.0")
    first, lost = inventory.gpus
    assert (first.uuid, first.name, first.pcie_width_max) == (UUID, "NVIDIA H200", 8)
    assert first.memory_bytes == 141 * 2**30
    assert lost.uuid is None
    assert "lost" in lost.unknown["uuid"].lower()


@pytest.mark.parametrize("name", ["NVIDIA L4", "Ünïcode"])
def test_names_survive_the_way_between_processes(played, name):
    played.write(*h200(0, name=f"text {name}"))
    assert snapshot(NAMES).gpus[UUID]["name"].value == name


def test_a_card_in_another_slot_is_another_machine_and_the_field_is_named(played):
    played.write(*h200(0), *h200(1))
    monday = as_stored(gpu_inventory())
    played.write(*h200(0), *h200(1, pcie_width_max=8))
    assert (
        differences({"gpu": monday}, {"gpu": as_stored(gpu_inventory())}) == "gpu.gpus.1.pcie_width_max: 16 then, 8 now"
    )
    assert differences({"gpu": monday}, {"gpu": monday}) == ""


def test_a_field_that_an_older_version_did_not_read_is_no_difference(played):
    played.write(*h200(0))
    now = as_stored(gpu_inventory())
    old = {name: now["gpus"][0][name] for name in ("uuid", "name", "pci_bus_id", "memory_bytes")}
    assert differences({"gpu": {**now, "gpus": [old | {"unknown": {}}]}}, {"gpu": now}) == ""
    assert differences({"gpu": {**now, "driver": "570.1"}}, {"gpu": now}) == "gpu.driver: '570.1' then, '580.65.06' now"
