"""What the tests of locked clocks share: the settings that scripted GPUs are left with, read from the log of calls."""

from dataclasses import dataclass

from standin import Script

RESET = {
    "nvmlDeviceResetGpuLockedClocks": "sm",
    "nvmlDeviceResetMemoryLockedClocks": "memory",
    "nvmlDeviceResetApplicationsClocks": "application",
}
SET = {
    "nvmlDeviceSetGpuLockedClocks": "sm",
    "nvmlDeviceSetMemoryLockedClocks": "memory",
    "nvmlDeviceSetApplicationsClocks": "application",
}


@dataclass(frozen=True, kw_only=True)
class Card:
    """What is set on one card; None where nothing is. Locks are (low, high), application clocks (memory, SM)."""

    sm: tuple[int, ...] | None = None
    memory: tuple[int, ...] | None = None
    application: tuple[int, ...] | None = None


FREE = Card()


def uuid(index: int) -> str:
    return f"GPU-{index:08x}-1111-2222-3333-444444444444"


def cards(script: Script, count: int = 2) -> list[Card]:
    """From the setters that succeeded, in their order: the driver remembers the last of each."""
    left: dict[str, dict[str, tuple[int, ...] | None]] = {str(index): {} for index in range(count)}
    for call in script.calls():
        if call.code != 0:
            continue
        if call.function in SET:
            left[call.device][SET[call.function]] = call.arguments
        elif call.function in RESET:
            left[call.device][RESET[call.function]] = None
    return [Card(**left[str(index)]) for index in range(count)]


def was_ever_locked(script: Script) -> bool:
    return any(call.function in SET and call.code == 0 for call in script.calls())
