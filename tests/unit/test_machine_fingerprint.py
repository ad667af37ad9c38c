"""The machine's fingerprint: what is read is right, what cannot be read is said and never 0."""

import json
import os
import platform
import subprocess
import sys
import threading
from types import SimpleNamespace

import pytest

from perfguard.machine.gpu import LASTING, gpu_inventory
from perfguard.machine.host import cpu_model, governor, host_fingerprint, machine_fingerprint
from perfguard.machine.nvml import open_nvml
from perfguard.machine.snapshot import take


class NvmlError(Exception):
    pass


def fake_nvml(**changed):
    """The NVML bindings of a machine with two cards, as far as they are asked."""

    def refuse(*_):
        raise NvmlError("Not Supported")

    calls = {
        "nvmlInit": lambda: None,
        "nvmlShutdown": lambda: None,
        "nvmlDeviceGetCount": lambda: 2,
        "nvmlDeviceGetHandleByIndex": lambda index: index,
        "nvmlSystemGetDriverVersion": lambda: b"580.65.06",
        "nvmlSystemGetCudaDriverVersion": lambda: 13000,
        "nvmlDeviceGetUUID": lambda handle: f"GPU-{handle}",
        "nvmlDeviceGetName": lambda handle: (b"NVIDIA H200", "NVIDIA L4")[handle],
        "nvmlDeviceGetPciInfo": lambda handle: SimpleNamespace(busId=b"00000000:0%d:00.0" % handle),
        "nvmlDeviceGetMemoryInfo": lambda handle: SimpleNamespace(total=150_754_820_096),
    }
    given = {name: refuse if call == "refuse" else call for name, call in (calls | changed).items()}
    return SimpleNamespace(**{name: call for name, call in given.items() if call != "lack"})


def inventory_of(load, open_limit_s=10.0):
    with open_nvml(load, open_limit_s=open_limit_s) as nvml:
        return gpu_inventory(take(nvml, LASTING))


def test_cards_are_listed_with_names_from_bytes_and_text_alike():
    inventory = inventory_of(lambda: fake_nvml())
    assert [gpu.name for gpu in inventory.gpus] == ["NVIDIA H200", "NVIDIA L4"]
    assert inventory.gpus[1].uuid == "GPU-1"
    assert inventory.gpus[1].pci_bus_id == "00000000:01:00.0"
    assert inventory.gpus[0].memory_bytes == 150_754_820_096
    assert (inventory.driver, inventory.cuda_driver, inventory.reason) == ("580.65.06", "13.0", "")


@pytest.mark.parametrize("how", ["refuse", "lack"])
def test_a_field_that_a_card_refuses_is_none_with_its_reason_and_the_others_stay(how):
    gpu = inventory_of(lambda: fake_nvml(nvmlDeviceGetMemoryInfo=how)).gpus[0]
    assert gpu.memory_bytes is None
    assert gpu.name == "NVIDIA H200"
    assert ("Not Supported" if how == "refuse" else "nvmlDeviceGetMemoryInfo") in gpu.unknown["memory_bytes"]


def test_a_driver_that_does_not_match_its_library_gives_a_reason_and_no_card():
    def mismatch():
        raise NvmlError("Driver/library version mismatch")

    inventory = inventory_of(lambda: fake_nvml(nvmlInit=mismatch))
    assert (inventory.gpus, inventory.reason) == ((), "NVML: Driver/library version mismatch")


def test_missing_bindings_are_said():
    def load():
        raise ImportError("No module named 'pynvml'")

    assert "nvidia-ml-py" in inventory_of(load).reason


def test_nvml_is_shut_down_also_after_an_error():
    closed = []
    nvml = fake_nvml(nvmlDeviceGetCount="refuse", nvmlShutdown=lambda: closed.append(True))
    assert inventory_of(lambda: nvml).reason == "NVML: Not Supported"
    assert closed == [True]


def test_a_driver_that_hangs_costs_the_limit_and_no_more():
    release = threading.Event()
    inventory = inventory_of(lambda: fake_nvml(nvmlInit=release.wait), open_limit_s=0.05)
    release.set()
    assert inventory.reason == "NVML did not answer within 0.05 s"


def test_importing_the_fingerprint_does_not_load_nvml():
    code = "import sys, perfguard.machine.host; print('pynvml' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


def test_the_host_is_what_the_system_says_and_its_name_is_not_stored():
    host = host_fingerprint()
    assert host.kernel == f"{os.uname().sysname} {os.uname().release}"
    assert host.num_threads == os.cpu_count()
    assert host.python.endswith(platform.python_version())
    assert len(host.hostname_sha256) == 16
    assert all(getattr(host, name) is None for name in host.unknown)
    text = json.dumps(machine_fingerprint())
    assert f'"{platform.node()}"' not in text


def test_the_processor_is_named_on_x86_and_numbered_on_arm():
    x86 = "processor\t: 0\nmodel\t\t: 143\nmodel name\t: Xeon 8480\nflags: a\n\nprocessor\t: 1\nmodel name\t: other\n"
    assert cpu_model(x86) == "Xeon 8480"
    assert cpu_model("processor: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd4f\n") == "implementer 0x41 part 0xd4f"
    assert cpu_model("processor: 0\n") is None


def test_governors_that_differ_are_called_mixed_and_none_is_unknown(tmp_path):
    assert governor(tmp_path) is None
    for number, name in enumerate(["performance", "performance", "powersave"]):
        folder = tmp_path / f"cpu{number}" / "cpufreq"
        folder.mkdir(parents=True)
        (folder / "scaling_governor").write_text(name + "\n")
    (tmp_path / "cpufreq").mkdir()
    assert governor(tmp_path) == "mixed (performance, powersave)"
    (tmp_path / "cpu2/cpufreq/scaling_governor").write_text("performance\n")
    assert governor(tmp_path) == "performance"
