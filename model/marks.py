"""Time stamps taken on the device while a step runs, also inside a CUDA graph; off unless asked for.

A stamp costs a node of the graph, so steps with stamps are graphs of their own: the loop that is measured has
none. On the CPU, which waits for every operation, a stamp is a reading of the host's clock.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
from torch import Tensor

Stamp = torch.cuda.Event | float


@dataclass(kw_only=True)
class Stamps:
    """One pass of a step. Segment i ends at its stamp and began at the one before; the first has no length."""

    segments: list[tuple[str, Stamp]] = field(default_factory=list)
    reductions: list[tuple[Stamp, Stamp]] = field(default_factory=list)
    num_distinct: list[Tensor] = field(default_factory=list)

    def seconds(self) -> dict[str, float]:
        """Seconds by segment, all-reduces together, and distinct experts by layer on average, where there are any."""
        found: dict[str, float] = {}
        for (_, begin), (name, end) in zip(self.segments, self.segments[1:], strict=False):
            found[name] = found.get(name, 0.0) + elapsed_s(begin, end)
        if self.reductions:
            found["all_reduce_s"] = sum(elapsed_s(begin, end) for begin, end in self.reductions)
        if self.num_distinct:
            found["distinct_experts"] = sum(int(count) for count in self.num_distinct) / len(self.num_distinct)
        return found


class Marks:
    """Where stamps go. One of these is shared by all parts of a session."""

    def __init__(self, *, on_cuda: bool = False) -> None:
        self.on_cuda = on_cuda
        self.stamps: Stamps | None = None

    @contextmanager
    def taken(self) -> Iterator[Stamps]:
        """Inside, stamps are taken and go to what this returns."""
        self.stamps = Stamps()
        try:
            yield self.stamps
        finally:
            self.stamps = None

    def stamp(self, segment: str) -> None:
        if self.stamps is not None:
            self.stamps.segments.append((segment, self._now()))

    @contextmanager
    def reduction(self) -> Iterator[None]:
        if self.stamps is None:
            yield
            return
        begin = self._now()
        yield
        self.stamps.reductions.append((begin, self._now()))

    def distinct(self, weights_BTE: Tensor) -> None:
        """Counts the experts that at least one row of a layer was routed to."""
        if self.stamps is not None:
            self.distinct_count((weights_BTE > 0).flatten(0, -2).any(0).sum())

    def distinct_count(self, count: Tensor) -> None:
        if self.stamps is not None:
            self.stamps.num_distinct.append(count.clone())

    def _now(self) -> Stamp:
        if not self.on_cuda:
            return time.perf_counter()
        # `external`: inside a capture this is a node that records anew in every replay.
        event = torch.cuda.Event(enable_timing=True, external=True)
        event.record()
        return event


def elapsed_s(begin: Stamp, end: Stamp) -> float:
    if isinstance(begin, float) or isinstance(end, float):
        return float(end) - float(begin)
    return begin.elapsed_time(end) / 1000  # milliseconds
