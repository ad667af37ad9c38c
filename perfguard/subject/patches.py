"""Patches on top of revisions, and what differs between two of them. Works in a scratch index only.

Must not touch a checkout (checkout.py does).
"""

import os
from dataclasses import replace
from pathlib import Path

from perfguard.errors import RevisionError, UsageError
from perfguard.records import Revision
from perfguard.subject.location import Location
from perfguard.subject.scratch import apply_to_index, open_scratch, stage_revision, tree_of

# Folders whose content is imported as if it lay at the top of the repository.
SOURCE_FOLDERS = ("src", "python", "lib")
# A patch is kept in the database.
MAX_PATCH_BYTES = 64 * 2**20


def with_patch(location: Location, revision: Revision, file: Path) -> Revision:
    """`revision` with the patch in `file` on top, merged three-way. Raises UsageError or RevisionError."""
    patch = read_patch(file)
    if not patch.strip():
        raise UsageError(f"--carry {file}: the patch is empty", f"git diff > {file}")
    with open_scratch(location) as scratch:
        stage_revision(scratch, revision)
        answer = apply_to_index(scratch, patch, "--3way")
        if not answer.is_ok:
            raise RevisionError(
                f"--carry {file} does not apply to {revision.name} ({revision.commit[:12]}): {answer.error}",
                f"git switch --detach {revision.commit[:12]} && git apply --3way {file}",
            )
        return replace(revision, patch=scratch.patch_against(revision.commit), tree=scratch.write_tree())


def read_patch(file: Path) -> bytes:
    """The content of --carry FILE. Raises UsageError for what cannot be read, is no file, or holds too much."""
    try:
        size = file.stat().st_size
        # A pipe or a device may never end.
        if not file.is_file():
            raise UsageError(f"--carry {file} is no regular file", "git diff > FILE.patch")
        if size > MAX_PATCH_BYTES:
            held = f"{size / 2**20:.0f} MiB, more than the {MAX_PATCH_BYTES // 2**20} that a patch may have"
            raise UsageError(f"--carry {file} holds {held}", "commit large files, and compare that commit")
        return file.read_bytes()
    except OSError as error:
        raise UsageError(f"--carry {file}: {error.strerror}", "git diff > FILE.patch") from error


def with_files(location: Location, revision: Revision, source: Revision, path: str) -> Revision:
    """`revision` with the file or folder `path` as it is in `source`, whatever it held there. Raises RevisionError."""
    place = path.strip("/")
    with open_scratch(location) as scratch:
        tree = tree_of(scratch, source)
        # `--literal-pathspecs`: a name with a star is a name.
        listed = scratch.demand("--literal-pathspecs", "ls-tree", "-r", "-z", "--full-tree", tree, place)
        if not listed.output:
            raise RevisionError(
                f"--bench-from: {source.name} ({source.commit[:12]}) holds no {place}",
                f"git ls-tree -r --name-only {source.commit[:12]}",
            )
        stage_revision(scratch, revision)
        scratch.demand("--literal-pathspecs", "rm", "-r", "-f", "--cached", "--quiet", "--ignore-unmatch", "--", place)
        entries = scratch.folder / "entries"
        entries.write_bytes(listed.output)
        scratch.demand("update-index", "-z", "--index-info", stdin=entries)
        return replace(revision, patch=scratch.patch_against(revision.commit), tree=scratch.write_tree())


def changed_files(location: Location, base: Revision, head: Revision) -> frozenset[str]:
    """Paths whose content differs between two revisions, patches included; a changed mode is no other code."""
    with open_scratch(location) as scratch:
        trees = [tree_of(scratch, base), tree_of(scratch, head)]
        answer = scratch.demand("diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-abbrev", *trees)
    return frozenset(read_raw_diff(answer.output))


def read_raw_diff(raw: bytes) -> list[str]:
    """Paths of `git diff-tree --raw -z` whose object ids differ."""
    parts = os.fsdecode(raw).split("\0")[:-1]
    pairs = zip(parts[::2], parts[1::2], strict=True)
    changes = ((header.split(" "), path) for header, path in pairs)
    return [path for (_, _, before, after, _), path in changes if before != after]


def python_modules(location: Location, revision: Revision) -> dict[str, str]:
    """Dotted name -> tracked file, for every Python file of a revision."""
    with open_scratch(location) as scratch:
        tree = tree_of(scratch, revision)
        files = scratch.demand("ls-tree", "-r", "-z", "--name-only", "--full-tree", tree).names()
    return dotted_names(files)


def dotted_names(files: list[str]) -> dict[str, str]:
    """How Python may call each file: from the repository's top, and from a source folder (see SOURCE_FOLDERS)."""
    names: dict[str, str] = {}
    for file in files:
        if not file.endswith(".py"):
            continue
        parts = file.removesuffix(".py").split("/")
        if parts[-1] == "__init__":
            parts.pop()
        starts = [0, *(place + 1 for place, part in enumerate(parts) if part in SOURCE_FOLDERS)]
        for start in starts:
            if parts[start:] and all(part.isidentifier() for part in parts[start:]):
                names.setdefault(".".join(parts[start:]), file)
    return names
