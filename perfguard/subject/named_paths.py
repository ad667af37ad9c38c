"""A file or folder as a person names it, where they stand -> its path in the repository. Reads no content.

Must not look into commits: whether one holds the path is for git to say.
"""

import os
from pathlib import Path

from perfguard.errors import UsageError


def path_in_repository(text: str, root: Path, folder: Path, option: str) -> str:
    """Path of `text` from `root`, with slashes; "" is the root itself. `folder`: where the person stands.

    A relative path begins at `folder` if that lies in the repository, else at `root`. Raises UsageError for no path,
    and for one that leaves the repository.
    """
    if not text.strip() or "\n" in text:
        raise UsageError(f"{option} {text!r} is no file or folder", f"{option} DIR")
    top = root.resolve()
    stands = folder.resolve()
    start = stands if stands.is_relative_to(top) else top
    plain = Path(os.path.normpath(start / text))
    # The folder's links are followed, not the file's own: a link in the repository is a file of it.
    found = plain if plain.is_relative_to(top) else plain.parent.resolve() / plain.name
    if not found.is_relative_to(top):
        raise UsageError(f"{option} {text!r} is {found}, outside of the repository {top}", f"{option} DIR in {top}")
    return "" if found == top else found.relative_to(top).as_posix()
