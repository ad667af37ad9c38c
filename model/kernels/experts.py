"""The routed experts at few rows: each expert that any row chose is read once, for all rows.

A row that did not choose an expert has weight 0 there. That costs arithmetic, which is meant to hide behind the
stream of weights, and saves gathering rows. `down` is read expert by expert (fused.lay_out_for_kernels).
Legend: ops.py.
"""

from collections.abc import Callable
from functools import partial

import torch
import triton
import triton.language as tl
from torch import Tensor

from model.kernels.ops import Residual, Routing
from model.kernels.parts import (
    chunk,
    launch_options,
    multiply_add,
    row_sums,
    wait_for_others,
    zero_tiles,
)
from model.kernels.tuning import DotTile, Tile, down_tile, gate_up_tile

# Tiles of a result of which several programs each have a part.
MOST_TILES = 4096


@triton.jit
def gate_up_kernel(
    x_ptr, w_ptr, scale_ptr, weights_ptr, ids_ptr, count_ptr, a_ptr,
    R: tl.constexpr, H: tl.constexpr, E: tl.constexpr, INNER: tl.constexpr, ROWS: tl.constexpr, BLOCK_K: tl.constexpr,
    EARLY: tl.constexpr,
):  # fmt: skip
    """a[slot, r, i] = routing weight * silu(gate) * up. Programs of slots that are not in use leave at once."""
    slot = tl.program_id(1)
    wait_for_others(EARLY)
    if slot >= tl.load(count_ptr):
        return
    expert = tl.load(ids_ptr + slot)
    i = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    k = tl.arange(0, BLOCK_K)[None, :] + 0 * i[:, None]
    gate_ptrs = w_ptr + expert.to(tl.int64) * (2 * INNER * H) + i[:, None] * H + k
    gates, ups = zero_tiles(R, ROWS, BLOCK_K), zero_tiles(R, ROWS, BLOCK_K)
    for k0 in tl.static_range(0, H, BLOCK_K):
        gate_w = tl.load(gate_ptrs + k0, eviction_policy="evict_first").to(tl.float32)
        up_w = tl.load(gate_ptrs + (INNER * H + k0), eviction_policy="evict_first").to(tl.float32)
        gates = multiply_add(gates, gate_w, x_ptr + k0 + k, H, R)
        ups = multiply_add(ups, up_w, x_ptr + k0 + k, H, R)
    for r in tl.static_range(R):
        scale = tl.load(scale_ptr + r)
        gate, up = tl.sum(gates[r], axis=1) * scale, tl.sum(ups[r], axis=1) * scale
        a = tl.load(weights_ptr + r * E + expert) * (gate * tl.sigmoid(gate)) * up
        tl.store(a_ptr + (slot * R + r) * INNER + i, a)


