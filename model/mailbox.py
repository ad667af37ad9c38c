"""What steps emitted, on its way to the host: posted without waiting, taken later in the same order.

Must not touch what is posted: the device goes on with it.
"""

from collections import deque

import torch
from torch import Tensor

Outcome = list[list[int]]


class Mailbox:
    """Copies of outcome_BX, oldest first. On CUDA they go to pinned memory behind the work already enqueued."""

    def __init__(self) -> None:
        self.waiting: deque[tuple[Tensor, torch.cuda.Event | None, int]] = deque()

    def __len__(self) -> int:
        return len(self.waiting)

    def post(self, outcome_BX: Tensor, most: int) -> None:
        """`most`: tokens that one sequence may have got from this step."""
        if outcome_BX.device.type != "cuda":
            self.waiting.append((outcome_BX.clone(), None, most))
            return
        host_BX = torch.empty(outcome_BX.shape, dtype=outcome_BX.dtype, pin_memory=True)
        host_BX.copy_(outcome_BX, non_blocking=True)
        arrived = torch.cuda.Event()
        arrived.record()
        self.waiting.append((host_BX, arrived, most))

    def take(self) -> Outcome:
        """Tokens that each sequence got from the oldest step; waits for it. Raises RuntimeError if none was posted."""
        if not self.waiting:
            raise RuntimeError("nothing to read: every step has been read already")
        host_BX, arrived, _ = self.waiting.popleft()
        if arrived is not None:
            arrived.synchronize()
        return [row[: row[-1]] for row in host_BX.tolist()]

    def most_unread(self) -> int:
        """Tokens that one sequence may have got from all steps not yet read."""
        return sum(most for _, _, most in self.waiting)

    def clear(self) -> None:
        self.waiting.clear()
