"""The operations in PyTorch: what every kernel is meant to compute, and what runs where there is none.

Computes in the width of the residual stream, rounds where the kernels round. Legend: ops.py.
"""

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention, silu

from model import sequences as of
from model.attention import KVCache
from model.kernels.ops import DraftNorms, Heads, Ops, Residual, Routing
from model.layers import Rope
from model.sampling import accept_synthetic, even_coins
from model.sequences import Sequences


def build_plain_ops() -> Ops:
    return Ops(
        embed=embed,
        norm_linear=norm_linear,
        add_linear=add_linear,
        attend=attend,
        route=route,
        gate_up=gate_up,
        add_down=add_down,
        down=down,
        add=add,
        gated_linear=gated_linear,
        join=join,
        best=best,
        append=of.append,
        accept=accept,
    )


def embed(tokens_R: Tensor, table_VH: Tensor, gamma_H: Tensor) -> tuple[Tensor, None, Tensor]:
    h_RH = wide(table_VH[tokens_R])
    return (h_RH * gamma_H).to(table_VH.dtype), None, h_RH


def inverse_rms(h_RH: Tensor, eps: float) -> Tensor:
    return (h_RH.square().mean(-1, keepdim=True) + eps).rsqrt()


def wide(x: Tensor) -> Tensor:
    return x.to(torch.promote_types(x.dtype, torch.float32))


def norm_linear(
    x_RH: Tensor,
    h_RH: Tensor | None,
    weight_NH: Tensor,
    eps: float,
    dtype: torch.dtype,
    squares_RP: Tensor | None = None,
) -> Tensor:
    """The squares are summed up here whoever has done so before."""
    y_RN = wide(x_RH) @ wide(weight_NH).T
    return (y_RN if h_RH is None else y_RN * inverse_rms(h_RH, eps)).to(dtype)


def add_linear(x_RN: Tensor, weight_HN: Tensor, residual: Residual) -> tuple[Tensor, None]:
    return add(wide(x_RN) @ wide(weight_HN).T, residual)


def add(y_RH: Tensor, residual: Residual) -> tuple[Tensor, None]:
    """The twin has the dtype of the norm's weight."""
    residual.h_RH.add_(y_RH)
    if residual.tap_RH is not None:
        residual.tap_RH.copy_(residual.h_RH)
    return (residual.h_RH * residual.gamma_H).to(residual.gamma_H.dtype), None


def attend(
    qkv_RX: Tensor, cache: KVCache, length_B: Tensor, rope: Rope, heads: Heads, row_B: Tensor | None = None
) -> Tensor:
    num_q, num_kv = heads.num_heads, heads.num_kv_heads
    qkv_BXTD = qkv_RX.view(len(length_B), -1, num_q + 2 * num_kv, heads.head_dim).transpose(1, 2)
    q_BNTD, k_BGTD, v_BGTD = qkv_BXTD.split((num_q, num_kv, num_kv), dim=1)
    num_slots, num_rows = cache.k_BGPD.shape[2], qkv_BXTD.shape[2]
    slots_BT = (length_B[:, None] + torch.arange(num_rows, device=length_B.device)).clamp(max=num_slots - 1)
    q_BNTD = turned(q_BNTD, heads.q_norm_D, slots_BT, rope, heads.norm_eps)
    k_BGTD = turned(k_BGTD, heads.k_norm_D, slots_BT, rope, heads.norm_eps)
    cache.scatter(k_BGTD.to(cache.k_BGPD.dtype), v_BGTD, slots_BT)
    seen_S = torch.arange(num_slots, device=length_B.device)
    mask_B1TS = (seen_S <= slots_BT.unsqueeze(-1)).unsqueeze(1)
    o_BNTD = scaled_dot_product_attention(
        q_BNTD, wide(cache.k_BGPD), wide(cache.v_BGPD), attn_mask=mask_B1TS, enable_gqa=True
    )
    o_RX = o_BNTD.transpose(1, 2).reshape(len(qkv_RX), -1).to(qkv_RX.dtype)
    return o_RX if row_B is None else row_of_each(o_RX, row_B)


