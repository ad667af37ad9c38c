"""What lies in the compile caches of a build before a launch: a launch with warm caches skips what a cold one does.

Reads the file system; must not judge or change anything.
"""

import os
from pathlib import Path


def state_of(caches: Path) -> dict[str, int]:
    """{"num_files", "num_bytes"} of everything below `caches`; zeros where it is not there (yet)."""
    num_files = num_bytes = 0
    for parent, _, names in os.walk(caches):
        for name in names:
            try:
                num_bytes += os.lstat(os.path.join(parent, name)).st_size
            except OSError:
                continue  # a process that is just ending took it away
            num_files += 1
    return {"num_files": num_files, "num_bytes": num_bytes}
