"""Where the subject's code came from: the path swap, the proof, and the hashes of what was loaded.

Must not repair a wrong origin in silence: what another `model` would win or has won is named.
"""

import hashlib
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path


class OriginError(Exception):
    """A module of the subject was loaded from somewhere else than the subject's checkout."""


def swap_roots(path: Sequence[str], *, harness: Iterable[Path], subject_root: Path) -> list[str]:
    """sys.path with the subject first and the harness's own folders gone.

    A harness folder that holds installed distributions (site-packages of a wheel) stays, behind the subject:
    torch may live there.
    """
    drop = {folder.resolve() for folder in harness if not any(folder.glob("*.dist-info"))}
    drop.add(subject_root.resolve())
    return [str(subject_root), *(entry for entry in path if Path(entry).resolve() not in drop)]


def other_models(path: Iterable[str], *, subject_root: Path) -> list[str]:
    """Every other `model` that this sys.path offers: none of them may win, all of them are reported."""
    found = []
    for entry in dict.fromkeys(path):
        folder = Path(entry)
        names = (folder / "model" / "__init__.py", folder / "model" / "entry.py", folder / "model.py")
        if not _lies_under(folder, subject_root):
            found += [str(name) for name in names if name.is_file()][:1]
    return found


def check(subject_root: Path) -> None:
    """Raise OriginError if a loaded `model` or `model.*` does not lie under the subject's root (real paths)."""
    files = module_files()
    foreign = {name: file for name, file in files.items() if not _lies_under(Path(file), subject_root)}
    if foreign:
        name, file = next(iter(foreign.items()))
        more = f" (and {len(foreign) - 1} more)" if len(foreign) > 1 else ""
        raise OriginError(f"{name} was loaded from {file}{more}, expected below {subject_root.resolve()}")


def collect(subject_root: Path, maps: str) -> dict[str, dict[str, str]]:
    """{module or relative path: {path, sha256}} of loaded model modules and of mapped shared objects.

    `maps` is the text of /proc/self/maps. A virtual environment inside the checkout is not the subject.
    """
    root, environment = subject_root.resolve(), Path(sys.prefix)
    found = module_files()
    for path in mapped_files(maps):
        is_ours = _lies_under(Path(path), root) and not _lies_under(Path(path), environment)
        if is_ours and ".so" in Path(path).suffixes:
            found.setdefault(str(Path(path).resolve().relative_to(root)), path)
    return {name: {"path": path, "sha256": sha256(path)} for name, path in found.items() if Path(path).is_file()}


def module_files() -> dict[str, str]:
    """Name and file of every loaded module of `model`; for a namespace package its first folder."""
    files = {}
    for name, module in sorted(sys.modules.items()):
        if name != "model" and not name.startswith("model."):
            continue
        places = [getattr(module, "__file__", None), *getattr(module, "__path__", [])]
        file = next((place for place in places if place), None)
        if file is not None:
            files[name] = str(file)
    return files


def mapped_files(maps: str) -> list[str]:
    """Paths in /proc/PID/maps, whose sixth column may hold spaces."""
    columns = (line.split(maxsplit=5) for line in maps.splitlines())
    return list(dict.fromkeys(row[5] for row in columns if len(row) == 6 and row[5].startswith("/")))


def sha256(path: str | Path) -> str:
    with open(path, "rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def _lies_under(path: Path, root: Path) -> bool:
    return path.resolve().is_relative_to(root.resolve())
