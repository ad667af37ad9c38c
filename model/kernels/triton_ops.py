"""The operations as Triton kernels. Importing this imports triton."""

from collections.abc import Mapping
from functools import partial

import torch

from model.config import DraftConfig, TargetConfig
from model.kernels import attention, ends, experts, linear, router, rows
from model.kernels.dots import MOST_TILES
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
    # How many programs of a tile have arrived: zero between launches, so that all kernels of one stream may share them.
    arrived_X = torch.zeros(MOST_TILES, dtype=torch.int32, device=device)
    return Ops(
        embed=rows.embed,
        norm_linear=partial(linear.norm_linear, arrived_X),
        add_linear=partial(linear.add_linear, arrived_X),
        attend=attention.attend,
        route=partial(router.route, arrived_X),
        gate_up=experts.gate_up,
        add_down=partial(experts.add_down, arrived_X),
        down=partial(experts.down, arrived_X),
        add=rows.add,
        gated_linear=experts.gated_linear,
        join=rows.join,
        best=partial(ends.best, arrived_X),
        append=ends.append,
        accept=ends.accept,
    )
