"""How much each differing field may explain: the documented order, most influential first. A table and one look-up.

The order is a judgement from measurements and field reports, not a probability: docs/explain.md gives the reasons and
repeats the table. It decides what is read first and tried first, never what is true.
"""

import re
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Influence:
    """Fields of a hypothesis whose whole name fits `pattern`; `what` says it in words."""

    hypothesis: str
    pattern: str
    what: str


ORDER = (
    Influence(
        hypothesis="method",
        pattern=r"workload|runner|command|read|scope|modes|metric .*",
        what="another measurement: command, workload, modes, metric",
    ),
    Influence(
        hypothesis="method",
        pattern=r"world_size|param .*|file .*",
        what="another size: ranks, parameters, weights, prompts",
    ),
    Influence(hypothesis="machine", pattern=r"GPUs|cpu_model|architecture", what="another GPU or processor model"),
    Influence(
        hypothesis="environment",
        pattern=r"NCCL_(PROTO|ALGO|P2P_\w+|SHM_DISABLE|IB_DISABLE|NVLS_ENABLE|M(IN|AX)_\w+)"
        r"|CUDA_VISIBLE_DEVICES|CUDA_LAUNCH_BLOCKING",
        what="NCCL protocol, algorithm, P2P, channels; which GPUs; blocking launches",
    ),
    Influence(hypothesis="environment", pattern=r"NCCL says .*", what="what NCCL itself says it uses"),
    Influence(
        hypothesis="GPU state",
        pattern=r"power_limit_w|sm_clock_mhz|memory_clock_mhz|pcie_.*",
        what="clocks, power limit, PCIe link",
    ),
    Influence(hypothesis="method", pattern=r"runner_sha256|setup", what="another version of the runner, another setup"),
    Influence(hypothesis="code", pattern=r".*", what="another tree: commit or patch"),
    Influence(
        hypothesis="environment",
        pattern=r"(OMP|MKL|OPENBLAS|KMP|GOMP|CUDA|CUDNN|CUBLAS|NCCL|TORCH|PYTORCH|TRITON|VLLM|SGLANG|SGL|FLASHINFER"
        r"|GLOO|UCX|NVSHMEM|NVIDIA|LD|MALLOC)_?\w*",
        what="threads, libraries and engines: OMP_*, TORCH*, PYTORCH_*, CUDA_*, LD_*, VLLM_*, SGLANG_*",
    ),
    Influence(
        hypothesis="software",
        pattern=r"torch.*|driver.*|python|interpreter|compile caches|moe configuration"
        r"|package (torch|triton|vllm|sglang|sgl-kernel|flashinfer.*|flash-attn|nvidia-.*|transformers|numpy)",
        what="torch, CUDA, cuDNN, NCCL, Triton, driver, engine, Python, cold compile caches",
    ),
    Influence(hypothesis="machine", pattern=r".*", what="another machine of the same model, another governor"),
    Influence(hypothesis="GPU state", pattern=r".*", what="temperature and power"),
    Influence(hypothesis="neighbours", pattern=r".*", what="load by others"),
    Influence(hypothesis="software", pattern=r".*", what="kernel, other packages"),
    Influence(
        hypothesis="environment",
        pattern=r".*",
        what="other variables: PATH, VIRTUAL_ENV, what else a command inherited",
    ),
    Influence(hypothesis="method", pattern=r".*", what="version of perfguard"),
)


def influence_of(hypothesis: str, field: str) -> int:
    """Place in ORDER, 0 is the most influential; the number of places for a field of no hypothesis there."""
    for place, row in enumerate(ORDER):
        if row.hypothesis == hypothesis and re.fullmatch(row.pattern, field):
            return place
    return len(ORDER)
