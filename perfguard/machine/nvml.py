"""A session with NVML: which cards there are, what they read, what is set on them. The only place that opens one.

Nothing runs at import. Every call is made by one thread with a limit: a driver that hangs costs the limit once, and
from then on every answer is "error"; no second thread is started, since each would hang as well.
"""

import os
import statistics
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from perfguard.errors import ClockError
from perfguard.machine.nvml_calls import reason_of, status_of, text
from perfguard.machine.nvml_fields import read_field
from perfguard.machine.reading import Reading, unknown
from perfguard.machine.simulated import is_simulated, simulated_bindings
from perfguard.machine.worker import Worker

LIMIT_S = 10.0
# Without persistence the driver loads with the first call, seconds for each card.
OPEN_LIMIT_S = 60.0
TOPOLOGY = {0: "same board", 10: "PIX", 20: "PXB", 30: "PHB", 40: "NODE", 50: "SYS"}
NVLINK_CAPABILITY = 2
MAX_SLICES = 16


@dataclass(frozen=True, kw_only=True)
class Nvml:
    """An open session. `reason` says why there is no card; then every reading is an error with that text.

    `handles`: cards by UUID, in the order of their bus. `parents`: MIG slice -> card. `unreadable`: cards that are
    listed and do not answer, by their index.
    """

    bindings: Any
    worker: Worker
    reason: str = ""
    handles: Mapping[str, Any] = field(default_factory=dict)
    parents: Mapping[str, str] = field(default_factory=dict)
    unreadable: Mapping[str, str] = field(default_factory=dict)

    def uuids(self) -> tuple[str, ...]:
        """Cards, in the order of their bus; slices are in `parents`."""
        return tuple(uuid for uuid in self.handles if uuid not in self.parents)

    def read(self, uuid: str, names: Sequence[str]) -> dict[str, Reading]:
        """The named fields of one card or slice. Never raises; what a hanging call kept back is an error."""
        if self.reason or uuid not in self.handles:
            return dict.fromkeys(names, unknown("error", self.reason or f"no GPU {uuid}"))
        return self._read(self.handles[uuid], names)

    def system(self) -> dict[str, Reading]:
        """What belongs to no card: driver and cuda_driver."""
        names = ("driver", "cuda_driver")
        return dict.fromkeys(names, unknown("error", self.reason)) if self.reason else self._read(None, names)

    def _read(self, device: Any, names: Sequence[str]) -> dict[str, Reading]:
        found: dict[str, Reading] = {}

        def task() -> None:
            for name in names:
                found[name] = read_field(self.bindings, device, name)

        self.worker.run(task)
        return {name: found.get(name, unknown("error", self._hung())) for name in names}

    def read_costs(self, uuid: str, names: Sequence[str], repeats: int) -> dict[str, float]:
        """Median seconds that one reading of each field takes; a field that hangs is left out."""
        times: dict[str, list[float]] = {name: [] for name in names}

        def task() -> None:
            for name in [name for name in names for _ in range(repeats)]:
                began_s = time.perf_counter()
                read_field(self.bindings, self.handles[uuid], name)
                times[name].append(time.perf_counter() - began_s)

        if uuid in self.handles:
            self.worker.run(task)
        return {name: statistics.median(found) for name, found in times.items() if found}

    def topology(self) -> dict[tuple[str, str], Reading]:
        """How each pair of cards is joined: "NVLink", else the level of PCIe they share (PIX, PXB, PHB, NODE, SYS)."""
        uuids = self.uuids()
        pairs = [(a, b) for number, a in enumerate(uuids) for b in uuids[number + 1 :]]
        found: dict[tuple[str, str], Reading] = {}

        def task() -> None:
            for pair in pairs:
                found[pair] = _join(self.bindings, self.handles[pair[0]], self.handles[pair[1]])

        self.worker.run(task)
        return {pair: found.get(pair, unknown("error", self._hung())) for pair in pairs}

    def lock_sm_clocks(self, uuid: str, min_mhz: int, max_mhz: int) -> None:
        """Ask for SM clocks within these. Success is that of the request: what the card does then is to be read.

        This and the other setters raise ClockError: `status` tells not_supported, no_permission and error apart.
        """
        self._set(uuid, "nvmlDeviceSetGpuLockedClocks", min_mhz, max_mhz)

    def lock_memory_clocks(self, uuid: str, min_mhz: int, max_mhz: int) -> None:
        self._set(uuid, "nvmlDeviceSetMemoryLockedClocks", min_mhz, max_mhz)

    def reset_sm_clocks(self, uuid: str) -> None:
        self._set(uuid, "nvmlDeviceResetGpuLockedClocks")

    def reset_memory_clocks(self, uuid: str) -> None:
        self._set(uuid, "nvmlDeviceResetMemoryLockedClocks")

    def set_application_clocks(self, uuid: str, memory_mhz: int, sm_mhz: int) -> None:
        """The older way, for drivers without locks; it is gone from newer ones."""
        self._set(uuid, "nvmlDeviceSetApplicationsClocks", memory_mhz, sm_mhz)

    def reset_application_clocks(self, uuid: str) -> None:
        self._set(uuid, "nvmlDeviceResetApplicationsClocks")

    def supported_memory_clocks(self, uuid: str) -> tuple[int, ...]:
        """MHz, highest first. Raises ClockError."""
        return tuple(sorted(self._ask(uuid, "nvmlDeviceGetSupportedMemoryClocks"), reverse=True))

    def supported_sm_clocks(self, uuid: str, memory_mhz: int) -> tuple[int, ...]:
        """MHz that go with this memory clock, highest first. Raises ClockError."""
        return tuple(sorted(self._ask(uuid, "nvmlDeviceGetSupportedGraphicsClocks", memory_mhz), reverse=True))

    def _set(self, uuid: str, function: str, *arguments: int) -> None:
        self._ask(uuid, function, *arguments)

    def _ask(self, uuid: str, function: str, *arguments: int) -> Any:
        answers: list[Any] = []

        def task() -> None:
            try:
                answers.append(getattr(self.bindings, function)(self.handles[uuid], *arguments))
            except Exception as error:
                answers.append(error)

        what = f"{function} on {uuid}"
        if self.reason or uuid not in self.handles:
            raise ClockError(f"{what}: {self.reason or 'no such GPU'}", status="error")
        self.worker.run(task)
        if not answers:
            raise ClockError(f"{what}: {self._hung()}", status="error")
        if isinstance(answers[0], Exception):
            raise ClockError(f"{what}: {reason_of(answers[0])}", status=status_of(answers[0])) from answers[0]
        return answers[0]

    def _hung(self) -> str:
        return f"NVML did not answer within {self.worker.limit_s:g} s"


