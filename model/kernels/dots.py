"""Products of weights and several rows, on tensor cores, as a sum over slots.

A slot is an expert in use, or a slice of one matrix that is cut along what is summed over: whoever calls says which.
Where SPLIT programs share a tile, the last to finish adds up, in an order that never changes.

Legend: ops.py; N outputs, K numbers of a slot.
"""

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from model.kernels.ops import Residual, Routing
from model.kernels.parts import launch_options, scale_of_squares, squares_of, tap_of, wait_for_others
from model.kernels.tuning import DotTile, power_of_two

# Tiles of a result of which several programs each have a part.
MOST_TILES = 4096


@dataclass(frozen=True, kw_only=True)
class Slots:
    """y[r] = the sum over slots of w[:, slot] @ a[slot, r], of `size` numbers each.

    `a_strides`: of slots and rows. `w_strides`: of outputs and slots. Slots are the experts in use of `routing`, or
    without it `num`.
    """

    a: Tensor
    a_strides: tuple[int, int]
    w: Tensor
    w_strides: tuple[int, int]
    size: int
    routing: Routing | None = None
    num: int = 0


@dataclass(frozen=True, kw_only=True)
class Norm:
    """What the sum is divided by: rms(h). `scale`: squares_RP of h, or what was made of them, 1 / rms(h)."""

    scale: Tensor
    eps: float


