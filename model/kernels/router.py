"""Routing on the device: logits, the best experts of each row, and the list of all that are in use.

The program that finishes last makes the choice, so that no second kernel has to be waited for. Legend: ops.py.
"""

from functools import partial

import torch
import triton
import triton.language as tl
from torch import Tensor

from model.kernels.linear import norm_linear
from model.kernels.ops import Routing
from model.kernels.parts import chunk, inverse_rms, multiply_add, power_of_two, row_sums, zero_tiles
from model.kernels.tuning import FEW, router_tile


@triton.jit
def choose(
    logits_ptr, weights_ptr, ids_ptr, count_ptr, R,
    E: tl.constexpr, BLOCK_E: tl.constexpr, TOP_K: tl.constexpr,
):  # fmt: skip
    """Rank by counting: an expert is chosen if fewer than TOP_K are better; of equals the first."""
    e = tl.arange(0, BLOCK_E)
    in_use = tl.zeros([BLOCK_E], tl.int32)
    for r in range(0, R):
        # .cg: other programs wrote these, and this one's first-level cache does not know of it.
        logits = tl.load(logits_ptr + r * E + e, mask=e < E, other=float("-inf"), cache_modifier=".cg")
        is_better = logits[None, :] > logits[:, None]
        is_first = (logits[None, :] == logits[:, None]) & (e[None, :] < e[:, None])
        rank = tl.sum((is_better | is_first).to(tl.int32), axis=1)
        is_chosen = (rank < TOP_K) & (e < E)
        share = tl.where(is_chosen, tl.exp(logits - tl.max(logits, axis=0)), 0.0)
        weights = share / tl.sum(share, axis=0)
        tl.store(weights_ptr + r * E + e, weights, mask=e < E)
        in_use = tl.maximum(in_use, (weights > 0).to(tl.int32))
    place = tl.cumsum(in_use, axis=0) - in_use
    tl.store(ids_ptr + place, e, mask=in_use > 0)
    tl.store(count_ptr, tl.sum(in_use, axis=0))


@triton.jit
def router_kernel(
    x_ptr, w_ptr, h_ptr, logits_ptr, weights_ptr, ids_ptr, count_ptr, arrived_ptr, eps,
    R: tl.constexpr, H: tl.constexpr, E: tl.constexpr, BLOCK_E: tl.constexpr, TOP_K: tl.constexpr,
    ROWS: tl.constexpr, SPLIT: tl.constexpr, BLOCK_K: tl.constexpr, BLOCK_H: tl.constexpr,
):  # fmt: skip
    tile_row = tl.arange(0, ROWS * SPLIT)
    n = tl.program_id(0) * ROWS + tile_row // SPLIT
    k = (tile_row % SPLIT)[:, None] * (H // SPLIT) + tl.arange(0, BLOCK_K)[None, :]
    sums = zero_tiles(R, ROWS * SPLIT, BLOCK_K)
    for k0 in tl.static_range(0, H // SPLIT, BLOCK_K):
        w = tl.load(w_ptr + n[:, None] * H + k + k0).to(tl.float32)
        sums = multiply_add(sums, w, x_ptr + k0 + k, H, R)
    out = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    for r in tl.static_range(R):
        y = row_sums(sums[r], ROWS, SPLIT) * inverse_rms(h_ptr + r * H, eps, H, BLOCK_H)
        tl.store(logits_ptr + r * E + out, y)
    tl.debug_barrier()  # all threads have stored before one of them says so
    if tl.atomic_add(arrived_ptr, 1, sem="acq_rel") == tl.num_programs(0) - 1:
        choose(logits_ptr, weights_ptr, ids_ptr, count_ptr, R, E, BLOCK_E, TOP_K)
        tl.store(arrived_ptr, 0)


@triton.jit
def choose_kernel(
    logits_ptr, weights_ptr, ids_ptr, count_ptr, R,
    E: tl.constexpr, BLOCK_E: tl.constexpr, TOP_K: tl.constexpr,
):  # fmt: skip
    choose(logits_ptr, weights_ptr, ids_ptr, count_ptr, R, E, BLOCK_E, TOP_K)


def route(
    arrived_1: Tensor, x_RH: Tensor, h_RH: Tensor, weight_EH: Tensor, eps: float, top_k: int
) -> Routing:
    """`arrived_1`: an int32 zero that stays zero between launches; kernels of one stream may share it."""
    (num_rows, size), num_experts = x_RH.shape, len(weight_EH)
    weights_RE = torch.empty(num_rows, num_experts, dtype=torch.float32, device=x_RH.device)
    num_slots = min(num_experts, num_rows * top_k)
    ids_S = torch.empty(num_slots, dtype=torch.int32, device=x_RH.device)
    count_1 = torch.empty(1, dtype=torch.int32, device=x_RH.device)
    chosen = (weights_RE, ids_S, count_1)
    shapes = {"E": num_experts, "BLOCK_E": power_of_two(num_experts), "TOP_K": top_k}
    if num_rows > FEW:
        logits_RE = norm_linear(x_RH, h_RH, weight_EH, eps, torch.float32)
        choose_kernel[(1,)](logits_RE, *chosen, num_rows, num_warps=8, **shapes)
        return Routing(weights_RE=weights_RE, ids_S=ids_S, count_1=count_1)
    tile = router_tile(num_experts, size)
    router_kernel[(num_experts // tile.rows,)](
        x_RH, weight_EH, h_RH, torch.empty_like(weights_RE), *chosen, arrived_1, eps,
        R=num_rows, H=size, ROWS=tile.rows, SPLIT=tile.split, BLOCK_K=chunk(size // tile.split),
        BLOCK_H=power_of_two(size), num_warps=tile.warps, **shapes,
    )  # fmt: skip
    return Routing(weights_RE=weights_RE, ids_S=ids_S, count_1=count_1)


def build_route(device: torch.device) -> partial[Routing]:
    return partial(route, torch.zeros(1, dtype=torch.int32, device=device))