@contextmanager
def open_nvml(
    load: Callable[[], Any] | None = None, *, limit_s: float = LIMIT_S, open_limit_s: float = OPEN_LIMIT_S
) -> Iterator[Nvml]:
    """A session for the `with` block. `load` returns the bindings (default: `import pynvml`). Never raises:
    where there is no NVML, `reason` says so and `uuids()` is empty.
    """
    worker = Worker(limit_s=limit_s)
    worker.start()
    opened: list[Nvml] = []
    if not worker.run(lambda: opened.append(_open(load or import_bindings, worker)), open_limit_s):
        opened = [Nvml(bindings=None, worker=worker, reason=f"NVML did not answer within {open_limit_s:g} s")]
    try:
        yield opened[0]
    finally:
        if opened[0].bindings is not None and not opened[0].reason:
            worker.run(lambda: _close(opened[0].bindings))
        worker.tasks.put(None)


def import_bindings() -> Any:
    """The bindings of nvidia-ml-py, or the simulated card where one is asked for. The package called pynvml warns at
    import that it is not them: not our concern.
    """
    if is_simulated(os.environ):
        return simulated_bindings()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import pynvml
    return pynvml


def bindings_name() -> str:
    """Which distribution the bindings come from, such as "nvidia-ml-py 13.580.65"; "" if none is installed."""
    if is_simulated(os.environ):
        return "a simulation"
    import importlib.metadata  # dear to start with, and few ask

    for name in ("nvidia-ml-py", "pynvml"):
        try:
            return f"{name} {importlib.metadata.version(name)}"
        except importlib.metadata.PackageNotFoundError:
            continue
    return ""


def _open(load: Callable[[], Any], worker: Worker) -> Nvml:
    try:
        lib = load()
    except ImportError:
        return Nvml(bindings=None, worker=worker, reason="no NVML bindings (package nvidia-ml-py)")
    try:
        lib.nvmlInit()
    except Exception as error:  # NVMLError; which one, its text says
        return Nvml(bindings=None, worker=worker, reason=f"NVML: {reason_of(error)}")
    try:
        return _list_cards(lib, worker)
    except Exception as error:
        _close(lib)
        return Nvml(bindings=None, worker=worker, reason=f"NVML: {reason_of(error)}")


def _list_cards(lib: Any, worker: Worker) -> Nvml:
    handles: dict[str, Any] = {}
    parents: dict[str, str] = {}
    unreadable: dict[str, str] = {}
    for index in range(lib.nvmlDeviceGetCount()):
        try:
            device = lib.nvmlDeviceGetHandleByIndex(index)
            uuid = text(lib.nvmlDeviceGetUUID(device))
        except Exception as error:  # a card that fell off must not hide the others
            unreadable[f"index {index}"] = reason_of(error)
            continue
        handles[uuid] = device
        for slice_uuid, slice_ in _slices(lib, device).items():
            handles[slice_uuid] = slice_
            parents[slice_uuid] = uuid
    return Nvml(bindings=lib, worker=worker, handles=handles, parents=parents, unreadable=unreadable)


def _slices(lib: Any, device: Any) -> dict[str, Any]:
    if read_field(lib, device, "mig_is_on").value is not True:
        return {}
    slices: dict[str, Any] = {}
    for number in range(MAX_SLICES):
        try:
            slice_ = lib.nvmlDeviceGetMigDeviceHandleByIndex(device, number)
            slices[text(lib.nvmlDeviceGetUUID(slice_))] = slice_
        except Exception:  # numbers have gaps
            continue
    return slices


def _join(lib: Any, a: Any, b: Any) -> Reading:
    try:
        if lib.nvmlDeviceGetP2PStatus(a, b, NVLINK_CAPABILITY) == 0:
            return Reading(value="NVLink")
    except Exception:  # older drivers cannot tell; the level of PCIe remains
        pass
    try:
        level = lib.nvmlDeviceGetTopologyCommonAncestor(a, b)
    except Exception as error:
        return unknown(status_of(error), reason_of(error))
    return Reading(value=TOPOLOGY.get(level, f"level {level}"))


def _close(lib: Any) -> None:
    try:
        lib.nvmlShutdown()
    except Exception:  # nothing is left to be done about it
        return
