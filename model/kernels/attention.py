"""Attention of the rows that a step adds, over the cache: norms, rotation, storing and attending in one kernel.

One program a query head and row. Rows of the same step are seen out of registers, the cache is read only before the
sequence's length, so no program waits for another. Lengths and cache must be older than the launch before this one:
they are asked for while that one still runs. Keys are read once by every query head that shares them: right for short
contexts; a long one wants the heads of a group together and the slots cut over programs.

Legend: ops.py; T rows a sequence, G KV heads, P slots, S slots of one chunk.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from model.attention import KVCache
from model.kernels.ops import Heads
from model.kernels.parts import launch_options, wait_for_others
from model.kernels.tuning import power_of_two
from model.layers import Rope

BLOCK_S, NUM_WARPS = 128, 8


@triton.jit
def turned(
    x_ptrs, norm_ptr, cos_ptr, sin_ptr, slots, is_row, eps,
    HAS_NORM: tl.constexpr, D: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    """Rows of one head, [M, BLOCK_D]: normed, then turned to the positions `slots`. x_ptrs: where each row begins."""
    d = tl.arange(0, BLOCK_D)[None, :]
    is_inside = is_row[:, None] & (d < D)
    swapped = tl.where(d < D // 2, d + D // 2, d - D // 2)
    x = tl.load(x_ptrs[:, None] + d, mask=is_inside, other=0.0).to(tl.float32)
    y = tl.load(x_ptrs[:, None] + swapped, mask=is_inside, other=0.0).to(tl.float32)
    if HAS_NORM:
        scale = 1.0 / tl.sqrt(tl.sum(x * x, axis=1) / D + eps)
        x = x * scale[:, None] * tl.load(norm_ptr + d, mask=d < D, other=0.0).to(tl.float32)
        y = y * scale[:, None] * tl.load(norm_ptr + swapped, mask=d < D, other=0.0).to(tl.float32)
    places = slots[:, None] * D + d
    cos = tl.load(cos_ptr + places, mask=is_inside, other=0.0).to(tl.float32)
    sin = tl.load(sin_ptr + places, mask=is_inside, other=0.0).to(tl.float32)
    return x * cos + y * sin


@triton.jit
def own_rows(
    qkv_ptr, k_ptr, cos_ptr, sin_ptr, k_norm_ptr, b, g, length, eps, num_slots,
    T: tl.constexpr, BLOCK_T: tl.constexpr, N: tl.constexpr, G: tl.constexpr, D: tl.constexpr, BLOCK_D: tl.constexpr,
    HAS_NORM: tl.constexpr,
):  # fmt: skip
    """Keys and values that this step adds, [BLOCK_T, BLOCK_D], and where they are stored. Keys rounded as they are."""
    j, d = tl.arange(0, BLOCK_T), tl.arange(0, BLOCK_D)
    slots = tl.minimum(length + j, num_slots - 1)
    ptrs = qkv_ptr + (b * T + j) * ((N + 2 * G) * D) + (N + g) * D
    k = turned(ptrs, k_norm_ptr, cos_ptr, sin_ptr, slots, j < T, eps, HAS_NORM, D, BLOCK_D)
    v = tl.load(ptrs[:, None] + G * D + d[None, :], mask=(j < T)[:, None] & (d < D)[None, :], other=0.0)
    return k.to(k_ptr.dtype.element_ty), v, slots[:, None] * D + d[None, :]


@triton.jit
def cached_rows(k_ptr, v_ptr, cache, s, length, D: tl.constexpr, BLOCK_D: tl.constexpr):
    """Keys and values of the slots s, [S, BLOCK_D], as they are stored; zeros from `length` on."""
    d = tl.arange(0, BLOCK_D)[None, :]
    places, seen = cache + s[:, None] * D + d, (s < length)[:, None] & (d < D)
    return tl.load(k_ptr + places, mask=seen, other=0.0), tl.load(v_ptr + places, mask=seen, other=0.0)


@triton.jit
def attended(best, total, o, k, v, q, is_seen):
    """The state of a softmax over keys, after more of them: the largest score, the sum of weights, that of values."""
    scores = tl.where(is_seen, tl.sum(k.to(tl.float32) * q, axis=1), float("-inf"))
    new_best = tl.maximum(best, tl.max(scores, axis=0))
    weights = tl.exp(scores - new_best)
    shrink = tl.exp(best - new_best)
    o = o * shrink + tl.sum(weights[:, None] * v.to(tl.float32), axis=0)
    return new_best, total * shrink + tl.sum(weights, axis=0), o


@triton.jit
def attend_kernel(
    qkv_ptr, k_ptr, v_ptr, length_ptr, cos_ptr, sin_ptr, q_norm_ptr, k_norm_ptr, row_ptr, o_ptr, eps, num_slots,
    T: tl.constexpr, BLOCK_T: tl.constexpr, N: tl.constexpr, G: tl.constexpr, D: tl.constexpr, BLOCK_D: tl.constexpr,
    S: tl.constexpr, HAS_NORM: tl.constexpr, HAS_ROW: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    n, b, t = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    g = n // (N // G)
    d, s = tl.arange(0, BLOCK_D), tl.arange(0, S)
    length = tl.load(length_ptr + b)
    cache = (b * G + g).to(tl.int64) * num_slots * D
    first_k, first_v = cached_rows(k_ptr, v_ptr, cache, s, length, D, BLOCK_D)
    wait_for_others(EARLY)
    j = tl.arange(0, BLOCK_T)
    own_k, own_v, own_places = own_rows(
        qkv_ptr, k_ptr, cos_ptr, sin_ptr, k_norm_ptr, b, g, length, eps, num_slots,
        T, BLOCK_T, N, G, D, BLOCK_D, HAS_NORM,
    )  # fmt: skip
    stored = tl.where(n % (N // G) == 0, t, T)  # by the first of the heads that share it
    is_mine = (j == stored)[:, None] & (d < D)[None, :]
    tl.store(k_ptr + cache + own_places, own_k, mask=is_mine)
    tl.store(v_ptr + cache + own_places, own_v, mask=is_mine)
    one = tl.arange(0, 1) + t
    q_ptrs = qkv_ptr + (b * T + one) * ((N + 2 * G) * D) + n * D
    slot = tl.minimum(length + one, num_slots - 1)
    q = turned(q_ptrs, q_norm_ptr, cos_ptr, sin_ptr, slot, one < T, eps, HAS_NORM, D, BLOCK_D)
    q = q * (1.0 / tl.sqrt(D * 1.0))

    own_scores = tl.where(j <= t, tl.sum(own_k.to(tl.float32) * q, axis=1), float("-inf"))
    best = tl.max(own_scores, axis=0)
    own_weights = tl.exp(own_scores - best)
    total = tl.sum(own_weights, axis=0)
    o = tl.sum(own_weights[:, None] * own_v.to(tl.float32), axis=0)
    best, total, o = attended(best, total, o, first_k, first_v, q, s < length)
    for s0 in range(S, length, S):
        k, v = cached_rows(k_ptr, v_ptr, cache, s0 + s, length, D, BLOCK_D)
        best, total, o = attended(best, total, o, k, v, q, s0 + s < length)
    if HAS_ROW:
        end = tl.where(tl.load(row_ptr + b) == t, D, 0)
        tl.store(o_ptr + (b * N + n) * D + d, o / total, mask=d < end)
    else:
        tl.store(o_ptr + ((b * T + t) * N + n) * D + d, o / total, mask=d < D)


def attend(
    qkv_RX: Tensor, cache: KVCache, length_B: Tensor, rope: Rope, heads: Heads, row_B: Tensor | None = None
) -> Tensor:
    batch = len(length_B)
    num_rows = len(qkv_RX) // batch
    num_read = len(qkv_RX) if row_B is None else batch
    o_RX = torch.empty(num_read, heads.num_heads * heads.head_dim, dtype=qkv_RX.dtype, device=qkv_RX.device)
    has_norm = heads.q_norm_D is not None
    norms = (heads.q_norm_D, heads.k_norm_D) if has_norm else (qkv_RX, qkv_RX)
    attend_kernel[(heads.num_heads, batch, num_rows)](
        qkv_RX, cache.k_BGPD, cache.v_BGPD, length_B, rope.cos_PD, rope.sin_PD, *norms,
        length_B if row_B is None else row_B, o_RX, heads.norm_eps, cache.k_BGPD.shape[2],
        T=num_rows, BLOCK_T=power_of_two(num_rows), N=heads.num_heads, G=heads.num_kv_heads, D=heads.head_dim,
        BLOCK_D=power_of_two(heads.head_dim), S=BLOCK_S, HAS_NORM=has_norm, HAS_ROW=row_B is not None,
        num_warps=NUM_WARPS, **launch_options(qkv_RX),
    )  # fmt: skip
    return o_RX
