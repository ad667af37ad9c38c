"""Tensor parallelism: which rank this is, how a width is shared out, and the one collective of the model.

World size and rank come from the environment contract of torchrun (RANK, WORLD_SIZE, LOCAL_RANK,
MASTER_ADDR, MASTER_PORT). Must not start processes: ranks are started by whoever measures.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import torch
import torch.distributed as dist
from torch import Tensor

from model.marks import Marks
from model.symmetric import SymmetricBuffer

ALL_REDUCES = ("nccl", "symm_mem")


@dataclass(frozen=True, kw_only=True)
class Group:
    """The ranks that hold one model together. `is_owner`: this session created the process group.

    `symmetric`: memory that all ranks can read, if all-reduces go through it instead of NCCL or gloo.
    """

    rank: int = 0
    world_size: int = 1
    local_rank: int = 0
    is_owner: bool = False
    marks: Marks = field(default_factory=Marks, compare=False)
    symmetric: SymmetricBuffer | None = None

    def share(self, total: int, what: str) -> int:
        """This rank's part of `total`. Raises ValueError if the ranks cannot share evenly."""
        if total % self.world_size:
            raise ValueError(f"{total} {what} do not divide over {self.world_size} ranks")
        return total // self.world_size

    def all_reduce(self, x: Tensor) -> Tensor:
        """Sum over ranks, in place, equal to the last bit on every rank. One rank: nothing happens."""
        if self.world_size == 1:
            return x
        with self.marks.reduction():
            if self.symmetric is not None and self.symmetric.holds(x):
                self.symmetric.all_reduce(x)
            else:
                dist.all_reduce(x)
        return x


SINGLE = Group()


def read_group(environ: Mapping[str, str]) -> Group:
    """Rank and world size from torchrun's variables; without them one rank. Raises ValueError."""
    group = Group(
        rank=int(environ.get("RANK", "0")),
        world_size=int(environ.get("WORLD_SIZE", "1")),
        local_rank=int(environ.get("LOCAL_RANK", environ.get("RANK", "0"))),
    )
    if not 0 <= group.rank < group.world_size:
        raise ValueError(f"RANK={group.rank} is not within WORLD_SIZE={group.world_size}")
    return group


def pick_device(kind: str, group: Group) -> torch.device:
    """`cpu`, or this rank's own CUDA device (one device a rank, by LOCAL_RANK). Raises ValueError."""
    if kind == "cpu":
        return torch.device("cpu")
    if kind != "cuda":
        raise ValueError(f"unknown device {kind!r}: use cpu or cuda")
    if group.local_rank >= torch.cuda.device_count():
        raise ValueError(f"LOCAL_RANK={group.local_rank} but {torch.cuda.device_count()} CUDA devices are visible")
    return torch.device("cuda", group.local_rank)


def join_group(device: torch.device, all_reduce: str = "nccl") -> Group:
    """Joins the process group that the environment describes: gloo on CPU, NCCL on CUDA.

    A single rank needs none. A group that exists already (two sessions in one process) is shared, and is
    ended by the session that created it. Raises ValueError on an unknown or impossible `all_reduce`.
    """
    if all_reduce not in ALL_REDUCES:
        raise ValueError(f"unknown all-reduce {all_reduce!r}: use one of {', '.join(ALL_REDUCES)}")
    if all_reduce == "symm_mem" and device.type != "cuda":
        raise ValueError(f"all-reduce symm_mem needs CUDA, not {device.type}: use nccl, which is gloo on the CPU")
    group = replace(read_group(os.environ), marks=Marks(on_cuda=device.type == "cuda"))
    if device.type == "cuda":
        torch.cuda.set_device(device)
    if group.world_size == 1:
        return group
    is_owner = not dist.is_initialized()
    if is_owner:
        # device_id lets NCCL connect at once instead of inside the first, measured, collective.
        device_id = device if device.type == "cuda" else None
        dist.init_process_group("nccl" if device.type == "cuda" else "gloo", device_id=device_id)
    symmetric = SymmetricBuffer(device) if all_reduce == "symm_mem" else None
    return replace(group, is_owner=is_owner, symmetric=symmetric)


def leave_group(group: Group) -> None:
    if group.is_owner and dist.is_initialized():
        dist.destroy_process_group()
