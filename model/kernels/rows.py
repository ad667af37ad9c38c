"""What stands between the products: rows of tables, norms of the draft's input, gates. One launch each.

Legend: ops.py; T rows a sequence.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from model.kernels.ops import DraftNorms, Residual
from model.kernels.parts import launch_options, tap_of, wait_for_others
from model.kernels.tuning import power_of_two

BLOCK, NUM_WARPS = 1024, 4
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
    tokens_ptr, stride, table_ptr, feature_ptr, token_gamma_ptr, feature_gamma_ptr, x_ptr, h_ptr, eps,
    H: tl.constexpr, BLOCK_H: tl.constexpr, IS_NORMED: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    wait_for_others(EARLY)
    r, i = tl.program_id(0), tl.arange(0, BLOCK_H)
    _token, x = normed(table_ptr + tl.load(tokens_ptr + r * stride) * H, token_gamma_ptr, eps, i, H)
    feature, y = normed(feature_ptr + r * H, feature_gamma_ptr, eps, i, H)
    tl.store(x_ptr + r * 2 * H + i, x, mask=i < H)
    tl.store(x_ptr + r * 2 * H + H + i, y, mask=i < H)
    tl.store(h_ptr + r * H + i, y if IS_NORMED else feature, mask=i < H)


@triton.jit
def gated_kernel(both_ptr, a_ptr, INNER: tl.constexpr, BLOCK: tl.constexpr, EARLY: tl.constexpr):
    wait_for_others(EARLY)
    r, i = tl.program_id(1), tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    gate = tl.load(both_ptr + r * 2 * INNER + i, mask=i < INNER, other=0.0).to(tl.float32)
    up = tl.load(both_ptr + r * 2 * INNER + INNER + i, mask=i < INNER, other=0.0).to(tl.float32)
    tl.store(a_ptr + r * INNER + i, gate * tl.sigmoid(gate) * up, mask=i < INNER)


@triton.jit
def take_kernel(
    o_ptr, h_ptr, row_ptr, own_o_ptr, own_h_ptr,
    T: tl.constexpr, N: tl.constexpr, H: tl.constexpr, BLOCK: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    wait_for_others(EARLY)
    b, i = tl.program_id(1), tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    row = b * T + tl.load(row_ptr + b)
    tl.store(own_o_ptr + b * N + i, tl.load(o_ptr + row * N + i, mask=i < N), mask=i < N)
    tl.store(own_h_ptr + b * H + i, tl.load(h_ptr + row * H + i, mask=i < H), mask=i < H)


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


def join(tokens_R: Tensor, table_VH: Tensor, feature_RH: Tensor, norms: DraftNorms) -> tuple[Tensor, Tensor]:
    num_rows, size = feature_RH.shape
    x_RW = torch.empty(num_rows, 2 * size, dtype=table_VH.dtype, device=table_VH.device)
    h_RH = torch.empty(num_rows, size, dtype=torch.float32, device=table_VH.device)
    join_kernel[(num_rows,)](
        tokens_R, tokens_R.stride(0), table_VH, feature_RH, norms.token_H, norms.feature_H, x_RW, h_RH, norms.eps,
        H=size, BLOCK_H=power_of_two(size), IS_NORMED=norms.is_residual_normed, num_warps=NUM_WARPS,
        **launch_options(table_VH),
    )  # fmt: skip
    return x_RW, h_RH


def gated(both_RX: Tensor) -> Tensor:
    num_rows, inner_size = len(both_RX), both_RX.shape[1] // 2
    a_RI = torch.empty(num_rows, inner_size, dtype=both_RX.dtype, device=both_RX.device)
    gated_kernel[(triton.cdiv(inner_size, BLOCK), num_rows)](
        both_RX, a_RI, INNER=inner_size, BLOCK=BLOCK, num_warps=NUM_WARPS, **launch_options(both_RX)
    )
    return a_RI


def take(o_RN: Tensor, h_RH: Tensor, row_B: Tensor) -> tuple[Tensor, Tensor]:
    batch, widths = len(row_B), (o_RN.shape[1], h_RH.shape[1])
    o_BN, h_BH = (x_RX.new_empty(batch, x_RX.shape[1]) for x_RX in (o_RN, h_RH))
    take_kernel[(triton.cdiv(max(widths), BLOCK), batch)](
        o_RN, h_RH, row_B, o_BN, h_BH,
        T=len(o_RN) // batch, N=widths[0], H=widths[1], BLOCK=BLOCK, num_warps=NUM_WARPS, **launch_options(o_RN),
    )  # fmt: skip
    return o_BN, h_BH
