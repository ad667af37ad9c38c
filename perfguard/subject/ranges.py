"""The commits between GOOD and BAD, read with one call of git whatever their number. Must not decide what is measured.

`lines.py` says in which order they are searched.
"""

import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import replace

from perfguard.errors import RevisionError
from perfguard.records import Candidate, Revision
from perfguard.subject.commands import ask_git, git_output
from perfguard.subject.lines import Row
from perfguard.subject.location import Location
from perfguard.subject.revisions import printable

# The code of a path that a commit does not hold.
MISSING = "missing"
FIELDS = 5
FORM = "--format=%H%x00%T%x00%P%x00%cI%x00%s"


def check_range(location: Location, good: Revision, bad: Revision) -> None:
    """Raises RevisionError unless GOOD is an ancestor of BAD, with the command that was probably meant."""
    if good.is_dirty:
        raise RevisionError(f"{good.name} is uncommitted work; GOOD is a commit", "perfguard bisect HEAD~10 WORKTREE")
    if (good.commit, good.tree) == (bad.commit, bad.tree):
        raise RevisionError(
            f"GOOD ({good.name}) and BAD ({bad.name}) are the same commit {good.commit[:12]}",
            "perfguard recheck REV --was VALUE: does a commit still give a number?",
        )
    if is_ancestor(location, good.commit, bad.commit):
        return
    if is_ancestor(location, bad.commit, good.commit):
        raise RevisionError(
            f"GOOD and BAD are swapped: {good.name} ({good.commit[:12]}) is newer than {bad.name} ({bad.commit[:12]})",
            f"perfguard bisect {bad.name} {good.name}, with --look-for faster if the newer one is the faster",
        )
    raise _unrelated(location, good, bad)


def is_ancestor(location: Location, older: str, newer: str) -> bool:
    return ask_git(location.root, "merge-base", "--is-ancestor", older, newer).is_ok


def _unrelated(location: Location, good: Revision, bad: Revision) -> RevisionError:
    names = f"{good.name} ({good.commit[:12]}) and {bad.name} ({bad.commit[:12]})"
    if location.is_shallow:
        return RevisionError(
            f"the clone is shallow: between {names} history is cut off",
            f"git -C {location.root} fetch --deepen 1000, or git -C {location.root} fetch --unshallow",
        )
    base = merge_base(location, good.commit, bad.commit)
    if not base:
        return RevisionError(f"{names} are unrelated: they share no commit", "git log --graph --oneline --all")
    return RevisionError(
        f"neither of {names} is an ancestor of the other; both come from {base[:12]}",
        f"perfguard bisect {base[:12]} {bad.name}",
    )


def merge_base(location: Location, one: str, other: str) -> str:
    """The best common ancestor; "" if there is none."""
    answer = ask_git(location.root, "merge-base", one, other)
    return answer.text.split("\n")[0] if answer.is_ok else ""


def main_line(location: Location, commit: str, most: int) -> list[str]:
    """`commit` and its first parents, newest first."""
    return git_output(location.root, "rev-list", "--first-parent", f"--max-count={most}", commit, "--").text.split()


def rows_between(location: Location, good: str, bad: str) -> list[Row]:
    """Every commit that BAD holds and GOOD does not, newest first, parents after children."""
    listed = git_output(
        location.root, "log", "-z", "--no-notes", "--encoding=UTF-8", "--topo-order", FORM, bad, f"^{good}", "--"
    )
    parts = listed.output.decode("utf-8", errors="replace").split("\0")[:-1]
    return [_row(parts[k : k + FIELDS]) for k in range(0, len(parts), FIELDS)]


def _row(fields: Sequence[str]) -> Row:
    commit, tree, parents, committed_at, subject = fields
    return Row(
        commit=commit,
        tree=tree,
        parents=tuple(parents.split()),
        committed_at=committed_at,
        subject=printable(subject),
    )


def codes(location: Location, rows: Iterable[tuple[str, str]], paths: Sequence[str]) -> list[str]:
    """What names the code of each (commit, tree): the tree, or the objects at `paths`. Equal for equal code.

    `paths` are files or folders, not patterns; one call of git for all of them.
    """
    if not paths:
        return [tree for _, tree in rows]
    asked = [f"{commit}:{path.strip('/')}" for commit, _ in rows for path in paths]
    with tempfile.TemporaryFile() as stream:
        stream.write("".join(f"{line}\n" for line in asked).encode("utf-8", errors="surrogateescape"))
        stream.seek(0)
        answer = ask_git(location.root, "cat-file", "--batch-check=%(objectname)", stdin=stream)
    # A path that a commit lacks is answered "NAME missing": no code there, which is code of its own.
    found = [line if " " not in line else MISSING for line in answer.text.split("\n")]
    size = len(paths)
    return [" ".join(found[k : k + size]) for k in range(0, len(found), size)]


def candidate(row: Row, code: str, *, is_whole: bool) -> Candidate:
    """A row as something that can be measured and blamed."""
    revision = Revision(
        name=row.commit[:12],
        commit=row.commit,
        tree=row.tree,
        subject=row.subject,
        committed_at=row.committed_at,
    )
    return Candidate(revision=revision, code=code, parents=row.parents, is_whole=is_whole)


def named(candidates: Sequence[Candidate], bad: Revision) -> list[Candidate]:
    """The last one carries the name that a person gave it."""
    return [
        replace(c, revision=replace(c.revision, name=bad.name)) if c.revision.commit == bad.commit else c
        for c in candidates
    ]
