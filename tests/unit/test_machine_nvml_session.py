"""A session with NVML: slices, how cards are joined, setters, costs, and bindings other than the usual ones."""

import os
import subprocess
import sys

import pytest
from standin import h200

from perfguard.errors import ClockError
from perfguard.machine.fields import CHEAP, FIELDS
from perfguard.machine.nvml import open_nvml

UUID = "GPU-00000000-1111-2222-3333-444444444444"
OTHER = "GPU-00000001-1111-2222-3333-444444444444"


def test_a_slice_is_read_by_its_own_name_and_knows_its_card(played):
    slice_ = ("gpu 0.1 uuid text MIG-377e0049", "gpu 0.1 memory_total_bytes 19327352832")
    played.write(*h200(mig_mode=1), *slice_)
    with open_nvml() as nvml:
        assert nvml.uuids() == (UUID,)
        assert dict(nvml.parents) == {"MIG-377e0049": UUID}
        found = nvml.read("MIG-377e0049", ["memory_total_bytes", "parent_uuid", "utilisation_percent"])
    assert found["memory_total_bytes"].value == 19327352832
    assert found["parent_uuid"].value == UUID
    assert found["utilisation_percent"].status == "not_supported"


def test_pairs_of_cards_are_joined_by_nvlink_or_by_what_pcie_they_share(played):
    played.write(*h200(0, **{"p2p__2__1": 0}), *h200(1), *h200(2), "topology 0 1 50", "topology 0 2 30")
    third = "GPU-00000002-1111-2222-3333-444444444444"
    with open_nvml() as nvml:
        joins = nvml.topology()
    assert joins[UUID, OTHER].value == "NVLink"
    assert joins[UUID, third].value == "PHB"
    assert joins[OTHER, third].status == "not_supported"


def test_setters_reach_the_driver_and_refusals_are_told_apart(played):
    played.write(*h200())
    with open_nvml() as nvml:
        assert nvml.supported_memory_clocks(UUID) == (3201, 2619)
        assert nvml.supported_sm_clocks(UUID, 3201)[:2] == (1980, 1965)
        nvml.lock_sm_clocks(UUID, 1500, 1515)
        nvml.lock_memory_clocks(UUID, 2619, 2619)
        nvml.set_application_clocks(UUID, 3201, 1200)
        nvml.reset_application_clocks(UUID)
        nvml.reset_memory_clocks(UUID)
        nvml.reset_sm_clocks(UUID)
        for code, status in ((4, "no_permission"), (3, "not_supported"), (26, "not_supported"), (999, "error")):
            played.write(*h200(), f"fault nvmlDeviceSetGpuLockedClocks {code}")
            with pytest.raises(ClockError) as refused:
                nvml.lock_sm_clocks(UUID, 1500, 1500)
            assert refused.value.status == status
            assert UUID in str(refused.value)
    assert [(call.function, call.arguments) for call in played.calls()][:3] == [
        ("nvmlDeviceSetGpuLockedClocks", (1500, 1515)),
        ("nvmlDeviceSetMemoryLockedClocks", (2619, 2619)),
        ("nvmlDeviceSetApplicationsClocks", (3201, 1200)),
    ]


def test_costs_are_measured_field_by_field(played):
    played.write(*h200(), "fault nvmlDeviceGetTotalEnergyConsumption sleep=0.02")
    with open_nvml() as nvml:
        costs = nvml.read_costs(UUID, ["energy_j", "temperature_c"], repeats=3)
    assert costs["energy_j"] >= 0.02
    assert 0 < costs["temperature_c"] < costs["energy_j"]


def test_bindings_that_warn_at_import_and_answer_bytes_are_taken(tmp_path):
    """The package that is called pynvml and is not the bindings; Python is told to make warnings errors."""
    (tmp_path / "pynvml.py").write_text(
        "import warnings\n"
        "warnings.warn('install nvidia-ml-py instead', FutureWarning)\n"
        "nvmlInit = nvmlShutdown = lambda: None\n"
        "nvmlDeviceGetCount = lambda: 1\n"
        "nvmlDeviceGetHandleByIndex = lambda index: index\n"
        "nvmlDeviceGetUUID = lambda d: b'GPU-7'\n"
        "nvmlDeviceGetName = lambda d: b'NVIDIA L4'\n"
    )
    code = "from perfguard.machine.nvml import open_nvml\nwith open_nvml() as n: print(n.read('GPU-7', ['name']))"
    command = [sys.executable, "-W", "error", "-c", code]
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    assert subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout.count("'NVIDIA L4'") == 1


def test_a_simulated_card_is_read_like_any_and_says_what_it_is(monkeypatch):
    monkeypatch.setenv("PERFGUARD_SIMULATED_GPU", "1")
    with open_nvml() as nvml:
        (uuid,) = nvml.uuids()
        found = nvml.read(uuid, list(FIELDS))
        with pytest.raises(ClockError) as refused:
            nvml.lock_sm_clocks(uuid, 1500, 1500)
    assert found["name"].value == "simulated GPU"
    assert 1800 <= found["sm_clock_mhz"].value <= 1980
    assert {found[name].status for name in CHEAP} == {"value"}
    assert found["energy_j"].status == "not_supported"
    assert refused.value.status == "not_supported"
