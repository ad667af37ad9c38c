"""All-reduce through memory that every rank of a host can read: one kernel, no NCCL. For small messages.

PyTorch's symmetric memory does the work; this holds the one buffer it needs. Must not decide when it is used.
"""

import torch
import torch.distributed as dist
from torch import Tensor

# For the few rows of a step; what is larger is left to NCCL. Where NCCL becomes faster has not been measured.
MAX_BYTES = 512 * 1024
DTYPES = (torch.float32, torch.bfloat16)  # what PyTorch's kernel adds up


class SymmetricBuffer:
    """Made by all ranks together, after the process group exists."""

    def __init__(self, device: torch.device) -> None:
        import torch.distributed._symmetric_memory as symmetric_memory  # present where torch has CUDA

        self.group_name = dist.group.WORLD.group_name
        self.buffer = symmetric_memory.empty(MAX_BYTES, dtype=torch.uint8, device=device)
        symmetric_memory.rendezvous(self.buffer, self.group_name)

    @staticmethod
    def holds(x: Tensor) -> bool:
        return x.nbytes <= MAX_BYTES and x.dtype in DTYPES

    def all_reduce(self, x: Tensor) -> None:
        """Sum over ranks, in place; every rank adds in the order of ranks, so all get the same bits."""
        staged = self.buffer[: x.nbytes].view(x.dtype).view(x.shape)
        staged.copy_(x)
        x.copy_(torch.ops.symm_mem.one_shot_all_reduce(staged, "sum", self.group_name))
