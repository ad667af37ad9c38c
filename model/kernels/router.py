"""Routing on the device: logits, the best experts of each row, and the list of all that are in use.

The program that finishes last makes the choice, so that no second kernel has to be waited for. Legend: ops.py.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from model.kernels.dots import Norm, launch_dots, slices
from model.kernels.linear import inverse_rms_of
from model.kernels.ops import Routing
from model.kernels.parts import (
    chunk,
    inverse_rms,
    launch_options,
    row_sums,
    scale_of_squares,
    squares_of,
    wait_for_others,
)
from model.kernels.tuning import FEW, dot_tile, power_of_two, router_tile


@triton.jit
def zero_tiles(R: tl.constexpr, M: tl.constexpr, BLOCK_K: tl.constexpr):
    """R tiles of sums."""
    tiles = ()
    for _r in tl.static_range(R):
        tiles = tiles + (tl.zeros([M, BLOCK_K], tl.float32),)  # noqa: RUF005 - Triton has no (*tiles, x)
    return tiles


@triton.jit
def squares_of_each(squares_ptr, R: tl.constexpr, P: tl.constexpr, BLOCK_P: tl.constexpr):
    """R tiles of the parts of one row; none where there are no parts."""
    tiles = ()
    for r in tl.static_range(R if P else 0):
        tiles = tiles + (squares_of(squares_ptr + r * P, tl.arange(0, 1), 1, P, BLOCK_P),)  # noqa: RUF005
    return tiles


@triton.jit
def multiply_add(sums, w, x_ptr, x_stride, R: tl.constexpr):
    """sums[r] + w * x[r], where x_ptr points at the tile's places in row 0 of x."""
    new = ()
    for r in tl.static_range(R):
        x = tl.load(x_ptr + r * x_stride).to(tl.float32)
        new = new + (sums[r] + w * x,)  # noqa: RUF005
    return new


@triton.jit
def choose(
    logits_ptr, weights_ptr, ids_ptr, count_ptr, R,
    E: tl.constexpr, BLOCK_E: tl.constexpr, TOP_K: tl.constexpr, BLOCK_R: tl.constexpr,
):  # fmt: skip
    """The best TOP_K of each row, one after the other and of equals the first; BLOCK_R rows at a time."""
    e = tl.arange(0, BLOCK_E)
    in_use = tl.zeros([BLOCK_E], tl.int32)
    for r0 in range(0, R, BLOCK_R):
        r = r0 + tl.arange(0, BLOCK_R)
        is_inside = (r < R)[:, None] & (e < E)[None, :]
        places = r[:, None] * E + e[None, :]
        # .cg: other programs wrote these, and this one's first-level cache does not know of it.
        logits = tl.load(logits_ptr + places, mask=is_inside, other=float("-inf"), cache_modifier=".cg")
        left, is_chosen = logits, tl.zeros([BLOCK_R, BLOCK_E], tl.int1)
        for _place in tl.static_range(TOP_K):
            is_next = e[None, :] == tl.argmax(left, axis=1, tie_break_left=True)[:, None]
            is_chosen, left = is_chosen | is_next, tl.where(is_next, float("-inf"), left)
        is_chosen = is_chosen & is_inside
        share = tl.where(is_chosen, tl.exp(logits - tl.max(logits, axis=1)[:, None]), 0.0)
        weights = share / tl.sum(share, axis=1)[:, None]
        tl.store(weights_ptr + places, weights, mask=is_inside)
        in_use = tl.maximum(in_use, tl.max((is_chosen & (weights > 0)).to(tl.int32), axis=0))
    place = tl.cumsum(in_use, axis=0) - in_use
    tl.store(ids_ptr + place, e, mask=in_use > 0)
    tl.store(count_ptr, tl.sum(in_use, axis=0))


