"""Which cards a process will see under CUDA_VISIBLE_DEVICES, by UUID. Pure; refuses to guess.

NVML numbers cards by their bus and ignores the variable; CUDA puts the fastest first unless CUDA_DEVICE_ORDER says
otherwise. An index alone therefore names a card only where the order is known.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Visible:
    """`uuids` in the order in which CUDA numbers them; None where it cannot be told, with `why`."""

    uuids: tuple[str, ...] | None
    why: str = ""


def visible_gpus(
    setting: str | None,
    cards: Sequence[str],
    *,
    slices: Mapping[str, str] | None = None,
    device_order: str = "",
    cuda_order: Sequence[str] = (),
) -> Visible:
    """`setting`: CUDA_VISIBLE_DEVICES, None where unset. `cards`: UUIDs in NVML's order. `slices`: MIG slice -> card.
    `device_order`: CUDA_DEVICE_ORDER. `cuda_order`: UUIDs as CUDA itself lists them without the variable, if known.

    As CUDA reads it: the list ends at the first entry that names nothing; an entry named twice leaves no card at all.
    """
    if setting is None:
        return _all(cards, slices or {})
    entries = [entry.strip() for entry in setting.split(",")]
    if entries[0].startswith("MIG-"):
        return Visible(uuids=_first_slice(entries[0], slices or {}))
    if entries[0].startswith("GPU-"):
        return Visible(uuids=_named(entries, cards))
    numbers = _numbers(entries, len(cards))
    if not numbers:
        return Visible(uuids=())
    order = _order(cards, device_order, cuda_order)
    if order is None:
        return Visible(uuids=None, why="CUDA's order of these cards is not known: name them by UUID")
    return Visible(uuids=tuple(order[number] for number in numbers))


def _all(cards: Sequence[str], slices: Mapping[str, str]) -> Visible:
    if slices:
        return Visible(uuids=None, why="cards are cut into MIG slices: name one by its UUID")
    return Visible(uuids=tuple(cards))


def _order(cards: Sequence[str], device_order: str, cuda_order: Sequence[str]) -> Sequence[str] | None:
    if cuda_order:
        return cuda_order
    return cards if device_order == "PCI_BUS_ID" or len(cards) == 1 else None


def _numbers(entries: Sequence[str], num_cards: int) -> tuple[int, ...]:
    """Text behind a number is ignored, as by C's strtoul: "1st" is 1."""
    numbers: list[int] = []
    for entry in entries:
        found = re.match(r"\+?\d+", entry)
        if found is None or int(found.group()) >= num_cards:
            break
        numbers.append(int(found.group()))
    return tuple(numbers) if len(set(numbers)) == len(numbers) else ()


def _named(entries: Sequence[str], cards: Sequence[str]) -> tuple[str, ...]:
    """A UUID may be cut short as long as it names one card."""
    named: list[str] = []
    for entry in entries:
        fitting = [card for card in cards if card.startswith(entry)] if entry.startswith("GPU-") else []
        if len(fitting) != 1:
            break
        named.append(fitting[0])
    return tuple(named) if len(set(named)) == len(named) else ()


def _first_slice(entry: str, slices: Mapping[str, str]) -> tuple[str, ...]:
    """CUDA uses one slice, the first that is named."""
    fitting = [name for name in slices if name.startswith(entry)]
    return tuple(fitting) if len(fitting) == 1 else ()
