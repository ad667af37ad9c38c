"""Which weights a workload's parameters mean, and by what they are known again. Must not import torch or model.

Texts are those of the subject's model/sources.py: a file, a folder with a checkpoint, or preset:NAME, with options
behind a question mark.
"""

import hashlib
from collections.abc import Mapping
from pathlib import Path

from runners.contract import ParamsError
from runners.origin import sha256

ASSETS = Path(__file__).parent / "assets" / "tiny"
PRESET = "preset:"
SAMPLED_BYTES = 2**20


def target_text(target: str, layers: int, seed: int) -> str:
    """The tiny target if none is named; `layers` 0: all of them."""
    return with_options(target or str(ASSETS / "target.safetensors"), layers=layers, seed=seed)


def draft_text(draft: str, target: str, seed: int) -> str:
    """The draft that belongs to the target. Raises ParamsError if none can be known."""
    if draft:
        return with_options(draft, seed=seed if draft.startswith(PRESET) else 0)
    if not target:
        return str(ASSETS / "draft.safetensors")
    if target.startswith(PRESET):
        return with_options(target.partition("?")[0], seed=seed)
    raise ParamsError(f"params: target is {target}, but draft is empty: name a draft, or measure mode plain alone")


def with_options(place: str, **options: int) -> str:
    chosen = "&".join(f"{name}={value}" for name, value in options.items() if value)
    return f"{place}{'&' if '?' in place else '?'}{chosen}" if chosen else place


def digests(texts: Mapping[str, str]) -> dict[str, str]:
    """By what each is known again: sha256 of a file; of a folder, see below; a preset is its own text."""
    return {name: digest(text) for name, text in texts.items() if text}


def digest(text: str) -> str:
    path = Path(text.partition("?")[0])
    if text.startswith(PRESET):
        return text
    return folder_digest(path) if path.is_dir() else sha256(path)


def folder_digest(folder: Path) -> str:
    """sha256 of names, sizes and the first and last MiB of every file: all of a checkpoint would take minutes."""
    summed = hashlib.sha256()
    for path in sorted(path for path in folder.iterdir() if path.is_file()):
        size = path.stat().st_size
        summed.update(f"{path.name}/{size}/".encode())
        with open(path, "rb") as file:
            summed.update(file.read(SAMPLED_BYTES))
            file.seek(max(0, size - SAMPLED_BYTES))
            summed.update(file.read())
    return summed.hexdigest()