@triton.jit
def dot_kernel(
    a_ptr, w_ptr, h_ptr, gamma_ptr, tap_ptr, scale_ptr, ids_ptr, count_ptr, parts_ptr, arrived_ptr, y_ptr, squares_ptr,
    R, eps, stride_tap, stride_n, stride_e, stride_s, stride_r,
    N: tl.constexpr, K: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_R: tl.constexpr, BLOCK_K: tl.constexpr,
    SPLIT: tl.constexpr, NUM: tl.constexpr, P: tl.constexpr, BLOCK_P: tl.constexpr, HAS_NORM: tl.constexpr,
    ADDS: tl.constexpr, TAPS: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    """NUM: of all slots; 0: of the experts that are listed. P: parts of a row's squares; 0: scale_R is there."""
    n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    r = tl.program_id(1) * BLOCK_R + tl.arange(0, BLOCK_R)
    k = tl.arange(0, BLOCK_K)
    w_ptrs = w_ptr + tl.minimum(n, N - 1).to(tl.int64)[:, None] * stride_n + k[None, :]
    wait_for_others(EARLY)
    is_inside = (n < N)[:, None] & (r < R)[None, :]
    places = r[None, :] * N + n[:, None]
    # Asked for before the loop, so that nobody waits for it behind.
    if HAS_NORM:
        scale = squares_of(scale_ptr, r, R, P, BLOCK_P) if P else tl.load(scale_ptr + r, mask=r < R, other=0.0)
    if ADDS:
        h = tl.load(h_ptr + places, mask=is_inside, other=0.0)
        gamma = tl.load(gamma_ptr + n, mask=n < N, other=0.0).to(tl.float32)
    else:
        h, gamma = 0.0, 1.0
    a_ptrs = a_ptr + r[None, :] * stride_r + k[:, None]
    y = tl.zeros([BLOCK_N, BLOCK_R], tl.float32)
    first = tl.program_id(2) if SPLIT > 1 else 0
    count = NUM if NUM else tl.load(count_ptr)
    for slot in range(first, count, SPLIT):
        expert = tl.full([], 0, tl.int64) + (slot if NUM else tl.load(ids_ptr + slot))
        for k0 in range(0, K, BLOCK_K):
            w = tl.load(w_ptrs + (expert * stride_e + k0), eviction_policy="evict_first")
            a = tl.load(a_ptrs + (slot * stride_s + k0), mask=(r < R)[None, :], other=0.0)
            y = tl.dot(w, a, y, input_precision="ieee")
    if HAS_NORM:
        y = y * (scale_of_squares(scale, eps, K * NUM) if P else scale)[None, :]
    tap_ptrs = tap_ptr + r[None, :] * stride_tap + n[:, None]
    if SPLIT == 1:
        finish(y, h, gamma, h_ptr, tap_ptrs, y_ptr, squares_ptr, places, is_inside, r, R, ADDS, TAPS)
    else:
        tl.store(parts_ptr + tl.program_id(2) * R * N + places, y, mask=is_inside)
        tl.debug_barrier()  # all threads have stored before one of them says so
        arrived_ptr += tl.program_id(1) * tl.num_programs(0) + tl.program_id(0)
        if tl.atomic_add(arrived_ptr, 1, sem="acq_rel") == SPLIT - 1:
            total = tl.zeros([BLOCK_N, BLOCK_R], tl.float32)
            for part in tl.static_range(SPLIT):
                total += tl.load(parts_ptr + part * R * N + places, mask=is_inside, other=0.0, cache_modifier=".cg")
            finish(total, h, gamma, h_ptr, tap_ptrs, y_ptr, squares_ptr, places, is_inside, r, R, ADDS, TAPS)
            tl.store(arrived_ptr, 0)


@triton.jit
def finish(
    y, h, gamma, h_ptr, tap_ptrs, y_ptr, squares_ptr, places, is_inside, r, R,
    ADDS: tl.constexpr, TAPS: tl.constexpr,
):  # fmt: skip
    if ADDS:
        y = y + h
        tl.store(h_ptr + places, y, mask=is_inside)
        if TAPS:
            tl.store(tap_ptrs, y, mask=is_inside)
        squares = tl.sum(tl.where(is_inside, y * y, 0.0), axis=0)
        tl.store(squares_ptr + r * tl.num_programs(0) + tl.program_id(0), squares, mask=r < R)
        y = y * gamma[:, None]
    tl.store(y_ptr + places, y, mask=is_inside)


def slices(x_RK: Tensor, weight_NK: Tensor, most: int) -> Slots:
    """A projection as a sum over at most `most` slices (a power of two), each a multiple of 16 long."""
    size = x_RK.shape[1]
    num = min(most, (size & -size) // 16)
    strides = (size // num, size)
    return Slots(a=x_RK, a_strides=strides, w=weight_NK, w_strides=strides[::-1], size=size // num, num=num)


def launch_dots(
    arrived_X: Tensor,
    slots: Slots,
    y_RN: Tensor,
    tile: DotTile,
    *,
    norm: Norm | None = None,
    residual: Residual | None = None,
) -> Tensor | None:
    """squares_RP of the new h, where there is a residual.

    `arrived_X`: MOST_TILES int32 zeros that stay zeros between launches; kernels of one stream may share them.
    """
    num_rows, num_outputs = y_RN.shape
    tiles = (triton.cdiv(num_outputs, tile.rows), triton.cdiv(num_rows, tile.columns))
    split = min(tile.split, slots.num or tile.split) if tiles[0] * tiles[1] <= MOST_TILES else 1
    parts = y_RN if split == 1 else y_RN.new_empty((split, num_rows, num_outputs), dtype=torch.float32)
    squares = None if residual is None else y_RN.new_empty((num_rows, tiles[0]), dtype=torch.float32)
    h, gamma = (y_RN, y_RN) if residual is None else (residual.h_RH, residual.gamma_H)
    tap, stride_tap, has_tap = tap_of(residual, y_RN)
    ids, count = (arrived_X, arrived_X) if slots.routing is None else (slots.routing.ids_S, slots.routing.count_1)
    num_parts = norm.scale.shape[1] if norm is not None and norm.scale.dim() == 2 else 0
    dot_kernel[(*tiles, split)](
        slots.a, slots.w, h, gamma, tap, y_RN if norm is None else norm.scale, ids, count, parts, arrived_X, y_RN,
        y_RN if squares is None else squares, num_rows, 0.0 if norm is None else norm.eps, stride_tap,
        *slots.w_strides, *slots.a_strides,
        N=num_outputs, K=slots.size, BLOCK_N=tile.rows, BLOCK_R=tile.columns,
        BLOCK_K=min(tile.depth, slots.size & -slots.size), SPLIT=split, NUM=slots.num, P=num_parts,
        BLOCK_P=power_of_two(max(1, num_parts)), HAS_NORM=norm is not None, ADDS=residual is not None, TAPS=has_tap,
        num_warps=tile.warps, num_stages=tile.stages, **launch_options(y_RN),
    )  # fmt: skip
    return squares
