"""The operations as Triton kernels. Importing this imports triton."""

from collections.abc import Mapping

import torch

from model.config import DraftConfig, TargetConfig
from model.kernels import attention, ends, experts, linear, router, rows
from model.kernels.ops import Ops

# Below this, tensor cores cannot take a chunk, and lanes of a warp would stay idle.
SMALLEST_FACTOR = 16


def check_widths(config: TargetConfig, world_size: int) -> None:
    """Raises ValueError if a width of this rank's share has no factor of 16."""
    widths = {
        "hidden_size": config.hidden_size,
        "query heads * head_dim": config.num_heads // world_size * config.head_dim,
        "expert_size": config.expert_size // world_size,
        "shared_size": config.shared_size // world_size,
    }
    _check(widths, " a rank")


def check_draft_widths(config: DraftConfig) -> None:
    """Raises ValueError if a width of the draft, of which every rank has the whole, has no factor of 16."""
    widths = {
        "draft's hidden_size": config.hidden_size,
        "draft's target_hidden_size": config.target_hidden_size,
        "draft's query heads * head_dim": config.num_heads * config.head_dim,
        "draft's inner_size": config.inner_size,
    }
    _check(widths, "")


def _check(widths: Mapping[str, int], of_what: str) -> None:
    for name, width in widths.items():
        if width % SMALLEST_FACTOR:
            raise ValueError(
                f"kernels triton: {name} is {width}{of_what}, no multiple of {SMALLEST_FACTOR}; use kernels torch"
            )


def build_triton_ops(device: torch.device) -> Ops:
    down, add_down = experts.build_down(device)
    return Ops(
        embed=rows.embed,
        norm_linear=linear.norm_linear,
        add_linear=linear.add_linear,
        attend=attention.attend,
        route=router.build_route(device),
        gate_up=experts.gate_up,
        add_down=add_down,
        down=down,
        gated=rows.gated,
        join=rows.join,
        take=rows.take,
        best=ends.build_best(device),
        append=ends.append,
        accept=ends.accept,
    )
