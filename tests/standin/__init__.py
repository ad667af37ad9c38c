"""Scripted GPUs for tests: builds nvml.c as libnvidia-ml.so.1 and writes the scripts that it plays.

The real bindings load it, so what is driven is the real code. Only tests use it; the format of a script is told at
the top of nvml.c.
"""

import ctypes
import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
LIBRARY = "libnvidia-ml.so.1"
GIB = 2**30


def build_standin(folder: Path, *, without: Sequence[str] = ()) -> Path:
    """Compile the stand-in into `folder`, leaving out the functions `without`, as an older driver would."""
    folder.mkdir(parents=True, exist_ok=True)
    exports = folder / "exports.map"
    hidden = " ".join(f"{name};" for name in without)
    exports.write_text(f"{{ global: nvml*; local: {hidden} not_ours*; }};\n")
    command = [
        "gcc",
        "-O1",
        "-fPIC",
        "-shared",
        "-pthread",
        f"-Wl,--version-script={exports}",
        f"-Wl,-soname,{LIBRARY}",
    ]
    subprocess.run([*command, "-o", str(folder / LIBRARY), str(HERE / "nvml.c")], check=True, capture_output=True)
    return folder / LIBRARY


@dataclass(frozen=True, kw_only=True)
class Call:
    """One logged call: of setters always, of all functions after the script line "log all"."""

    time_s: float
    pid: int
    function: str
    device: str
    arguments: tuple[int, ...]
    code: int


@dataclass(frozen=True, kw_only=True)
class Script:
    """A machine with scripted GPUs. Its state outlives processes, as that of a driver does."""

    path: Path
    shared_object: Path

    def write(self, *lines: str) -> "Script":
        """Replace the script at once; running processes follow with their next call."""
        new = self.path.with_suffix(".new")
        new.write_text("\n".join(("driver 580.65.06", "cuda 13000", *lines)) + "\n")
        os.replace(new, self.path)
        return self

    def set_load(self, is_loaded: bool) -> None:
        """Idle or busy, for values of kind `load`."""
        flag = Path(f"{self.path}.load")
        flag.touch() if is_loaded else flag.unlink(missing_ok=True)

    def calls(self, function: str = "") -> list[Call]:
        log = Path(f"{self.path}.calls")
        lines = log.read_text().splitlines() if log.exists() else []
        calls = [_call(line) for line in lines]
        return [call for call in calls if function in ("", call.function)]

    @property
    def env(self) -> dict[str, str]:
        """The environment of a process that shall see this machine."""
        return {**os.environ, "LD_LIBRARY_PATH": str(self.shared_object.parent), "PERFGUARD_STANDIN": str(self.path)}


def play_here(script: Script, monkeypatch: Any) -> Script:
    """Let the bindings in this process and in its children see the script's machine, until the test ends."""
    import pynvml

    monkeypatch.setenv("LD_LIBRARY_PATH", str(script.shared_object.parent))
    monkeypatch.setenv("PERFGUARD_STANDIN", str(script.path))
    monkeypatch.setattr(pynvml, "nvmlLib", ctypes.CDLL(str(script.shared_object)))
    monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})
    return script


def h200(index: int = 0, **changed: object) -> tuple[str, ...]:
    """The lines of one healthy, idle card; `changed` adds or replaces keys, None takes one away.

    Double underscores stand for dots: `field__186="error 4"`.
    """
    values: dict[str, object] = {
        "name": "text NVIDIA H200",
        "uuid": f"text GPU-{index:08x}-1111-2222-3333-444444444444",
        "pci_bus_id": f"text 00000000:{0x19 + index:02X}:00.0",
        "vbios": "text 96.00.99.00.01",
        "board": "text 692-2G520-0280-501",
        "architecture": 9,
        "numa_node": index // 4,
        **_CLOCKS,
        **_SENSORS,
        **_LINKS,
        **_HEALTH,
    }
    values |= {name.replace("__", "."): value for name, value in changed.items()}
    return tuple(f"gpu {index} {key} {value}" for key, value in values.items() if value is not None)


_CLOCKS = {
    "sm_clock_mhz": "load 345 1980",
    "memory_clock_mhz": 3201,
    "sm_clock_max_mhz": 1980,
    "memory_clock_max_mhz": 3201,
    "app_sm_mhz": 1980,
    "app_memory_mhz": 3201,
    "supported_memory_mhz": "list 3201 2619",
    "supported_sm_mhz": "list " + " ".join(str(clock) for clock in range(1980, 330, -15)),
}
_SENSORS = {
    "temperature_c": "load 31 52",
    "field.82": "load 38 60",  # memory temperature
    "slowdown_temperature_c": 87,
    "temperature_margin_c": "load 56 35",
    "power_w": "load 76.5 420",
    "field.185": "load 76500 420000",  # power, average and instant, mW
    "field.186": "load 77100 431000",
    "power_limit_w": 700,
    "power_default_limit_w": 700,
    "energy_j": "ramp 0:1000 1000:401000",
    "event_reasons": "load 1 0",
    "field.74": 0,  # time under software power cap, ns
    "field.75": 0,  # thermal, sync boost, board limit, reliability
    "field.76": 0,
    "field.77": 0,
    "field.79": 0,
    "field.269": 0,  # software thermal, hardware thermal, power brake, ns, as driver 580.159 of an H200 has them
    "field.270": 0,
    "field.271": 0,
    "field.251": "error 3",  # the same in the interface of 575: refused here, with another type of value
    "field.251.type": 1,
    "field.252": "error 3",
    "field.252.type": 1,
    "field.253": "error 3",
    "field.253.type": 1,
    "pstate": "load 8 0",
    "utilisation_percent": "load 0 100",
}
_LINKS = {
    "pcie_generation": "load 1 5",
    "pcie_width": 16,
    "pcie_generation_max": 5,
    "pcie_generation_card_max": 5,
    "pcie_width_max": 16,
    "pcie_speed_mbps": "load 2500 32000",
    "pcie_replay_count": 0,
    "pcie_tx_kb_per_s": 1000,
    "pcie_rx_kb_per_s": 2000,
    "nvlink.0.state": 1,
    "nvlink.0.errors.0": 0,
    "nvlink.0.errors.1": 0,
    "nvlink.0.errors.2": 0,
}
_HEALTH = {
    "ecc_mode": 1,
    "ecc_corrected": 0,
    "ecc_uncorrected": 0,
    "remapped_rows": "list 0 0 0 0",
    "persistence": 1,
    "compute_mode": 0,
    "mig_mode": 0,
    "max_slices": 7,
    "is_restricted": 1,
    "memory_total_bytes": 141 * GIB,
    "memory_used_bytes": 2 * 2**20,
}


def _call(line: str) -> Call:
    head, _, code = line.rpartition(" -> ")
    time_s, pid, function, device, *arguments = head.split()
    return Call(
        time_s=float(time_s),
        pid=int(pid),
        function=function,
        device=device,
        arguments=tuple(map(int, arguments)),
        code=int(code),
    )