@triton.jit
def gate_up_dot_kernel(
    x_ptr, w_ptr, scale_ptr, weights_ptr, ids_ptr, count_ptr, a_ptr, R,
    H: tl.constexpr, E: tl.constexpr, INNER: tl.constexpr,
    BLOCK_N: tl.constexpr, BLOCK_R: tl.constexpr, BLOCK_K: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    slot = tl.program_id(1)
    wait_for_others(EARLY)
    if slot >= tl.load(count_ptr):
        return
    expert = tl.load(ids_ptr + slot)
    i = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    r = tl.program_id(2) * BLOCK_R + tl.arange(0, BLOCK_R)
    k = tl.arange(0, BLOCK_K)
    gate_ptrs = w_ptr + expert.to(tl.int64) * (2 * INNER * H) + tl.minimum(i, INNER - 1)[:, None] * H + k[None, :]
    x_ptrs = x_ptr + r[None, :] * H + k[:, None]
    gate = tl.zeros([BLOCK_N, BLOCK_R], tl.float32)
    up = tl.zeros([BLOCK_N, BLOCK_R], tl.float32)
    for k0 in range(0, H, BLOCK_K):
        x = tl.load(x_ptrs + k0, mask=(r < R)[None, :], other=0.0)
        gate = tl.dot(tl.load(gate_ptrs + k0, eviction_policy="evict_first"), x, gate, input_precision="ieee")
        up = tl.dot(tl.load(gate_ptrs + (INNER * H + k0), eviction_policy="evict_first"), x, up, input_precision="ieee")
    scale = tl.load(scale_ptr + r, mask=r < R, other=0.0)[None, :]
    weight = tl.load(weights_ptr + r * E + expert, mask=r < R, other=0.0)[None, :]
    gate, up = gate * scale, up * scale
    places = (slot * R + r)[None, :] * INNER + i[:, None]
    tl.store(a_ptr + places, weight * (gate * tl.sigmoid(gate)) * up, mask=(i < INNER)[:, None] & (r < R)[None, :])


@triton.jit
def down_kernel(
    a_ptr, w_ptr, h_ptr, gamma_ptr, ids_ptr, count_ptr, y_ptr, stride_h, stride_e,
    R: tl.constexpr, H: tl.constexpr, INNER: tl.constexpr, ROWS: tl.constexpr, SPLIT: tl.constexpr,
    BLOCK_K: tl.constexpr, ADDS: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    """SPLIT experts at a time, each on warps of its own."""
    tile_row = tl.arange(0, ROWS * SPLIT)
    n = tl.program_id(0) * ROWS + tile_row // SPLIT
    k = tl.arange(0, BLOCK_K)[None, :] + 0 * n[:, None]
    wait_for_others(EARLY)
    count = tl.load(count_ptr)
    sums = zero_tiles(R, ROWS * SPLIT, BLOCK_K)
    for slot0 in tl.range(0, count, SPLIT, loop_unroll_factor=2):
        slot = slot0 + tile_row % SPLIT
        is_used = slot < count
        slot = tl.minimum(slot, count - 1)
        expert = tl.load(ids_ptr + slot).to(tl.int64)
        w_ptrs = w_ptr + (expert * stride_e + n * stride_h)[:, None] + k
        a_ptrs = a_ptr + (slot * (R * INNER))[:, None] + k
        for k0 in tl.static_range(0, INNER, BLOCK_K):
            w = tl.load(w_ptrs + k0, mask=is_used[:, None], other=0.0, eviction_policy="evict_first").to(tl.float32)
            sums = multiply_add(sums, w, a_ptrs + k0, INNER, R)
    out = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    for r in tl.static_range(R):
        y = row_sums(sums[r], ROWS, SPLIT)
        if ADDS:
            y = y + tl.load(h_ptr + r * H + out)
            tl.store(h_ptr + r * H + out, y)
            y = y * tl.load(gamma_ptr + out).to(tl.float32)
        tl.store(y_ptr + r * H + out, y)


@triton.jit
def down_dot_kernel(
    a_ptr, w_ptr, h_ptr, gamma_ptr, ids_ptr, count_ptr, parts_ptr, arrived_ptr, y_ptr, squares_ptr, R, stride_h,
    stride_e,
    H: tl.constexpr, INNER: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_R: tl.constexpr, BLOCK_K: tl.constexpr,
    SPLIT: tl.constexpr, ADDS: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    """SPLIT programs share the experts of a tile. The last to finish adds up, in an order that never changes."""
    n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    r = tl.program_id(1) * BLOCK_R + tl.arange(0, BLOCK_R)
    k = tl.arange(0, BLOCK_K)
    y = tl.zeros([BLOCK_N, BLOCK_R], tl.float32)
    own_ptrs = w_ptr + tl.minimum(n, H - 1) * stride_h
    wait_for_others(EARLY)
    a_ptrs = a_ptr + r[None, :] * INNER + k[:, None]
    for slot in range(tl.program_id(2), tl.load(count_ptr), SPLIT):
        expert = tl.load(ids_ptr + slot).to(tl.int64)
        for k0 in range(0, INNER, BLOCK_K):
            w = tl.load(own_ptrs[:, None] + (expert * stride_e + k0) + k[None, :], eviction_policy="evict_first")
            a = tl.load(a_ptrs + (slot * R * INNER + k0), mask=(r < R)[None, :], other=0.0)
            y = tl.dot(w, a, y, input_precision="ieee")
    is_inside = (n < H)[:, None] & (r < R)[None, :]
    places = r[None, :] * H + n[:, None]
    if SPLIT == 1:
        finish_down(y, h_ptr, gamma_ptr, y_ptr, squares_ptr, places, is_inside, n, r, R, H, ADDS)
    else:
        tl.store(parts_ptr + tl.program_id(2) * R * H + places, y, mask=is_inside)
        tl.debug_barrier()  # all threads have stored before one of them says so
        arrived_ptr += tl.program_id(1) * tl.num_programs(0) + tl.program_id(0)
        if tl.atomic_add(arrived_ptr, 1, sem="acq_rel") == SPLIT - 1:
            total = tl.zeros([BLOCK_N, BLOCK_R], tl.float32)
            for part in tl.static_range(SPLIT):
                total += tl.load(parts_ptr + part * R * H + places, mask=is_inside, other=0.0, cache_modifier=".cg")
            finish_down(total, h_ptr, gamma_ptr, y_ptr, squares_ptr, places, is_inside, n, r, R, H, ADDS)
            tl.store(arrived_ptr, 0)


@triton.jit
def finish_down(
    y, h_ptr, gamma_ptr, y_ptr, squares_ptr, places, is_inside, n, r, R, H: tl.constexpr, ADDS: tl.constexpr
):  # fmt: skip
    if ADDS:
        y = y + tl.load(h_ptr + places, mask=is_inside, other=0.0)
        tl.store(h_ptr + places, y, mask=is_inside)
        squares = tl.sum(tl.where(is_inside, y * y, 0.0), axis=0)
        tl.store(squares_ptr + r * tl.num_programs(0) + tl.program_id(0), squares, mask=r < R)
        y = y * tl.load(gamma_ptr + n, mask=n < H, other=0.0).to(tl.float32)[:, None]
    tl.store(y_ptr + places, y, mask=is_inside)


def gate_up(x_RH: Tensor, gate_up_EXIH: Tensor, routing: Routing) -> Tensor:
    """Slots of a_SRI that are not in use are left as they were: nothing reads them."""
    (num_rows, size), num_slots = x_RH.shape, len(routing.ids_S)
    num_experts, _, inner_size, _ = gate_up_EXIH.shape
    a_SRI = torch.empty(num_slots, num_rows, inner_size, dtype=x_RH.dtype, device=x_RH.device)
    chosen = (routing.scale_R, routing.weights_RE, routing.ids_S, routing.count_1)
    flags = {"H": size, "E": num_experts, "INNER": inner_size} | launch_options(x_RH)
    tile = gate_up_tile(num_rows, inner_size, size)
    if isinstance(tile, Tile):
        gate_up_kernel[(inner_size // tile.rows, num_slots)](
            x_RH, gate_up_EXIH, *chosen, a_SRI,
            R=num_rows, ROWS=tile.rows, BLOCK_K=chunk(size), num_warps=tile.warps, **flags,
        )  # fmt: skip
        return a_SRI
    gate_up_dot_kernel[(triton.cdiv(inner_size, tile.rows), num_slots, triton.cdiv(num_rows, tile.columns))](
        x_RH, gate_up_EXIH, *chosen, a_SRI, num_rows, BLOCK_N=tile.rows, BLOCK_R=tile.columns, BLOCK_K=tile.depth,
        num_warps=tile.warps, num_stages=tile.stages, **flags,
    )  # fmt: skip
    return a_SRI


def add_down(
    arrived_X: Tensor, a_SRI: Tensor, down_HEI: Tensor, routing: Routing, residual: Residual
) -> tuple[Tensor, Tensor | None]:
    """One row's squares are left to whoever reads it."""
    (_, num_rows, inner_size), size = a_SRI.shape, len(down_HEI)
    tile, squares_RP = down_tile(num_rows, size, inner_size), None
    if isinstance(tile, DotTile):
        num_parts = triton.cdiv(size, tile.rows)
        squares_RP = torch.empty(num_rows, num_parts, dtype=torch.float32, device=a_SRI.device)
    return down(arrived_X, a_SRI, down_HEI, routing, residual, squares_RP), squares_RP


def down(
    arrived_X: Tensor,
    a_SRI: Tensor,
    down_HEI: Tensor,
    routing: Routing,
    residual: Residual | None = None,
    squares_RP: Tensor | None = None,
) -> Tensor:
    """`arrived_X`: MOST_TILES int32 zeros that stay zeros between launches; kernels of one stream may share them."""
    (_, num_rows, inner_size), size = a_SRI.shape, len(down_HEI)
    y_RH = torch.empty(num_rows, size, dtype=a_SRI.dtype, device=a_SRI.device)
    h, gamma = (a_SRI, a_SRI) if residual is None else (residual.h_RH, residual.gamma_H)
    flags = {"H": size, "INNER": inner_size, "ADDS": residual is not None} | launch_options(a_SRI)
    tile, strides = down_tile(num_rows, size, inner_size), down_HEI.stride()[:2]
    if isinstance(tile, Tile):
        down_kernel[(size // tile.rows,)](
            a_SRI, down_HEI, h, gamma, routing.ids_S, routing.count_1, y_RH, *strides,
            R=num_rows, ROWS=tile.rows, SPLIT=tile.split, BLOCK_K=chunk(inner_size),
            num_warps=tile.warps, **flags,
        )  # fmt: skip
        return y_RH
    tiles = (triton.cdiv(size, tile.rows), triton.cdiv(num_rows, tile.columns))
    split = tile.split if tiles[0] * tiles[1] <= MOST_TILES else 1
    parts_PRH = torch.empty(split, num_rows, size, dtype=torch.float32, device=a_SRI.device)
    down_dot_kernel[(*tiles, split)](
        a_SRI, down_HEI, h, gamma, routing.ids_S, routing.count_1, parts_PRH, arrived_X, y_RH,
        parts_PRH if squares_RP is None else squares_RP, num_rows, *strides,
        BLOCK_N=tile.rows, BLOCK_R=tile.columns, BLOCK_K=tile.depth, SPLIT=split,
        num_warps=tile.warps, num_stages=tile.stages, **flags,
    )  # fmt: skip
    return y_RH


def build_down(device: torch.device) -> tuple[Callable[..., Tensor], Callable[..., tuple[Tensor, Tensor | None]]]:
    """down and add_down."""
    arrived_X = torch.zeros(MOST_TILES, dtype=torch.int32, device=device)
    return partial(down, arrived_X), partial(add_down, arrived_X)
