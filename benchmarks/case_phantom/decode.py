"""A tensor-parallel decode step as a CUDA graph over two GPUs: small products and a 4 KiB all-reduce, 96 times.

    python decode.py

Starts its own ranks, prints {"tokens_per_second": …, "step_s": …} of rank 0 as its last line. NCCL takes its settings
from the environment, as in any engine. Needs torch and two CUDA devices; imports nothing of this project, so that it
can be copied into the repository that is measured.
"""

import json
import os
import socket
import subprocess
import sys
import time

WORLD_SIZE = 2
HIDDEN, INNER, LAYERS = 2048, 768, 48
WARM_REPLAYS, REPLAYS, ROUNDS = 200, 25, 16


def main() -> None:
    if "RANK" in os.environ:
        measure(int(os.environ["RANK"]))
        return
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    shared = os.environ | {"WORLD_SIZE": str(WORLD_SIZE), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    command = [sys.executable, os.path.abspath(__file__)]
    ranks = [subprocess.Popen(command, env=shared | {"RANK": str(rank)}) for rank in range(WORLD_SIZE)]
    codes = [rank.wait() for rank in ranks]
    sys.exit(max(map(abs, codes)))


def measure(rank: int) -> None:
    import torch
    import torch.distributed as dist

    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", rank=rank, world_size=WORLD_SIZE, device_id=torch.device("cuda", rank))
    graph = captured_step(torch, dist)
    for _ in range(WARM_REPLAYS):
        graph.replay()
    torch.cuda.synchronize()
    dist.barrier()
    times_s = []
    for _ in range(ROUNDS):
        began_s = time.perf_counter()
        for _ in range(REPLAYS):
            graph.replay()
        torch.cuda.synchronize()
        times_s.append((time.perf_counter() - began_s) / REPLAYS)
    if rank == 0:
        step_s = sorted(times_s)[ROUNDS // 2]
        print(json.dumps({"tokens_per_second": 1 / step_s, "step_s": step_s}), flush=True)
    dist.barrier()
    torch.cuda.synchronize()
    # Without destroy_process_group: with collectives captured in a graph it was seen to wait for ever.
    os._exit(0)


def captured_step(torch, dist):
    """One token: in every layer two products that a rank holds half of, each followed by the sum over ranks."""
    torch.manual_seed(1)
    shape = {"device": "cuda", "dtype": torch.bfloat16}
    up = [torch.randn(HIDDEN, INNER, **shape) / HIDDEN**0.5 for _ in range(LAYERS)]
    down = [torch.randn(INNER, HIDDEN, **shape) / INNER**0.5 for _ in range(LAYERS)]
    out = [torch.randn(HIDDEN, HIDDEN, **shape) / HIDDEN**0.5 for _ in range(LAYERS)]
    token = torch.randn(1, HIDDEN, **shape)

    def step() -> None:
        state = token
        for layer in range(LAYERS):
            attended = state @ out[layer]
            dist.all_reduce(attended)
            mixed = torch.relu(attended @ up[layer]) @ down[layer]
            dist.all_reduce(mixed)
            state = mixed / mixed.norm().clamp_min(1e-3)

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph


if __name__ == "__main__":
    main()
