"""GOOD and BAD -> the line of candidates that a bisect searches. Joins what git tells with the order of `lines.py`."""

import os
from collections.abc import Sequence
from dataclasses import dataclass

from perfguard.records import Candidate, Revision
from perfguard.subject.lines import Row, Step, distinct, first_parents, linearised
from perfguard.subject.location import Location
from perfguard.subject.ranges import MISSING, candidate, check_range, codes, named, rows_between


@dataclass(frozen=True, kw_only=True)
class Line:
    """`candidates` oldest first, each with other code than the one before; `num_commits` counts the others too.

    No candidates: GOOD and BAD are the same code. `note`: what is special about this history, "" if nothing. `absent`:
    those of the paths that no commit of it holds.
    """

    candidates: tuple[Candidate, ...]
    num_commits: int
    note: str = ""
    absent: tuple[str, ...] = ()


def line_between(location: Location, good: Revision, bad: Revision, *, paths: Sequence[str], all_parents: bool) -> Line:
    """Raises RevisionError where GOOD is no ancestor of BAD. `paths`: only code there counts; none: all of it."""
    check_range(location, good, bad)
    rows = rows_between(location, good.commit, bad.commit)
    steps = _steps(rows, good, bad, all_parents=all_parents)
    ends = [(good.commit, good.tree), *((step.row.commit, step.row.tree) for step in steps)]
    before, *found = codes(location, ends, paths)
    kept = [candidate(steps[k].row, found[k], is_whole=steps[k].is_whole) for k in distinct(found, before)]
    candidates = named(kept, bad)
    if bad.is_dirty:
        candidates.append(Candidate(revision=bad, code=bad.tree, parents=(bad.commit,)))
    return Line(
        candidates=tuple(candidates),
        num_commits=len(steps) + bad.is_dirty,
        note=_note(rows, [step.row for step in steps], good, all_parents=all_parents),
        absent=_absent(paths, [before, *found], bad),
    )


def _absent(paths: Sequence[str], found: Sequence[str], bad: Revision) -> tuple[str, ...]:
    """`found`: codes of the commits, one word a path. What uncommitted work adds is there too."""
    held = [any(words[k] != MISSING for words in map(str.split, found)) for k in range(len(paths))]
    added = [os.fsencode(f" b/{path}") in bad.patch for path in paths]
    return tuple(path for path, is_held, is_added in zip(paths, held, added, strict=True) if not (is_held or is_added))


def _steps(rows: Sequence[Row], good: Revision, bad: Revision, *, all_parents: bool) -> list[Step]:
    return linearised(rows, good.commit) if all_parents else first_parents(rows, good.commit, bad.commit)


def _note(rows: Sequence[Row], line: Sequence[Row], good: Revision, *, all_parents: bool) -> str:
    if all_parents or not line or good.commit in line[0].parents[:1]:
        return ""
    return f"GOOD lies on a branch that {line[0].commit[:12]} merged: that merge stands for all that came beside GOOD"
