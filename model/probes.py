"""What the device and its links can do, apart from the model: copy bandwidth, and all-reduces of the model's sizes.

Taken before and after a measurement, so that a link or a card that changed is seen beside the numbers.
"""

import time
from collections.abc import Callable
from typing import Any

import torch

from model.parallel import Group
from model.spec import Spec

# Larger than every cache of a card; on the CPU small, so that it takes no time to speak of.
COPY_BYTES = {"cuda": 2**28, "cpu": 2**24}
COPIES, REDUCTIONS, ROUNDS = 8, 20, 5


def probe(group: Group, device: torch.device, hidden_size: int, spec: Spec) -> dict[str, Any]:
    """`copy_bytes_per_s`: read and written bytes of a large copy; `all_reduce_s`: {bytes: seconds of one}, empty alone.

    The sizes are those of a plain step and of a verify pass in bfloat16. On CUDA 20 all-reduces are one graph.
    """
    rows = (spec.batch, spec.batch * (spec.num_draft_tokens + 1))
    sizes = sorted({2 * num_rows * hidden_size for num_rows in rows}) if group.world_size > 1 else []
    return {
        "copy_bytes_per_s": copy_bandwidth(device),
        "all_reduce_s": {str(size): all_reduce_s(group, device, size) for size in sizes},
    }


def copy_bandwidth(device: torch.device) -> float:
    source = torch.ones(COPY_BYTES[device.type], dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    seconds = median_s(lambda: [target.copy_(source) for _ in range(COPIES)], device)
    return 2 * source.nbytes * COPIES / seconds


def all_reduce_s(group: Group, device: torch.device, num_bytes: int) -> float:
    # The sum of zeros stays zero however often it is taken.
    message = torch.zeros(num_bytes // 2, dtype=torch.bfloat16, device=device)

    def reduce_all() -> None:
        for _ in range(REDUCTIONS):
            group.all_reduce(message)

    reduce_all()
    call = reduce_all
    if device.type == "cuda":
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            reduce_all()
        call = graph.replay
    return median_s(call, device) / REDUCTIONS


def median_s(call: Callable[[], Any], device: torch.device) -> float:
    """Median seconds of one call over the rounds but the first."""
    times = []
    for _ in range(ROUNDS + 1):
        wait(device)
        begin = time.perf_counter()
        call()
        wait(device)
        times.append(time.perf_counter() - begin)
    return sorted(times[1:])[ROUNDS // 2]


def wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