def turned(x_BXTD: Tensor, norm_D: Tensor | None, slots_BT: Tensor, rope: Rope, eps: float) -> Tensor:
    x_BXTD = wide(x_BXTD)
    if norm_D is not None:
        x_BXTD = x_BXTD * inverse_rms(x_BXTD, eps) * norm_D
    cos_B1TD, sin_B1TD = (table[slots_BT].unsqueeze(1) for table in (rope.cos_PD, rope.sin_PD))
    return x_BXTD * cos_B1TD + x_BXTD.roll(x_BXTD.shape[-1] // 2, dims=-1) * sin_B1TD


def route(
    x_RH: Tensor, h_RH: Tensor, weight_EH: Tensor, eps: float, top_k: int, squares_RP: Tensor | None = None
) -> Routing:
    logits_RE = wide(norm_linear(x_RH, h_RH, weight_EH, eps, h_RH.dtype))
    best_RK, ids_RK = logits_RE.topk(top_k, dim=-1)
    weights_RE = torch.zeros_like(logits_RE).scatter(-1, ids_RK, best_RK.softmax(-1))
    in_use_E = (weights_RE > 0).any(0)
    # Those in use first, by number: a stable sort of False (in use) before True.
    ids_E = (~in_use_E).to(torch.int32).argsort(stable=True)
    most = min(weights_RE.shape[1], weights_RE.shape[0] * top_k)
    return Routing(
        scale_R=inverse_rms(h_RH, eps)[:, 0],
        weights_RE=weights_RE,
        ids_S=ids_E[:most].int(),
        count_1=in_use_E.sum().view(1).int(),
    )


def gate_up(x_RH: Tensor, gate_up_EXIH: Tensor, routing: Routing) -> Tensor:
    """Slots of a_SRI that are not in use are zero."""
    x_RH, scale_R1 = wide(x_RH), routing.scale_R[:, None]
    num_slots, (num_rows, _), inner_size = len(routing.ids_S), x_RH.shape, gate_up_EXIH.shape[2]
    a_SRI = x_RH.new_zeros(num_slots, num_rows, inner_size, dtype=gate_up_EXIH.dtype)
    for slot in range(int(routing.count_1)):
        expert = int(routing.ids_S[slot])
        gate_RI, up_RI = ((x_RH @ wide(w_IH).T) * scale_R1 for w_IH in gate_up_EXIH[expert])
        a_SRI[slot] = routing.weights_RE[:, expert, None] * silu(gate_RI) * up_RI
    return a_SRI


def down(a_SRI: Tensor, down_HEI: Tensor, routing: Routing) -> Tensor:
    return sum_of_experts(a_SRI, down_HEI, routing).to(a_SRI.dtype)


def add_down(a_SRI: Tensor, down_HEI: Tensor, routing: Routing, residual: Residual) -> tuple[Tensor, None]:
    return add(sum_of_experts(a_SRI, down_HEI, routing), residual)


def sum_of_experts(a_SRI: Tensor, down_HEI: Tensor, routing: Routing) -> Tensor:
    y_RH = wide(a_SRI.new_zeros(a_SRI.shape[1], down_HEI.shape[0]))
    for slot in range(int(routing.count_1)):
        y_RH += wide(a_SRI[slot]) @ wide(down_HEI[:, int(routing.ids_S[slot])]).T
    return y_RH


def gated_linear(
    x_RH: Tensor, h_RH: Tensor, weight_XH: Tensor, eps: float, squares_RP: Tensor | None = None
) -> Tensor:
    gate_RI, up_RI = norm_linear(x_RH, h_RH, weight_XH, eps, h_RH.dtype).chunk(2, dim=-1)
    return (silu(gate_RI) * up_RI).to(x_RH.dtype)


def join(
    tokens_R: Tensor, table_VH: Tensor, feature_RH: Tensor, norms: DraftNorms, row_B: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    token_RH, h_RH = wide(table_VH[tokens_R]), wide(feature_RH).clone()
    token_RH = token_RH * inverse_rms(token_RH, norms.eps) * norms.token_H
    normed_RH = h_RH * inverse_rms(h_RH, norms.eps) * norms.feature_H
    x_RW = torch.cat((token_RH, normed_RH), dim=-1).to(table_VH.dtype)
    h_RH = normed_RH if norms.is_residual_normed else h_RH
    return x_RW, h_RH if row_B is None else row_of_each(h_RH, row_B)


def row_of_each(x_RX: Tensor, row_B: Tensor) -> Tensor:
    return x_RX.unflatten(0, (len(row_B), -1))[torch.arange(len(row_B), device=row_B.device), row_B]


def best(logits_RV: Tensor, ids_D: Tensor | None = None, out_R: Tensor | None = None) -> Tensor:
    found_R = logits_RV.argmax(-1)
    found_R = found_R if ids_D is None else ids_D[found_R]
    return found_R if out_R is None else out_R.copy_(found_R)


def accept(
    sequences: Sequences, max_len: int, *, rates_K: Tensor | None = None, agreed_B: Tensor | None = None
) -> None:
    if rates_K is not None:
        agreed_B = accept_synthetic(rates_K, even_coins(sequences.clock, len(sequences.length_B)))
    elif agreed_B is None:
        agreed_B = of.num_agreed(sequences.drafted_BK, sequences.verified_BT)
    of.accept(sequences, agreed_B, max_len)
