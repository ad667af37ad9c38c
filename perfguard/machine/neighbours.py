"""Who else uses a GPU, from the driver's list of processes. Pure; names nobody that it cannot know.

The driver lists pids of the host. In a container the same number may be nobody, or an innocent process.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Neighbours:
    """`foreign`: (pid, bytes or None) of processes that are not ours. `num_unnamed`: listed, but the pids mean
    nothing here. `is_complete`: False where others could be there unseen.
    """

    foreign: tuple[tuple[int, int | None], ...] = ()
    num_unnamed: int = 0
    is_complete: bool = True


def neighbours(processes: Sequence[Sequence[Any]], own: Collection[int], *, pids_are_global: bool) -> Neighbours:
    """`processes`: [pid, bytes or None] as the driver lists them; `own`: pids of this measurement."""
    if not pids_are_global:
        return Neighbours(num_unnamed=len(processes), is_complete=False)
    return Neighbours(foreign=tuple((pid, memory) for pid, memory in processes if pid not in own))
