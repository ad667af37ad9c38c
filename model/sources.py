"""Where weights come from, as one text: a file, a folder or a preset, with options behind a question mark.

    /w/target.safetensors              a file that model.weights.save wrote
    /w/Qwen3-30B-A3B?layers=12         a folder with a Hugging Face checkpoint, here its first 12 layers
    preset:qwen3-30b-a3b?layers=12     random weights of real widths, also &seed=1
    /w/eagle3?tap_ids=output           a draft whose tap ids count outputs, whatever its format usually does

Must not open anything but look whether a folder is there.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import parse_qsl

Role = Literal["target", "draft"]
Kind = Literal["file", "checkpoint", "preset"]
PRESET = "preset:"
OPTIONS: Mapping[Role, Mapping[Kind, tuple[str, ...]]] = {
    "target": {"file": (), "checkpoint": ("layers",), "preset": ("layers", "seed")},
    "draft": {"file": (), "checkpoint": ("tap_ids",), "preset": ("seed",)},
}


@dataclass(frozen=True, kw_only=True)
class Source:
    """`place`: path, or name of a preset. `layers` 0: all. `tap_ids` empty: as the checkpoint's format counts."""

    kind: Kind
    place: str
    layers: int = 0
    seed: int = 0
    tap_ids: Literal["", "entering", "output"] = ""


def parse(text: str, role: Role) -> Source:
    """Raises ValueError on an option that this kind of source does not have in this role, or a value it cannot have."""
    place, _, query = text.partition("?")
    kind: Kind = "preset" if place.startswith(PRESET) else "checkpoint" if Path(place).is_dir() else "file"
    options = dict(parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query)))
    for name, value in options.items():
        if name not in OPTIONS[role][kind]:
            known = ", ".join(OPTIONS[role][kind]) or "no options"
            raise ValueError(f"{text}: as {role} a {kind} takes {known}, not {name!r}")
        if name == "tap_ids" and value not in ("entering", "output"):
            raise ValueError(f"{text}: tap_ids is entering or output, not {value!r}")
        if name in ("layers", "seed") and not value.isdecimal():
            raise ValueError(f"{text}: {name} is a whole number, not {value!r}")
    return Source(
        kind=kind,
        place=place.removeprefix(PRESET),
        layers=int(options.get("layers", 0)),
        seed=int(options.get("seed", 0)),
        tap_ids=options.get("tap_ids", ""),  # type: ignore[arg-type]
    )