@triton.jit
def router_kernel(
    x_ptr, w_ptr, h_ptr, squares_ptr, logits_ptr, scale_ptr, weights_ptr, ids_ptr, count_ptr, arrived_ptr, eps,
    R: tl.constexpr, H: tl.constexpr, E: tl.constexpr, BLOCK_E: tl.constexpr, TOP_K: tl.constexpr,
    BLOCK_R: tl.constexpr, ROWS: tl.constexpr, SPLIT: tl.constexpr, BLOCK_K: tl.constexpr, BLOCK_H: tl.constexpr,
    P: tl.constexpr, BLOCK_P: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    wait_for_others(EARLY)
    out = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    tile_row = tl.arange(0, ROWS * SPLIT)
    n = tl.program_id(0) * ROWS + tile_row // SPLIT
    k = (tile_row % SPLIT)[:, None] * (H // SPLIT) + tl.arange(0, BLOCK_K)[None, :]
    squares = squares_of_each(squares_ptr, R, P, BLOCK_P)
    sums = zero_tiles(R, ROWS * SPLIT, BLOCK_K)
    for k0 in tl.static_range(0, H // SPLIT, BLOCK_K):
        w = tl.load(w_ptr + n[:, None] * H + k + k0).to(tl.float32)
        sums = multiply_add(sums, w, x_ptr + k0 + k, H, R)
    for r in tl.static_range(R):
        scale = tl.sum(scale_of_squares(squares[r], eps, H)) if P else inverse_rms(h_ptr + r * H, eps, H, BLOCK_H)
        tl.store(logits_ptr + r * E + out, row_sums(sums[r], ROWS, SPLIT) * scale)
        if tl.program_id(0) == 0:
            tl.store(scale_ptr + r, scale)
    tl.debug_barrier()  # all threads have stored before one of them says so
    if tl.atomic_add(arrived_ptr, 1, sem="acq_rel") == tl.num_programs(0) - 1:
        choose(logits_ptr, weights_ptr, ids_ptr, count_ptr, R, E, BLOCK_E, TOP_K, BLOCK_R)
        tl.store(arrived_ptr, 0)


@triton.jit
def choose_kernel(
    logits_ptr, squares_ptr, scale_ptr, weights_ptr, ids_ptr, count_ptr, eps, R, H: tl.constexpr,
    E: tl.constexpr, BLOCK_E: tl.constexpr, TOP_K: tl.constexpr, BLOCK_R: tl.constexpr, P: tl.constexpr,
    BLOCK_P: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    """P = 0: scale_R is there already."""
    wait_for_others(EARLY)
    if P:
        for r0 in range(0, R, BLOCK_R):
            r = r0 + tl.arange(0, BLOCK_R)
            squares = squares_of(squares_ptr, r, R, P, BLOCK_P)
            tl.store(scale_ptr + r, scale_of_squares(squares, eps, H), mask=r < R)
    choose(logits_ptr, weights_ptr, ids_ptr, count_ptr, R, E, BLOCK_E, TOP_K, BLOCK_R)


def route(
    arrived_X: Tensor,
    x_RH: Tensor,
    h_RH: Tensor,
    weight_EH: Tensor,
    eps: float,
    top_k: int,
    squares_RP: Tensor | None = None,
) -> Routing:
    """`arrived_X`: int32 zeros that stay zeros between launches; kernels of one stream may share them."""
    (num_rows, size), num_experts, is_few = x_RH.shape, len(weight_EH), len(x_RH) <= FEW
    logits_RE = torch.empty(num_rows, num_experts, dtype=torch.float32, device=x_RH.device)
    routing = Routing(
        scale_R=inverse_rms_of(h_RH, eps) if squares_RP is None and not is_few else torch.empty_like(logits_RE[:, 0]),
        weights_RE=torch.empty_like(logits_RE),
        ids_S=torch.empty(min(num_experts, num_rows * top_k), dtype=torch.int32, device=x_RH.device),
        count_1=torch.empty(1, dtype=torch.int32, device=x_RH.device),
    )
    chosen = (routing.scale_R, routing.weights_RE, routing.ids_S, routing.count_1)
    num_parts = 0 if squares_RP is None else squares_RP.shape[1]
    flags = {"H": size, "E": num_experts, "BLOCK_E": power_of_two(num_experts), "TOP_K": top_k}
    flags |= {"BLOCK_R": min(4, power_of_two(num_rows)), "P": num_parts, "BLOCK_P": power_of_two(max(1, num_parts))}
    flags |= launch_options(x_RH)
    squares = h_RH if squares_RP is None else squares_RP
    if not is_few:
        scale = routing.scale_R if squares_RP is None else squares_RP
        slots = slices(x_RH, weight_EH, 1)
        launch_dots(arrived_X, slots, logits_RE, dot_tile(num_rows, size), norm=Norm(scale=scale, eps=eps))
        choose_kernel[(1,)](logits_RE, squares, *chosen, eps, num_rows, num_warps=8, **flags)
        return routing
    tile = router_tile(num_rows, num_experts, size)
    router_kernel[(num_experts // tile.rows,)](
        x_RH, weight_EH, h_RH, squares, logits_RE, *chosen, arrived_X, eps,
        R=num_rows, ROWS=tile.rows, SPLIT=tile.split, BLOCK_K=chunk(size // tile.split),
        BLOCK_H=power_of_two(size), num_warps=tile.warps, **flags,
    )  # fmt: skip
    return routing
