"""A history as a line that can be searched: which commits, in which order, and which of them may be measured. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Row:
    """One commit as git tells of it."""

    commit: str
    tree: str
    parents: tuple[str, ...]
    committed_at: str = ""
    subject: str = ""


@dataclass(frozen=True, kw_only=True)
class Step:
    """One commit of a line. `is_whole`: it holds every commit before it in the line, so its speed tells on which side
    of it a change lies. A commit of a parallel branch does not, and is never measured: it can only be in a range.
    """

    row: Row
    is_whole: bool = True


def first_parents(rows: Sequence[Row], good: str, bad: str) -> list[Step]:
    """The main line from after GOOD to BAD, oldest first.

    Where GOOD lies on a branch that was merged, commits that do not hold GOOD are left out: the merge that brought
    GOOD in is the oldest step, and stands for all that came with it.
    """
    by_commit = {row.commit: row for row in rows}
    newer = holding(rows, good)
    line = []
    at = bad
    while at in by_commit and at in newer:
        line.append(Step(row=by_commit[at]))
        at = by_commit[at].parents[0] if by_commit[at].parents else ""
    return line[::-1]


def holding(rows: Sequence[Row], good: str) -> set[str]:
    """Those of the rows (children first) that descend from GOOD."""
    newer = {good}
    for row in reversed(rows):
        if not newer.isdisjoint(row.parents):
            newer.add(row.commit)
    return newer


def linearised(rows: Sequence[Row], good: str) -> list[Step]:
    """Every commit in topological order, oldest first. `rows`: children first, each branch in one piece.

    A commit is whole if it holds GOOD and has as many ancestors in the range as there are commits before it. Sets of
    ancestors are integers, one bit a commit, and forgotten as soon as no child needs them.
    """
    line = list(reversed(rows))
    newer = holding(rows, good)
    waiting = _num_children(line)
    masks: dict[str, int] = {}
    steps = []
    for place, row in enumerate(line):
        mask = 1 << place
        for parent in row.parents:
            mask |= masks.get(parent, 0)
            _forget(masks, waiting, parent)
        masks[row.commit] = mask
        steps.append(Step(row=row, is_whole=row.commit in newer and mask.bit_count() == place + 1))
    return steps


def _num_children(line: Sequence[Row]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for row in line:
        for parent in row.parents:
            counts[parent] = counts.get(parent, 0) + 1
    return counts


def _forget(masks: dict[str, int], waiting: dict[str, int], commit: str) -> None:
    waiting[commit] -= 1
    if not waiting[commit]:
        masks.pop(commit, None)


def distinct(codes: Sequence[str], before: str) -> list[int]:
    """Places of the commits whose code differs from that of the commit before; `before` is the code of GOOD."""
    return [k for k, code in enumerate(codes) if code != (codes[k - 1] if k else before)]
