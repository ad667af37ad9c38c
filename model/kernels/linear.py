"""Projections of few rows: y = norm(h) @ W.T, and h += x @ W.T. Legend: ops.py; M tile rows, see parts.py.

One row goes through the threads' own sums, several through the tensor cores.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from model.kernels.dots import Norm, launch_dots, slices
from model.kernels.ops import Residual
from model.kernels.parts import (
    chunk,
    inverse_rms,
    launch_options,
    row_sums,
    tap_of,
    wait_for_others,
)
from model.kernels.tuning import Tile, linear_tile, power_of_two


@triton.jit
def linear_kernel(
    x_ptr, w_ptr, h_ptr, gamma_ptr, tap_ptr, y_ptr, eps,
    K: tl.constexpr, ROWS: tl.constexpr, SPLIT: tl.constexpr, BLOCK_K: tl.constexpr,
    HAS_NORM: tl.constexpr, ADDS: tl.constexpr, TAPS: tl.constexpr, BLOCK_H: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    """One row. HAS_NORM: y = x @ W.T / rms(h). ADDS: h += x @ W.T; y = h * gamma."""
    tile_row = tl.arange(0, ROWS * SPLIT)
    n = tl.program_id(0) * ROWS + tile_row // SPLIT
    k = (tile_row % SPLIT)[:, None] * (K // SPLIT) + tl.arange(0, BLOCK_K)[None, :]
    w_ptrs = w_ptr + n.to(tl.int64)[:, None] * K + k
    wait_for_others(EARLY)
    sums = tl.zeros([ROWS * SPLIT, BLOCK_K], tl.float32)
    for k0 in tl.static_range(0, K // SPLIT, BLOCK_K):
        w = tl.load(w_ptrs + k0, eviction_policy="evict_first").to(tl.float32)
        sums += w * tl.load(x_ptr + k0 + k).to(tl.float32)
    out = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    y = row_sums(sums, ROWS, SPLIT)
    if HAS_NORM:
        y = y * inverse_rms(h_ptr, eps, K, BLOCK_H)
    if ADDS:
        y = y + tl.load(h_ptr + out)
        tl.store(h_ptr + out, y)
        if TAPS:
            tl.store(tap_ptr + out, y)
        y = y * tl.load(gamma_ptr + out).to(tl.float32)
    tl.store(y_ptr + out, y)


@triton.jit
def inverse_rms_kernel(h_ptr, scale_ptr, eps, H: tl.constexpr, BLOCK_H: tl.constexpr, EARLY: tl.constexpr):
    wait_for_others(EARLY)
    r = tl.program_id(0)
    tl.store(scale_ptr + r, inverse_rms(h_ptr + r * H, eps, H, BLOCK_H))


def norm_linear(
    arrived_X: Tensor,
    x_RH: Tensor,
    h_RH: Tensor | None,
    weight_NH: Tensor,
    eps: float,
    dtype: torch.dtype,
    squares_RP: Tensor | None = None,
) -> Tensor:
    (num_rows, size), num_outputs = x_RH.shape, len(weight_NH)
    y_RN = torch.empty(num_rows, num_outputs, dtype=dtype, device=x_RH.device)
    tile = linear_tile(num_rows, num_outputs, size)
    if isinstance(tile, Tile):
        launch(x_RH, weight_NH, y_RN, tile, h_RH=h_RH, eps=eps)
        return y_RN
    norm = None if h_RH is None else norm_of(h_RH, eps, squares_RP)
    launch_dots(arrived_X, slices(x_RH, weight_NH, tile.split), y_RN, tile, norm=norm)
    return y_RN


def add_linear(
    arrived_X: Tensor, x_RN: Tensor, weight_HN: Tensor, residual: Residual
) -> tuple[Tensor, Tensor | None]:
    """One row's squares are left to whoever reads it."""
    (num_rows, size), num_outputs = x_RN.shape, len(weight_HN)
    x_RH = torch.empty(num_rows, num_outputs, dtype=x_RN.dtype, device=x_RN.device)
    tile = linear_tile(num_rows, num_outputs, size)
    if isinstance(tile, Tile):
        launch(x_RN, weight_HN, x_RH, tile, residual=residual)
        return x_RH, None
    slots = slices(x_RN, weight_HN, tile.split)
    return x_RH, launch_dots(arrived_X, slots, x_RH, tile, residual=residual)


def launch(
    x_RK: Tensor,
    weight_NK: Tensor,
    y_RN: Tensor,
    tile: Tile,
    *,
    h_RH: Tensor | None = None,
    eps: float = 0.0,
    residual: Residual | None = None,
) -> None:
    """One row. Pointers that a variant does not read are those of x. The norm is taken of h itself."""
    size, num_outputs = x_RK.shape[1], len(weight_NK)
    h = h_RH if residual is None else residual.h_RH
    h, gamma = x_RK if h is None else h, x_RK if residual is None else residual.gamma_H
    tap, _, has_tap = tap_of(residual, y_RN)
    linear_kernel[(triton.cdiv(num_outputs, tile.rows),)](
        x_RK, weight_NK, h, gamma, tap, y_RN, eps,
        K=size, ROWS=tile.rows, SPLIT=tile.split, BLOCK_K=chunk(size // tile.split),
        HAS_NORM=h_RH is not None, ADDS=residual is not None, TAPS=has_tap, BLOCK_H=power_of_two(size),
        num_warps=tile.warps, **launch_options(x_RK),
    )  # fmt: skip


def norm_of(h_RH: Tensor, eps: float, squares_RP: Tensor | None) -> Norm:
    return Norm(scale=inverse_rms_of(h_RH, eps) if squares_RP is None else squares_RP, eps=eps)


def inverse_rms_of(h_RH: Tensor, eps: float) -> Tensor:
    scale_R = torch.empty(len(h_RH), dtype=torch.float32, device=h_RH.device)
    num_rows, size = h_RH.shape
    options = launch_options(h_RH)
    inverse_rms_kernel[(num_rows,)](h_RH, scale_R, eps, H=size, BLOCK_H=power_of_two(size), num_warps=4, **options)
    return scale_R
