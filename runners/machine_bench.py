"""What this machine can do, apart from any model: `python -P machine_bench.py SECONDS`, one JSON object on stdout.

    {"readings": [{"name", "unit", "value"}], "notes": [what was not measured, and why]}

Copy bandwidth and matrix rate of each GPU, copies between GPUs, all-reduce of small messages over all of them; on a
machine without a GPU, or without torch, what its processor can do. Runs in a process of its own, so that nothing of
torch reaches the harness. Must import nothing of perfguard, and must end within SECONDS or so.
"""

import json
import sys
import time
from collections.abc import Callable, Iterator
from statistics import median
from typing import Any

MIB = 2**20
# Large enough to leave every cache, small enough for a busy card.
HOST_COPY_BYTES, GPU_COPY_BYTES, PEER_COPY_BYTES = 64 * MIB, 256 * MIB, 64 * MIB
HOST_MATRIX, GPU_MATRIX = 768, 4096
ALL_REDUCE_BYTES = (4096, 16384, 65536)
# Rounds of which the median counts, after one that does not; calls timed together in one round.
ROUNDS, CALLS, SMALL_CALLS = 7, 10, 100

Reading = dict[str, Any]


def main(arguments: list[str]) -> int:
    torch, notes = _torch()
    until_s = time.monotonic() + float(arguments[0] if arguments else 30.0)
    readings: list[Reading] = []
    for what, part in _parts(torch):
        if time.monotonic() > until_s:
            notes.append(f"{what}: no time was left")
            continue
        try:
            readings += part()
        except Exception as error:  # one part that fails leaves the others
            notes.append(f"{what}: {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}")
    print(json.dumps({"readings": readings, "notes": notes}))
    return 0


def _torch() -> tuple[Any, list[str]]:
    try:
        import torch
    except ImportError:
        return None, ["torch is not installed: only memory copies of the host were measured"]
    return torch, []


def _parts(torch: Any) -> Iterator[tuple[str, Callable[[], list[Reading]]]]:
    yield "host copy", _host_copy
    if torch is None:
        return
    if not torch.cuda.is_available():
        yield "host matrix", lambda: _host_matrix(torch)
        return
    num_gpus = torch.cuda.device_count()
    for index in range(num_gpus):
        yield f"copy on GPU {index}", lambda index=index: _gpu_copy(torch, index)
        yield f"matrix on GPU {index}", lambda index=index: _gpu_matrix(torch, index)
    for one in range(num_gpus):
        for other in range(one + 1, num_gpus):
            yield f"copy from GPU {one} to {other}", lambda a=one, b=other: _peer_copy(torch, a, b)
    for num_bytes in ALL_REDUCE_BYTES if num_gpus > 1 else ():
        yield f"all-reduce of {num_bytes} bytes", lambda n=num_bytes: _all_reduce(torch, n)


def reading(name: str, unit: str, value: float) -> Reading:
    return {"name": name, "unit": unit, "value": value}


def timed_s(call: Callable[[], Any], wait: Callable[[], Any], calls: int = CALLS) -> float:
    """Median seconds of one call; `wait` returns when what was asked for is done."""
    rounds = []
    for _ in range(ROUNDS + 1):
        wait()
        began_s = time.perf_counter()
        for _ in range(calls):
            call()
        wait()
        rounds.append((time.perf_counter() - began_s) / calls)
    return median(rounds[1:])


def _host_copy() -> list[Reading]:
    source, target = bytearray(b"x" * HOST_COPY_BYTES), bytearray(HOST_COPY_BYTES)
    view = memoryview(target)

    def copy() -> None:
        view[:] = source

    # Read and written once each.
    return [reading("host_copy", "byte/s", 2 * HOST_COPY_BYTES / timed_s(copy, lambda: None, 2))]


def _host_matrix(torch: Any) -> list[Reading]:
    a = torch.ones(HOST_MATRIX, HOST_MATRIX)
    return [reading("host_matrix", "flop/s", 2 * HOST_MATRIX**3 / timed_s(lambda: a @ a, lambda: None, 3))]


def _gpu_copy(torch: Any, index: int) -> list[Reading]:
    a = torch.ones(GPU_COPY_BYTES, dtype=torch.uint8, device=f"cuda:{index}")
    b = torch.empty_like(a)
    seconds = timed_s(lambda: b.copy_(a), lambda: torch.cuda.synchronize(index))
    return [reading(f"copy/{_uuid(torch, index)}", "byte/s", 2 * GPU_COPY_BYTES / seconds)]


def _gpu_matrix(torch: Any, index: int) -> list[Reading]:
    a = torch.ones(GPU_MATRIX, GPU_MATRIX, dtype=torch.bfloat16, device=f"cuda:{index}")
    seconds = timed_s(lambda: a @ a, lambda: torch.cuda.synchronize(index))
    return [reading(f"matrix_bf16/{_uuid(torch, index)}", "flop/s", 2 * GPU_MATRIX**3 / seconds)]


def _peer_copy(torch: Any, one: int, other: int) -> list[Reading]:
    a = torch.ones(PEER_COPY_BYTES, dtype=torch.uint8, device=f"cuda:{one}")
    b = torch.empty(PEER_COPY_BYTES, dtype=torch.uint8, device=f"cuda:{other}")

    def wait() -> None:
        torch.cuda.synchronize(one)
        torch.cuda.synchronize(other)

    name = f"peer_copy/{_uuid(torch, one)}/{_uuid(torch, other)}"
    return [reading(name, "byte/s", PEER_COPY_BYTES / timed_s(lambda: b.copy_(a), wait))]


def _all_reduce(torch: Any, num_bytes: int) -> list[Reading]:
    """Over all cards at once, from one process: no launch of ranks is in it."""
    from torch.cuda import nccl

    cards = range(torch.cuda.device_count())
    tensors = [torch.ones(num_bytes // 2, dtype=torch.bfloat16, device=f"cuda:{index}") for index in cards]

    def wait() -> None:
        for index in cards:
            torch.cuda.synchronize(index)

    seconds = timed_s(lambda: nccl.all_reduce(tensors), wait, SMALL_CALLS)
    return [reading(f"all_reduce_{num_bytes // 1024}_kib/{len(tensors)}_gpus", "s", seconds)]


def _uuid(torch: Any, index: int) -> str:
    """As NVML names the card."""
    uuid = str(torch.cuda.get_device_properties(index).uuid)
    return uuid if uuid.startswith("GPU-") else f"GPU-{uuid}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
