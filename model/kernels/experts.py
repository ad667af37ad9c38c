"""The routed experts at few rows: each expert that any row chose is read once, for all rows.

A row that did not choose an expert has weight 0 there. That costs arithmetic, which is meant to hide behind the
stream of weights, and saves gathering rows. `down` is read expert by expert (fused.lay_out_for_kernels).
Legend: ops.py.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from model.kernels.linear import inverse_rms_of
from model.kernels.ops import Residual, Routing
from model.kernels.parts import chunk, inverse_rms, multiply_add, power_of_two, row_sums, zero_tiles
from model.kernels.tuning import FEW, dot_tile, down_tile, gate_up_tile


@triton.jit
def gate_up_kernel(
    x_ptr, w_ptr, h_ptr, weights_ptr, ids_ptr, count_ptr, a_ptr, eps,
    R: tl.constexpr, H: tl.constexpr, E: tl.constexpr, INNER: tl.constexpr, ROWS: tl.constexpr, BLOCK_K: tl.constexpr,
    BLOCK_H: tl.constexpr,
):  # fmt: skip
    """a[slot, r, i] = routing weight * silu(gate) * up. Programs of slots that are not in use leave at once."""
    slot = tl.program_id(1)
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
        scale = inverse_rms(h_ptr + r * H, eps, H, BLOCK_H)
        gate, up = tl.sum(gates[r], axis=1) * scale, tl.sum(ups[r], axis=1) * scale
        a = tl.load(weights_ptr + r * E + expert) * (gate * tl.sigmoid(gate)) * up
        tl.store(a_ptr + (slot * R + r) * INNER + i, a)


@triton.jit
def gate_up_dot_kernel(
    x_ptr, w_ptr, scale_ptr, weights_ptr, ids_ptr, count_ptr, a_ptr, R,
    H: tl.constexpr, E: tl.constexpr, INNER: tl.constexpr,
    BLOCK_N: tl.constexpr, BLOCK_R: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    slot = tl.program_id(1)
    if slot >= tl.load(count_ptr):
        return
    expert = tl.load(ids_ptr + slot)
    i = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    r = tl.program_id(2) * BLOCK_R + tl.arange(0, BLOCK_R)
    k = tl.arange(0, BLOCK_K)
    gate_ptrs = w_ptr + expert.to(tl.int64) * (2 * INNER * H) + tl.minimum(i, INNER - 1)[:, None] * H + k[None, :]
    x_ptrs = x_ptr + tl.minimum(r, R - 1)[None, :] * H + k[:, None]
    gate = tl.zeros([BLOCK_N, BLOCK_R], tl.float32)
    up = tl.zeros([BLOCK_N, BLOCK_R], tl.float32)
    for k0 in range(0, H, BLOCK_K):
        x = tl.load(x_ptrs + k0)
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
    BLOCK_K: tl.constexpr, ADDS: tl.constexpr,
):  # fmt: skip
    """SPLIT experts at a time, each on warps of its own."""
    tile_row = tl.arange(0, ROWS * SPLIT)
    n = tl.program_id(0) * ROWS + tile_row // SPLIT
    k = tl.arange(0, BLOCK_K)[None, :] + 0 * n[:, None]
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
    a_ptr, w_ptr, h_ptr, gamma_ptr, ids_ptr, count_ptr, y_ptr, R, stride_h, stride_e,
    H: tl.constexpr, INNER: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_R: tl.constexpr, BLOCK_K: tl.constexpr,
    ADDS: tl.constexpr,
):  # fmt: skip
    n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    r = tl.program_id(1) * BLOCK_R + tl.arange(0, BLOCK_R)
    k = tl.arange(0, BLOCK_K)
    y = tl.zeros([BLOCK_N, BLOCK_R], tl.float32)
    for slot in range(0, tl.load(count_ptr)):
        expert = tl.load(ids_ptr + slot).to(tl.int64)
        w_ptrs = w_ptr + expert * stride_e + (tl.minimum(n, H - 1) * stride_h)[:, None] + k[None, :]
        a_ptrs = a_ptr + (slot * R + tl.minimum(r, R - 1))[None, :] * INNER + k[:, None]
        for k0 in range(0, INNER, BLOCK_K):
            w = tl.load(w_ptrs + k0, eviction_policy="evict_first")
            y = tl.dot(w, tl.load(a_ptrs + k0), y, input_precision="ieee")
    is_inside = (n < H)[:, None] & (r < R)[None, :]
    places = r[None, :] * H + n[:, None]
    if ADDS:
        y = y + tl.load(h_ptr + places, mask=is_inside, other=0.0)
        tl.store(h_ptr + places, y, mask=is_inside)
        y = y * tl.load(gamma_ptr + n, mask=n < H, other=0.0).to(tl.float32)[:, None]
    tl.store(y_ptr + places, y, mask=is_inside)


def gate_up(x_RH: Tensor, h_RH: Tensor, gate_up_EXIH: Tensor, routing: Routing, eps: float) -> Tensor:
    """Slots of a_SRI that are not in use are left as they were: nothing reads them."""
    (num_rows, size), num_slots = x_RH.shape, len(routing.ids_S)
    num_experts, _, inner_size, _ = gate_up_EXIH.shape
    a_SRI = torch.empty(num_slots, num_rows, inner_size, dtype=x_RH.dtype, device=x_RH.device)
    shapes = {"H": size, "E": num_experts, "INNER": inner_size}
    if num_rows <= FEW:
        tile = gate_up_tile(inner_size, size)
        gate_up_kernel[(inner_size // tile.rows, num_slots)](
            x_RH, gate_up_EXIH, h_RH, routing.weights_RE, routing.ids_S, routing.count_1, a_SRI, eps,
            R=num_rows, ROWS=tile.rows, BLOCK_K=chunk(size), BLOCK_H=power_of_two(size), num_warps=tile.warps, **shapes,
        )  # fmt: skip
        return a_SRI
    dot = dot_tile(num_rows, size)
    grid = (triton.cdiv(inner_size, dot.rows), num_slots, triton.cdiv(num_rows, dot.columns))
    gate_up_dot_kernel[grid](
        x_RH, gate_up_EXIH, inverse_rms_of(h_RH, eps), routing.weights_RE, routing.ids_S, routing.count_1, a_SRI,
        num_rows, BLOCK_N=dot.rows, BLOCK_R=dot.columns, BLOCK_K=dot.depth,
        num_warps=dot.warps, num_stages=dot.stages, **shapes,
    )  # fmt: skip
    return a_SRI


def down(a_SRI: Tensor, down_HEI: Tensor, routing: Routing) -> Tensor:
    return launch_down(a_SRI, down_HEI, routing, None)


def add_down(a_SRI: Tensor, down_HEI: Tensor, routing: Routing, residual: Residual) -> Tensor:
    return launch_down(a_SRI, down_HEI, routing, residual)


def launch_down(a_SRI: Tensor, down_HEI: Tensor, routing: Routing, residual: Residual | None) -> Tensor:
    (_, num_rows, inner_size), size = a_SRI.shape, len(down_HEI)
    y_RH = torch.empty(num_rows, size, dtype=a_SRI.dtype, device=a_SRI.device)
    h, gamma = (a_SRI, a_SRI) if residual is None else (residual.h_RH, residual.gamma_H)
    strides, shapes = down_HEI.stride()[:2], {"H": size, "INNER": inner_size, "ADDS": residual is not None}
    if num_rows <= FEW:
        tile = down_tile(num_rows, size)
        down_kernel[(size // tile.rows,)](
            a_SRI, down_HEI, h, gamma, routing.ids_S, routing.count_1, y_RH, *strides,
            R=num_rows, ROWS=tile.rows, SPLIT=tile.split, BLOCK_K=chunk(inner_size), num_warps=tile.warps, **shapes,
        )  # fmt: skip
        return y_RH
    dot = dot_tile(num_rows, inner_size, rows=32)
    down_dot_kernel[(triton.cdiv(size, dot.rows), triton.cdiv(num_rows, dot.columns))](
        a_SRI, down_HEI, h, gamma, routing.ids_S, routing.count_1, y_RH, num_rows, *strides,
        BLOCK_N=dot.rows, BLOCK_R=dot.columns, BLOCK_K=dot.depth, num_warps=dot.warps, num_stages=dot.stages, **shapes,
    )  # fmt: skip
    return y_RH
