"""What a model will need on one rank, stated before anything is allocated, and held against what is free.

Weights and caches are counted exactly, from modules on the meta device; the workspace is an upper estimate.
"""

import os
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import nn

from model.attention import Attention
from model.decoder import Decoder
from model.eagle3 import Draft
from model.moe import MoE
from model.parallel import Group

# Room for the CUDA context, cuBLAS, NCCL and graphs. An allowance, not a measurement.
RESERVE_BYTES = {"cuda": 2**30, "cpu": 2**28}
LOGIT_ROWS = 160  # 32 sequences x (4 drafted + 1) rows, in fp32 beside the model's dtype


@dataclass(frozen=True, kw_only=True)
class MemoryNeed:
    """Bytes on one rank. `layer_bytes`: what one more layer of the target costs, weights and cache."""

    weights_bytes: int
    kv_bytes: int
    draft_bytes: int
    workspace_bytes: int
    layer_bytes: int

    @property
    def total_bytes(self) -> int:
        return self.weights_bytes + self.kv_bytes + self.draft_bytes + self.workspace_bytes

    def as_json(self) -> dict[str, int]:
        return {**asdict(self), "total_bytes": self.total_bytes}


def need_of(
    target: Decoder,
    draft: Draft | None,
    *,
    dtype: torch.dtype,
    num_slots: int,
    num_sequences: int,
    device_type: str,
    uses_kernels: bool,
    num_distributions: int,
) -> MemoryNeed:
    """`target`, `draft`: modules as this rank will hold them, on any device. `num_slots`: of each KV cache.

    `num_distributions`: probabilities of the whole vocabulary that are kept, where tokens are sampled.
    """
    config = target.config
    num_cells = num_slots * num_sequences
    layer = target.layers[0]
    prefill = _prefill_bytes(layer.mlp, num_slots, dtype, uses_kernels=uses_kernels)
    layer_kv = _cache_bytes(layer.self_attn, num_cells, dtype)
    logits = LOGIT_ROWS * config.vocab_size * (dtype.itemsize + 4)
    distributions = num_distributions * config.vocab_size * 4  # fp32
    return MemoryNeed(
        weights_bytes=_weight_bytes(target, dtype),
        kv_bytes=layer_kv * config.num_layers,
        draft_bytes=_weight_bytes(draft, dtype) + _cache_bytes(draft.midlayer.self_attn, num_cells, dtype)
        if draft
        else 0,
        workspace_bytes=prefill + logits + distributions + RESERVE_BYTES[device_type],
        layer_bytes=_weight_bytes(layer, dtype) + layer_kv,
    )


def free_bytes(device: torch.device, group: Group) -> int | None:
    """What this rank may still take; on CPU the ranks of a host share. None where nobody says."""
    if device.type == "cuda":
        unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return torch.cuda.mem_get_info(device)[0] + unused
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    available = next((int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")), None)
    ranks_here = int(os.environ.get("LOCAL_WORLD_SIZE", group.world_size))
    return None if available is None else available * 1024 // ranks_here


def check(need: MemoryNeed, free: int | None, *, where: str, num_layers: int, world_size: int) -> None:
    """Raises ValueError with the numbers, and what to lower, if `need` exceeds `free`."""
    if free is None or need.total_bytes <= free:
        return
    parts = (
        f"weights {_gb(need.weights_bytes)}, KV cache {_gb(need.kv_bytes)}, draft {_gb(need.draft_bytes)}, "
        f"workspace {_gb(need.workspace_bytes)}"
    )
    rest = need.total_bytes - num_layers * need.layer_bytes
    fitting = max(0, (free - rest) // need.layer_bytes)
    raise ValueError(
        f"the model does not fit: a rank needs {_gb(need.total_bytes)} GB ({parts}), {where} has {_gb(free)} GB free; "
        f"{fitting} of {num_layers} layers fit at tp={world_size}: lower layers, or raise tp"
    )


def _weight_bytes(module: nn.Module, dtype: torch.dtype) -> int:
    return sum(x.numel() * (dtype.itemsize if x.is_floating_point() else 8) for x in module.state_dict().values())


def _prefill_bytes(moe: MoE, num_rows: int, dtype: torch.dtype, *, uses_kernels: bool) -> int:
    """Prefill runs one sequence over plain modules: gate, up and product of every expert for each row.

    Where `down` is laid out for kernels, the product with it copies a layer's back into the order of the modules.
    """
    num_experts, _, inner_size, _ = moe.gate_up_EXIH.shape
    num_copied = moe.down_HEI.numel() if uses_kernels else 0
    return (num_rows * num_experts * 3 * inner_size + num_copied) * dtype.itemsize


def _cache_bytes(attention: Attention, num_cells: int, dtype: torch.dtype) -> int:
    return 2 * attention.num_kv_heads * attention.head_dim * num_cells * dtype.itemsize


def _gb(num_bytes: int) -> str:
    return f"{num_bytes / 1e9:.1f}"
