"""What stands between the products: rows of tables, norms of the draft's input. One launch each.

Legend: ops.py; T rows a sequence.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from model.kernels.ops import DraftNorms, Residual
from model.kernels.parts import launch_options, tap_of, wait_for_others
from model.kernels.tuning import power_of_two

NUM_WARPS = 4
NUM_PARTS = 16  # of a row, whose squares are summed up one by one


@triton.jit
def store_stream(
    h, x_ptr, gamma_ptr, squares_ptr, h_ptr, r, i, H: tl.constexpr, BLOCK_H: tl.constexpr, P: tl.constexpr
):  # fmt: skip
    """One row of the stream: itself, its twin, and the sums of its squares by parts. Zero behind its end."""
    tl.store(h_ptr + r * H + i, h, mask=i < H)
    tl.store(x_ptr + r * H + i, h * tl.load(gamma_ptr + i, mask=i < H, other=0.0).to(tl.float32), mask=i < H)
    tl.store(squares_ptr + r * P + tl.arange(0, P), tl.sum(tl.reshape(h * h, [P, BLOCK_H // P]), axis=1))


@triton.jit
def embed_kernel(
    tokens_ptr, stride, table_ptr, gamma_ptr, x_ptr, squares_ptr, h_ptr,
    H: tl.constexpr, BLOCK_H: tl.constexpr, P: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    wait_for_others(EARLY)
    r, i = tl.program_id(0), tl.arange(0, BLOCK_H)
    h = tl.load(table_ptr + tl.load(tokens_ptr + r * stride) * H + i, mask=i < H, other=0.0).to(tl.float32)
    store_stream(h, x_ptr, gamma_ptr, squares_ptr, h_ptr, r, i, H, BLOCK_H, P)


@triton.jit
def add_kernel(
    y_ptr, gamma_ptr, tap_ptr, x_ptr, squares_ptr, h_ptr, stride_tap,
    H: tl.constexpr, BLOCK_H: tl.constexpr, P: tl.constexpr, TAPS: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    wait_for_others(EARLY)
    r, i = tl.program_id(0), tl.arange(0, BLOCK_H)
    y = tl.load(y_ptr + r * H + i, mask=i < H, other=0.0).to(tl.float32)
    h = tl.load(h_ptr + r * H + i, mask=i < H, other=0.0) + y
    if TAPS:
        tl.store(tap_ptr + r * stride_tap + i, h, mask=i < H)
    store_stream(h, x_ptr, gamma_ptr, squares_ptr, h_ptr, r, i, H, BLOCK_H, P)


@triton.jit
def normed(x_ptr, gamma_ptr, eps, i, H: tl.constexpr):
    """One row as it is, and normed; both wide."""
    x = tl.load(x_ptr + i, mask=i < H, other=0.0).to(tl.float32)
    scale = 1.0 / tl.sqrt(tl.sum(x * x, axis=0) / H + eps)
    return x, x * scale * tl.load(gamma_ptr + i, mask=i < H, other=0.0).to(tl.float32)


@triton.jit
def join_kernel(
    tokens_ptr, stride, table_ptr, feature_ptr, token_gamma_ptr, feature_gamma_ptr, row_ptr, x_ptr, h_ptr, eps,
    T: tl.constexpr, H: tl.constexpr, BLOCK_H: tl.constexpr, IS_NORMED: tl.constexpr, HAS_ROW: tl.constexpr,
    EARLY: tl.constexpr,
):  # fmt: skip
    wait_for_others(EARLY)
    r, i = tl.program_id(0), tl.arange(0, BLOCK_H)
    _token, x = normed(table_ptr + tl.load(tokens_ptr + r * stride) * H, token_gamma_ptr, eps, i, H)
    feature, y = normed(feature_ptr + r * H, feature_gamma_ptr, eps, i, H)
    tl.store(x_ptr + r * 2 * H + i, x, mask=i < H)
    tl.store(x_ptr + r * 2 * H + H + i, y, mask=i < H)
    h = y if IS_NORMED else feature
    if HAS_ROW:
        end = tl.where(tl.load(row_ptr + r // T) == r % T, H, 0)
        tl.store(h_ptr + r // T * H + i, h, mask=i < end)
    else:
        tl.store(h_ptr + r * H + i, h, mask=i < H)


def embed(tokens_R: Tensor, table_VH: Tensor, gamma_H: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    num_rows, size = len(tokens_R), table_VH.shape[1]
    x_RH = torch.empty(num_rows, size, dtype=table_VH.dtype, device=table_VH.device)
    h_RH = torch.empty_like(x_RH, dtype=torch.float32)
    squares_RP = torch.empty(num_rows, NUM_PARTS, dtype=torch.float32, device=table_VH.device)
    embed_kernel[(num_rows,)](
        tokens_R, tokens_R.stride(0), table_VH, gamma_H, x_RH, squares_RP, h_RH,
        H=size, BLOCK_H=power_of_two(size), P=NUM_PARTS, num_warps=NUM_WARPS, **launch_options(table_VH),
    )  # fmt: skip
    return x_RH, squares_RP, h_RH


def add(y_RH: Tensor, residual: Residual) -> tuple[Tensor, Tensor]:
    num_rows, size = y_RH.shape
    x_RH = torch.empty(num_rows, size, dtype=residual.gamma_H.dtype, device=y_RH.device)
    squares_RP = torch.empty(num_rows, NUM_PARTS, dtype=torch.float32, device=y_RH.device)
    tap, stride_tap, has_tap = tap_of(residual, x_RH)
    add_kernel[(num_rows,)](
        y_RH, residual.gamma_H, tap, x_RH, squares_RP, residual.h_RH, stride_tap,
        H=size, BLOCK_H=power_of_two(size), P=NUM_PARTS, TAPS=has_tap, num_warps=NUM_WARPS, **launch_options(y_RH),
    )  # fmt: skip
    return x_RH, squares_RP


def join(
    tokens_R: Tensor, table_VH: Tensor, feature_RH: Tensor, norms: DraftNorms, row_B: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    num_rows, size = feature_RH.shape
    num_read = num_rows if row_B is None else len(row_B)
    x_RW = torch.empty(num_rows, 2 * size, dtype=table_VH.dtype, device=table_VH.device)
    h_BH = torch.empty(num_read, size, dtype=torch.float32, device=table_VH.device)
    join_kernel[(num_rows,)](
        tokens_R, tokens_R.stride(0), table_VH, feature_RH, norms.token_H, norms.feature_H,
        tokens_R if row_B is None else row_B, x_RW, h_BH, norms.eps,
        T=num_rows // num_read, H=size, BLOCK_H=power_of_two(size), IS_NORMED=norms.is_residual_normed,
        HAS_ROW=row_B is not None, num_warps=NUM_WARPS, **launch_options(table_VH),
    )  # fmt: skip
    return x_RW, h_BH
