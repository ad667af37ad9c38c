"""Steps captured as CUDA graphs: the whole of a step is one launch, whatever it consists of.

A step is captured the first time it is asked for, after it ran twice as it stands (what compiles or allocates does so
then). What these runs did to the sequences is taken back; slots that they wrote in the caches lie behind every
length. Must not know what a step does.
"""

from collections.abc import Callable
from dataclasses import fields

import torch

from model.marks import Marks, Stamps
from model.sequences import Sequences

Step = Callable[[], None]
WARM_UPS = 2


class Graphs:
    def __init__(self, sequences: Sequences, marks: Marks) -> None:
        self.sequences = sequences
        self.marks = marks
        self.captured: dict[tuple[str, bool], tuple[torch.cuda.CUDAGraph, Stamps | None]] = {}

    def run(self, name: str, step: Step, *, with_marks: bool) -> Stamps | None:
        """Replays the graph of this step; returns the stamps that the replay records, if it has any."""
        key = (name, with_marks)
        if key not in self.captured:
            self.captured[key] = self.capture(step, with_marks=with_marks)
        graph, stamps = self.captured[key]
        graph.replay()
        return stamps

    def release(self) -> None:
        """Frees all of them, and what they hold on to: NCCL's communicator is never destroyed while one is left."""
        while self.captured:
            _, (graph, _stamps) = self.captured.popitem()
            graph.reset()

    def capture(self, step: Step, *, with_marks: bool) -> tuple[torch.cuda.CUDAGraph, Stamps | None]:
        self.warm_up(step)
        graph = torch.cuda.CUDAGraph()
        # thread_local: the watchdog thread of NCCL queries events, which would end a capture of mode "global".
        if not with_marks:
            with torch.cuda.graph(graph, capture_error_mode="thread_local"):
                step()
            return graph, None
        with self.marks.taken() as stamps, torch.cuda.graph(graph, capture_error_mode="thread_local"):
            step()
        return graph, stamps

    def warm_up(self, step: Step) -> None:
        tensors = [getattr(self.sequences, item.name) for item in fields(self.sequences)]
        before = [x.clone() for x in tensors]
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(WARM_UPS):
                step()
                for x, was in zip(tensors, before, strict=True):
                    x.copy_(was)
        torch.cuda.current_stream().wait_stream(stream)
