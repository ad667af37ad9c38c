"""A stored row that cannot be read: said once, with its table and id. Must not know a file or repair anything."""

import contextlib
import zlib
from collections.abc import Iterator, Mapping
from typing import Any


class Damaged(Exception):  # noqa: N818 - it says what was met; `connection` makes the error of it
    """What is in the table and cannot be read."""


@contextlib.contextmanager
def reading_row(table: str, identity: str) -> Iterator[None]:
    """Raises Damaged for whatever a text that is no record of ours makes of its reader."""
    try:
        yield
    except (ValueError, TypeError, LookupError, AttributeError, zlib.error) as error:
        raise Damaged(f"table {table}, {identity}: {error or type(error).__name__}") from error


def mapping(value: Any, what: str) -> Mapping[str, Any]:
    """Raises ValueError for anything but an object."""
    if not isinstance(value, Mapping):
        raise ValueError(f"{what} is {str(value)[:40]!r} and no object")
    return value


def numbers(value: Any, what: str) -> Mapping[str, float]:
    """Raises ValueError for an object that holds anything but numbers."""
    found = mapping(value, what)
    for name, number in found.items():
        if isinstance(number, bool) or not isinstance(number, int | float):
            raise ValueError(f"{what} {name} is {str(number)[:40]!r} and no number")
    return found
