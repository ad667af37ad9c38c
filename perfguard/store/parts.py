"""Large mappings in parts, so that two that differ in little share the rest. Pure; knows no database.

What a Python program has loaded is hundreds of files, and two launches differ in the few that lie in the checkout.
"""

import zlib
from collections.abc import Iterable, Mapping
from typing import Any

# Every part costs rows and its hash. An environment of a hundred variables is 2 kB compressed: it costs less whole.
MIN_KEYS = 64
MIN_BYTES = 16_384
# More parts repeat less beside an entry that differs, and cost more rows. Of 8 to 80, 40 made the smallest file of two
# campaigns whose launches loaded 842 files each (docs/log.md).
NUM_PARTS = 40


def is_divided(mapping: Mapping[str, Any], num_bytes: int) -> bool:
    """`num_bytes`: of the mapping as JSON."""
    return num_bytes >= MIN_BYTES and len(mapping) >= MIN_KEYS


def place(key: str) -> int:
    """Part that holds `key`. By CRC-32 and not hash(), which differs between processes."""
    # Text of unknown encoding holds lone surrogates.
    return zlib.crc32(key.encode("utf-8", "surrogatepass")) % NUM_PARTS


def divided(mapping: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Its parts in their order, the empty ones left out. The keys may be in any order."""
    found: dict[int, dict[str, Any]] = {}
    for key, value in mapping.items():
        found.setdefault(place(key), {})[key] = value
    return [found[number] for number in sorted(found)]


def joined(parts: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The mapping that was divided, its keys sorted."""
    whole: dict[str, Any] = {}
    for part in parts:
        whole.update(part)
    return {key: whole[key] for key in sorted(whole)}
