"""How the NVML bindings answer and refuse: statuses, fall-backs between names, numbered values. No reader, no session.

`lib` is the bindings (nvidia-ml-py), `device` a handle. Numbers of errors and fields are those of the public NVML
interface.
"""

from collections.abc import Callable
from typing import Any

from perfguard.machine.reading import Plain, Status

NOT_SUPPORTED, NO_PERMISSION, FUNCTION_NOT_FOUND = 3, 4, 13
# The next name may know: not supported, no such function, other version of a structure, deprecated.
TRY_NEXT = (NOT_SUPPORTED, FUNCTION_NOT_FOUND, 25, 26)
# The driver writes these where a counter has no value.
NO_VALUE = (2**32 - 1, 2**64 - 1)
# The type of a numbered value that counts.
UNSIGNED_LONG_LONG = 3
Reader = Callable[[Any, Any], Plain]


class NotTold(Exception):  # noqa: N818 - an answer, not an error
    """The driver answered, but there is nothing in it for this card."""

    value = NOT_SUPPORTED


def status_of(error: Exception) -> Status:
    """Of what the bindings raise; a function that they lack, a file that the kernel does not show: not_supported."""
    code = getattr(error, "value", None)
    if code == NO_PERMISSION or isinstance(error, PermissionError):
        return "no_permission"
    is_lacking = isinstance(error, (AttributeError, FileNotFoundError, LookupError))
    return "not_supported" if code in TRY_NEXT or is_lacking else "error"


def reason_of(error: Exception) -> str:
    if isinstance(error, AttributeError) and error.name:
        return f"these bindings have no {error.name}"
    return str(error) or type(error).__name__


def text(value: str | bytes) -> str:
    """Older bindings answer bytes."""
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def first(*calls: Callable[[], Any]) -> Any:
    """The answer of the first call that this driver and these bindings know."""
    for number, call in enumerate(calls, start=1):
        try:
            return call()
        except Exception as error:
            if number == len(calls) or status_of(error) != "not_supported":
                raise
    return None


def field_value(lib: Any, device: Any, field: int, scope: int = 0) -> float:
    """One of the driver's numbered values. The call as a whole succeeds; each field has a code of its own."""
    found = _field(lib, device, field, scope)
    members = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")
    return getattr(found.value, members[found.valueType])  # type: ignore[no-any-return]


def counter_value(lib: Any, device: Any, field: int) -> int:
    """The same of a counter. A number whose meaning changed answers, but with a value of another type: NotTold."""
    found = _field(lib, device, field, 0)
    if found.valueType != UNSIGNED_LONG_LONG:
        raise NotTold(f"the driver's value {field} is no counter")
    return int(found.value.ullVal)


def _field(lib: Any, device: Any, field: int, scope: int) -> Any:
    found = lib.nvmlDeviceGetFieldValues(device, [(field, scope)])[0]
    if found.nvmlReturn != 0:
        raise lib.NVMLError(found.nvmlReturn)
    return found
