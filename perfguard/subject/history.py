"""Writes a small new repository, for `perfguard demo` and benchmarks. The one place that commits; never the user's."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from perfguard.subject.commands import git_output

IDENTITY = (
    "user.name=perfguard demo",
    "user.email=demo@perfguard.invalid",
    "commit.gpgSign=false",
    "tag.gpgSign=false",
)
Commit = tuple[str, str, Mapping[str, str]]


def write_history(folder: Path, commits: Sequence[Commit]) -> None:
    """One commit each of (message, tag or "", whole tree {path: text}), on branch main.

    `folder` must not exist or be empty. Files are only ever added or changed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    git_output(folder, "init", "--quiet", "--initial-branch=main")
    for message, tag, tree in commits:
        for path, text in tree.items():
            file = folder / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        git_output(folder, "add", "--all")
        git_output(folder, "commit", "--quiet", "--allow-empty", "-m", message, config=IDENTITY)
        if tag:
            git_output(folder, "tag", tag, config=IDENTITY)
