"""How well a detector's change points agree with marked ones: F1 within five points, and cover of the segments.

Both as defined by van den Burg and Williams, An evaluation of change point detection algorithms (2020).
"""

import itertools
from collections.abc import Sequence

MARGIN = 5


def f1(marks: Sequence[Sequence[int]], found: Sequence[int]) -> float:
    """Precision against all marks together, recall averaged over the people who marked; index 0 always counts."""
    predicted = {0, *found}
    everybody = {0}.union(*map(set, marks))
    precision = len(_hits(everybody, predicted)) / len(predicted)
    recall = sum(len(_hits({0, *one}, predicted)) / len({0, *one}) for one in marks) / len(marks)
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def cover(marks: Sequence[Sequence[int]], found: Sequence[int], num_points: int) -> float:
    """Mean over people of how well the best matching found segment covers each marked one, by length."""
    segments = _segments(found, num_points)
    return sum(_cover_one(_segments(one, num_points), segments, num_points) for one in marks) / len(marks)


def _hits(marked: set[int], found: set[int]) -> set[int]:
    """Marks that a found point explains; no found point explains two."""
    free, hits = set(found), set()
    for mark in sorted(marked):
        near = sorted((abs(mark - x), x) for x in free if abs(mark - x) <= MARGIN)
        if near:
            hits.add(mark)
            free.remove(near[0][1])
    return hits


def _segments(points: Sequence[int], num_points: int) -> list[range]:
    bounds = sorted({0, *points, num_points})
    return [range(a, b) for a, b in itertools.pairwise(bounds)]


def _cover_one(marked: list[range], found: list[range], num_points: int) -> float:
    return sum(len(one) * max(_overlap(one, other) for other in found) for one in marked) / num_points


def _overlap(one: range, other: range) -> float:
    """Shared points over all points of both (Jaccard)."""
    shared = max(0, min(one.stop, other.stop) - max(one.start, other.start))
    return shared / (len(one) + len(other) - shared)
