"""Which GPUs this machine has, through NVML where its library is there. Reads only; no context stays open.

NVML can hang in a broken driver: it is asked in a thread of its own, with a limit.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

LIMIT_S = 10.0


@dataclass(frozen=True, kw_only=True)
class Gpu:
    """One card. A field that cannot be read is None, its reason is in `unknown`.

    `uuid` names the card: its index differs between NVML, CUDA and reboots.
    """

    uuid: str | None
    name: str | None
    pci_bus_id: str | None
    memory_bytes: int | None
    unknown: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class GpuInventory:
    """`reason` says why no card is listed; empty where NVML answered."""

    gpus: tuple[Gpu, ...] = ()
    driver: str | None = None
    cuda_driver: str | None = None
    reason: str = ""


def gpu_inventory(load: Callable[[], Any] | None = None, *, limit_s: float = LIMIT_S) -> GpuInventory:
    """Ask NVML once. `load` returns the bindings (default: `import pynvml`)."""
    answers: list[GpuInventory] = []
    asking = threading.Thread(target=lambda: answers.append(_ask(load or _import_nvml)), daemon=True)
    asking.start()
    asking.join(limit_s)
    if not answers:
        return GpuInventory(reason=f"NVML did not answer within {limit_s:g} s")
    return answers[0]


def _import_nvml() -> ModuleType:
    import pynvml

    return pynvml  # type: ignore[no-any-return]


def _ask(load: Callable[[], Any]) -> GpuInventory:
    try:
        nvml = load()
    except ImportError:
        return GpuInventory(reason="no NVML bindings (package nvidia-ml-py)")
    try:
        nvml.nvmlInit()
    except Exception as error:  # NVMLError; which one, its text says
        return GpuInventory(reason=f"NVML: {error}")
    try:
        handles = [nvml.nvmlDeviceGetHandleByIndex(index) for index in range(nvml.nvmlDeviceGetCount())]
        return GpuInventory(
            gpus=tuple(_card(nvml, handle) for handle in handles),
            driver=_text(nvml.nvmlSystemGetDriverVersion()),
            cuda_driver=_cuda_version(nvml.nvmlSystemGetCudaDriverVersion()),
        )
    except Exception as error:
        return GpuInventory(reason=f"NVML: {error}")
    finally:
        nvml.nvmlShutdown()


def _card(nvml: Any, handle: Any) -> Gpu:
    unknown: dict[str, str] = {}

    def known(name: str, read: Callable[[], Any]) -> Any:
        try:
            return read()
        except Exception as error:  # NVMLError, or a function that these bindings lack
            unknown[name] = str(error) or type(error).__name__
            return None

    return Gpu(
        uuid=known("uuid", lambda: _text(nvml.nvmlDeviceGetUUID(handle))),
        name=known("name", lambda: _text(nvml.nvmlDeviceGetName(handle))),
        pci_bus_id=known("pci_bus_id", lambda: _text(nvml.nvmlDeviceGetPciInfo(handle).busId)),
        memory_bytes=known("memory_bytes", lambda: int(nvml.nvmlDeviceGetMemoryInfo(handle).total)),
        unknown=unknown,
    )


def _text(value: str | bytes) -> str:
    """Older bindings answer bytes."""
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def _cuda_version(number: int) -> str:
    """NVML counts 1000 a major and 10 a minor version."""
    return f"{number // 1000}.{number % 1000 // 10}"
