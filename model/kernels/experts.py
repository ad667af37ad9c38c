"""The routed experts at few rows: each expert that any row chose is read once, for all rows.

A gated MLP that every row takes is one expert without routing.

A row that did not choose an expert has weight 0 there. That costs arithmetic, which is meant to hide behind the
stream of weights, and saves gathering rows. `down` is read expert by expert (fused.lay_out_for_kernels).
Legend: ops.py.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from model.kernels.dots import Slots, launch_dots
from model.kernels.linear import norm_of
from model.kernels.ops import Residual, Routing
from model.kernels.parts import (
    chunk,
    inverse_rms,
    launch_options,
    row_sums,
    scale_of_squares,
    squares_of,
    tap_of,
    wait_for_others,
)
from model.kernels.tuning import DotTile, Tile, down_tile, gate_up_tile, power_of_two


@triton.jit
def gate_up_kernel(
    x_ptr, w_ptr, scale_ptr, weights_ptr, ids_ptr, count_ptr, a_ptr, eps,
    H: tl.constexpr, BLOCK_H: tl.constexpr, INNER: tl.constexpr, ROWS: tl.constexpr, BLOCK_K: tl.constexpr,
    ROUTED: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    """One row. a[slot, i] = routing weight * silu(gate) * up. Programs of slots that are not in use leave at once.

    scale: 1 / rms(h) where ROUTED, else h itself.
    """
    slot = tl.program_id(1)
    wait_for_others(EARLY)
    if slot >= (tl.load(count_ptr) if ROUTED else 1):
        return
    expert = tl.load(ids_ptr + slot) if ROUTED else slot
    i = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    k = tl.arange(0, BLOCK_K)[None, :] + 0 * i[:, None]
    gate_ptrs = w_ptr + expert.to(tl.int64) * (2 * INNER * H) + i[:, None] * H + k
    gates, ups = tl.zeros([ROWS, BLOCK_K], tl.float32), tl.zeros([ROWS, BLOCK_K], tl.float32)
    for k0 in tl.static_range(0, H, BLOCK_K):
        gate_w = tl.load(gate_ptrs + k0, eviction_policy="evict_first").to(tl.float32)
        up_w = tl.load(gate_ptrs + (INNER * H + k0), eviction_policy="evict_first").to(tl.float32)
        x = tl.load(x_ptr + k0 + k).to(tl.float32)
        gates += gate_w * x
        ups += up_w * x
    scale = tl.load(scale_ptr) if ROUTED else inverse_rms(scale_ptr, eps, H, BLOCK_H)
    gate, up = tl.sum(gates, axis=1) * scale, tl.sum(ups, axis=1) * scale
    weight = tl.load(weights_ptr + expert) if ROUTED else 1.0
    tl.store(a_ptr + slot * INNER + i, weight * (gate * tl.sigmoid(gate)) * up)


@triton.jit
def gate_up_dot_kernel(
    x_ptr, w_ptr, scale_ptr, weights_ptr, ids_ptr, count_ptr, a_ptr, eps, R,
    H: tl.constexpr, E: tl.constexpr, INNER: tl.constexpr,
    BLOCK_N: tl.constexpr, BLOCK_R: tl.constexpr, BLOCK_K: tl.constexpr, P: tl.constexpr, BLOCK_P: tl.constexpr,
    ROUTED: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    """Several rows. scale: squares_RP of h, or with P = 0 what was made of them, 1 / rms(h)."""
    slot = tl.program_id(1)
    wait_for_others(EARLY)
    if slot >= (tl.load(count_ptr) if ROUTED else 1):
        return
    expert = tl.load(ids_ptr + slot) if ROUTED else slot
    i = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    r = tl.program_id(2) * BLOCK_R + tl.arange(0, BLOCK_R)
    k = tl.arange(0, BLOCK_K)
    gate_ptrs = w_ptr + expert.to(tl.int64) * (2 * INNER * H) + tl.minimum(i, INNER - 1)[:, None] * H + k[None, :]
    x_ptrs = x_ptr + r[None, :] * H + k[:, None]
    # Asked for before the loop, so that nobody waits for it behind.
    scale = squares_of(scale_ptr, r, R, P, BLOCK_P) if P else tl.load(scale_ptr + r, mask=r < R, other=0.0)
    weight = tl.load(weights_ptr + r * E + expert, mask=r < R, other=0.0)[None, :] if ROUTED else 1.0
    gate = tl.zeros([BLOCK_N, BLOCK_R], tl.float32)
    up = tl.zeros([BLOCK_N, BLOCK_R], tl.float32)
    for k0 in range(0, H, BLOCK_K):
        x = tl.load(x_ptrs + k0, mask=(r < R)[None, :], other=0.0)
        gate = tl.dot(tl.load(gate_ptrs + k0, eviction_policy="evict_first"), x, gate, input_precision="ieee")
        up = tl.dot(tl.load(gate_ptrs + (INNER * H + k0), eviction_policy="evict_first"), x, up, input_precision="ieee")
    scale = (scale_of_squares(scale, eps, H) if P else scale)[None, :]
    gate, up = gate * scale, up * scale
    places = (slot * R + r)[None, :] * INNER + i[:, None]
    tl.store(a_ptr + places, weight * (gate * tl.sigmoid(gate)) * up, mask=(i < INNER)[:, None] & (r < R)[None, :])


@triton.jit
def down_kernel(
    a_ptr, w_ptr, h_ptr, gamma_ptr, tap_ptr, ids_ptr, count_ptr, y_ptr, stride_h, stride_e,
    INNER: tl.constexpr, ROWS: tl.constexpr, SPLIT: tl.constexpr, BLOCK_K: tl.constexpr, ADDS: tl.constexpr,
    TAPS: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    """One row. SPLIT experts at a time, each on warps of its own."""
    tile_row = tl.arange(0, ROWS * SPLIT)
    n = tl.program_id(0) * ROWS + tile_row // SPLIT
    k = tl.arange(0, BLOCK_K)[None, :] + 0 * n[:, None]
    wait_for_others(EARLY)
    count = tl.load(count_ptr)
    sums = tl.zeros([ROWS * SPLIT, BLOCK_K], tl.float32)
    for slot0 in tl.range(0, count, SPLIT, loop_unroll_factor=2):
        slot = slot0 + tile_row % SPLIT
        is_used = slot < count
        slot = tl.minimum(slot, count - 1)
        expert = tl.load(ids_ptr + slot).to(tl.int64)
        w_ptrs = w_ptr + (expert * stride_e + n * stride_h)[:, None] + k
        a_ptrs = a_ptr + (slot * INNER)[:, None] + k
        for k0 in tl.static_range(0, INNER, BLOCK_K):
            w = tl.load(w_ptrs + k0, mask=is_used[:, None], other=0.0, eviction_policy="evict_first").to(tl.float32)
            sums += w * tl.load(a_ptrs + k0).to(tl.float32)
    out = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    y = row_sums(sums, ROWS, SPLIT)
    if ADDS:
        y = y + tl.load(h_ptr + out)
        tl.store(h_ptr + out, y)
        if TAPS:
            tl.store(tap_ptr + out, y)
        y = y * tl.load(gamma_ptr + out).to(tl.float32)
    tl.store(y_ptr + out, y)


def gate_up(x_RH: Tensor, gate_up_EXIH: Tensor, routing: Routing) -> Tensor:
    """Slots of a_SRI that are not in use are left as they were: nothing reads them."""
    return _gate_up(x_RH, gate_up_EXIH, routing.scale_R, routing)


def gated_linear(
    x_RH: Tensor, h_RH: Tensor, weight_XH: Tensor, eps: float, squares_RP: Tensor | None = None
) -> Tensor:
    one_EXIH = weight_XH.view(1, 2, -1, x_RH.shape[1])
    scale = h_RH if len(x_RH) == 1 else norm_of(h_RH, eps, squares_RP).scale
    return _gate_up(x_RH, one_EXIH, scale, None, eps)[0]


def _gate_up(
    x_RH: Tensor, gate_up_EXIH: Tensor, scale: Tensor, routing: Routing | None, eps: float = 0.0
) -> Tensor:
    """`scale`: what the kernels say of it. Pointers that a variant does not read are those of x."""
    (num_rows, size), num_slots = x_RH.shape, 1 if routing is None else len(routing.ids_S)
    num_experts, _, inner_size, _ = gate_up_EXIH.shape
    a_SRI = torch.empty(num_slots, num_rows, inner_size, dtype=x_RH.dtype, device=x_RH.device)
    chosen = (x_RH,) * 3 if routing is None else (routing.weights_RE, routing.ids_S, routing.count_1)
    flags = {"H": size, "INNER": inner_size, "ROUTED": routing is not None} | launch_options(x_RH)
    tile = gate_up_tile(num_rows, inner_size, size)
    if isinstance(tile, Tile):
        gate_up_kernel[(inner_size // tile.rows, num_slots)](
            x_RH, gate_up_EXIH, scale, *chosen, a_SRI, eps,
            BLOCK_H=power_of_two(size), ROWS=tile.rows, BLOCK_K=chunk(size), num_warps=tile.warps, **flags,
        )  # fmt: skip
        return a_SRI
    num_parts = scale.shape[1] if scale.dim() == 2 else 0
    gate_up_dot_kernel[(triton.cdiv(inner_size, tile.rows), num_slots, triton.cdiv(num_rows, tile.columns))](
        x_RH, gate_up_EXIH, scale, *chosen, a_SRI, eps, num_rows,
        E=num_experts, BLOCK_N=tile.rows, BLOCK_R=tile.columns, BLOCK_K=tile.depth, P=num_parts,
        BLOCK_P=power_of_two(max(1, num_parts)), num_warps=tile.warps, num_stages=tile.stages, **flags,
    )  # fmt: skip
    return a_SRI


def down(arrived_X: Tensor, a_SRI: Tensor, down_HEI: Tensor, routing: Routing) -> Tensor:
    return _down(arrived_X, a_SRI, down_HEI, routing, None)[0]


def add_down(
    arrived_X: Tensor, a_SRI: Tensor, down_HEI: Tensor, routing: Routing, residual: Residual
) -> tuple[Tensor, Tensor | None]:
    """One row's squares are left to whoever reads it."""
    return _down(arrived_X, a_SRI, down_HEI, routing, residual)


