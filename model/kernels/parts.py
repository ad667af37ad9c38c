"""Pieces that several kernels share: where a tile of weights lies, and the root mean square of a row.

How a row x is multiplied with weights W_NK here (the router takes a few rows so):
  - a program owns ROWS rows of W; a tile is [ROWS * SPLIT, BLOCK_K], and its first dimension is laid out over the
    warps, so that a warp streams its own stretch of a row with 16-byte loads. SPLIT cuts K over warps.
  - every weight is read once; sums stay in the threads (fp32) until the end.
  - x is loaded in the shape of the tile: in another layout it would pass through shared memory for each chunk.

How a kernel starts before the one before it has ended (EARLY: programmatic dependent launch, from Hopper on): its
programs take their places, wait until the kernel before has ended, and let the next one do the same. Nothing is written
before the wait, and nothing read but what is older than the kernel before (by attention: the cache).
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.language.extra import cuda

from model.kernels.ops import Residual


def launch_options(x: Tensor) -> dict[str, Any]:
    """Of a launch: started early where the device can do that."""
    is_able = x.is_cuda and torch.cuda.get_device_capability(x.device) >= (9, 0)
    return {"EARLY": True, "launch_pdl": True} if is_able else {"EARLY": False}


def tap_of(residual: Residual | None, otherwise: Tensor) -> tuple[Tensor, int, bool]:
    """Where a kernel leaves the stream as well, the stride of its rows, and whether it does so at all."""
    tap_RH = None if residual is None else residual.tap_RH
    return (otherwise, 0, False) if tap_RH is None else (tap_RH, tap_RH.stride(0), True)


@triton.jit
def wait_for_others(EARLY: tl.constexpr):
    if EARLY:
        cuda.gdc_wait()
        cuda.gdc_launch_dependents()


@triton.jit
def inverse_rms(h_ptr, eps, H: tl.constexpr, BLOCK_H: tl.constexpr):
    """1 / sqrt(mean(h^2) + eps) of one row of H numbers."""
    i = tl.arange(0, BLOCK_H)
    h = tl.load(h_ptr + i, mask=i < H, other=0.0)
    return 1.0 / tl.sqrt(tl.sum(h * h, axis=0) / H + eps)


@triton.jit
def squares_of(squares_ptr, r, R, P: tl.constexpr, BLOCK_P: tl.constexpr):
    """Sums of the squares of the P parts of the rows r: asked for before a long loop, and needed behind it."""
    p = tl.arange(0, BLOCK_P)
    return tl.load(squares_ptr + r[:, None] * P + p[None, :], mask=(r < R)[:, None] & (p < P)[None, :], other=0.0)


@triton.jit
def scale_of_squares(squares, eps, H: tl.constexpr):
    """1 / rms of rows of H numbers."""
    return 1.0 / tl.sqrt(tl.sum(squares, axis=1) / H + eps)


@triton.jit
def row_sums(tile, ROWS: tl.constexpr, SPLIT: tl.constexpr):
    """[ROWS * SPLIT, BLOCK_K] -> [ROWS]."""
    return tl.sum(tl.reshape(tl.sum(tile, axis=1), [ROWS, SPLIT]), axis=1)


def chunk(size: int) -> int:
    """The largest power of two that divides `size`, at most 256: 32 lanes of 16 bytes."""
    return min(size & -size, 256)
