"""When the tools of a setup last changed: whatever is installed or upgraded changes the time of a folder.

Starts nothing and reads no file: a look at a few dozen folders.
"""

import os
from collections.abc import Iterator
from pathlib import Path

# Headers, and the list of libraries that the system's package manager renews.
SYSTEM = ("/usr/include", "/usr/local/include", "/etc/ld.so.cache")
PACKAGES = ("lib/python3*/site-packages", "lib/python3*/dist-packages")


def tools_state(search_path: str) -> dict[str, int]:
    """Folder -> time of its last change in ns, 0 where there is none: those of PATH, packages beside them, headers."""
    return {str(path): _changed_ns(path) for path in _folders(search_path)}


def _folders(search_path: str) -> Iterator[Path]:
    for name in dict.fromkeys(search_path.split(os.pathsep)):
        folder = Path(name)
        if folder.is_absolute():
            yield folder
            for pattern in PACKAGES:
                yield from sorted(folder.parent.glob(pattern))
    yield from map(Path, SYSTEM)


def _changed_ns(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0