def _down(
    arrived_X: Tensor, a_SRI: Tensor, down_HEI: Tensor, routing: Routing, residual: Residual | None
) -> tuple[Tensor, Tensor | None]:
    (_, num_rows, inner_size), size = a_SRI.shape, len(down_HEI)
    y_RH = torch.empty(num_rows, size, dtype=a_SRI.dtype, device=a_SRI.device)
    tile = down_tile(num_rows, size, inner_size)
    if isinstance(tile, DotTile):
        slots = Slots(
            a=a_SRI, a_strides=(a_SRI.stride(0), inner_size), w=down_HEI, w_strides=down_HEI.stride()[:2],
            size=inner_size, routing=routing,
        )  # fmt: skip
        return y_RH, launch_dots(arrived_X, slots, y_RH, tile, residual=residual)
    h, gamma = (a_SRI, a_SRI) if residual is None else (residual.h_RH, residual.gamma_H)
    tap, _, has_tap = tap_of(residual, y_RH)
    down_kernel[(size // tile.rows,)](
        a_SRI, down_HEI, h, gamma, tap, routing.ids_S, routing.count_1, y_RH, *down_HEI.stride()[:2],
        INNER=inner_size, ROWS=tile.rows, SPLIT=tile.split, BLOCK_K=chunk(inner_size),
        ADDS=residual is not None, TAPS=has_tap, num_warps=tile.warps, **launch_options(a_SRI),
    )  # fmt: skip
    return y_RH, None
