"""The target's forward pass over few rows, written over the operations of kernels/: one read of each weight.

The same function as decoder.Decoder computes (tests hold them equal), in another order of rounding. Must not know
which implementation of the operations it runs on.

Legend: B batch, T rows a sequence, R = B * T rows, H hidden, N query heads * head width, X q, k and v side by side,
S distinct experts, I inner width, V vocabulary.
"""

# ruff: noqa: N815 - fields carry shape suffixes too

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from model.attention import Attention, KVCache
from model.decoder import Decoder, DecoderLayer
from model.kernels.ops import Heads, Ops, Residual
from model.kernels.plain import add, wide
from model.layers import Rope, SwiGLU
from model.moe import MoE
from model.steps import TargetForward


def fused_forward(decoder: Decoder, caches: Sequence[KVCache], rope: Rope, ops: Ops) -> TargetForward:
    """Taps and logits are those of the plain forward; logits are wide."""
    norms = [layer.input_layernorm for layer in decoder.layers[1:]] + [decoder.norm]

    def forward(tokens_BT: Tensor, starts_B: Tensor, num_slots: int, taps: list[Tensor] | None) -> Tensor:
        embedded_RH = decoder.embed_tokens(tokens_BT.flatten())
        h_RH = wide(embedded_RH)
        x_RH = (h_RH * decoder.layers[0].input_layernorm.weight).to(embedded_RH.dtype)
        for index, (layer, next_norm) in enumerate(zip(decoder.layers, norms, strict=True)):
            if taps is not None and index in decoder.tap_layers:
                taps.append(h_RH.to(x_RH.dtype, copy=True).unflatten(0, tokens_BT.shape))
            x_RH = run_layer(layer, x_RH, h_RH, next_norm.weight, caches[index], starts_B, rope, ops)
        logits_RV = ops.norm_linear(x_RH, h_RH, decoder.lm_head.weight, decoder.norm.eps, h_RH.dtype)
        return logits_RV.unflatten(0, tokens_BT.shape)

    return forward


def run_layer(
    layer: DecoderLayer,
    x_RH: Tensor,
    h_RH: Tensor,
    next_gamma_H: Tensor,
    cache: KVCache,
    starts_B: Tensor,
    rope: Rope,
    ops: Ops,
) -> Tensor:
    """Adds both branches to h_RH; returns its twin for the norm that comes next."""
    attention, moe = layer.self_attn, layer.mlp
    norm = layer.post_attention_layernorm

    qkv_RX = ops.norm_linear(x_RH, h_RH, attention.qkv_proj.weight, layer.input_layernorm.eps, x_RH.dtype)
    o_RN = ops.attend(qkv_RX, cache, starts_B, rope, heads_of(attention))
    x_RH = add_attention(attention, o_RN, Residual(h_RH=h_RH, gamma_H=norm.weight), ops)

    routing = ops.route(x_RH, h_RH, moe.router.weight, norm.eps, moe.top_k)
    moe.group.marks.distinct_count(routing.count_1)
    if moe.copies_experts:
        moe.copy_experts(routing.weights_RE)
    shared_RH = None if moe.shared_expert is None else run_shared(moe.shared_expert, x_RH, h_RH, norm.eps, ops)
    a_SRI = ops.gate_up(x_RH, moe.gate_up_EXIH, routing)
    if moe.group.world_size > 1 or shared_RH is not None:
        y_RH = ops.down(a_SRI, moe.down_HEI, routing)
        y_RH = y_RH if shared_RH is None else y_RH + shared_RH
        return add(moe.group.all_reduce(y_RH), Residual(h_RH=h_RH, gamma_H=next_gamma_H), x_RH.dtype)
    return ops.add_down(a_SRI, moe.down_HEI, routing, Residual(h_RH=h_RH, gamma_H=next_gamma_H))


def add_attention(attention: Attention, o_RN: Tensor, residual: Residual, ops: Ops) -> Tensor:
    weight_HN = attention.o_proj.weight
    if attention.group.world_size == 1:
        return ops.add_linear(o_RN, weight_HN, residual)
    y_RH = ops.norm_linear(o_RN, None, weight_HN, 0.0, o_RN.dtype)
    return add(attention.group.all_reduce(y_RH), residual, o_RN.dtype)


def run_shared(expert: SwiGLU, x_RH: Tensor, h_RH: Tensor, eps: float, ops: Ops) -> Tensor:
    both_RX = ops.norm_linear(x_RH, h_RH, expert.gate_up_proj.weight, eps, x_RH.dtype)
    gate_RI, up_RI = both_RX.chunk(2, dim=-1)
    inner_RI = torch.nn.functional.silu(gate_RI) * up_RI
    return ops.norm_linear(inner_RI, None, expert.down_proj.weight, 0.0, x_RH.dtype)


def heads_of(attention: Attention) -> Heads:
    q_norm, k_norm = attention.q_norm, attention.k_norm
    return Heads(
        num_heads=attention.num_heads,
        num_kv_heads=attention.num_kv_heads,
        head_dim=attention.head_dim,
        q_norm_D=None if q_norm is None else q_norm.weight,
        k_norm_D=None if k_norm is None else k_norm.weight,
        norm_eps=0.0 if q_norm is None else q_norm.eps,
    )


@dataclass(frozen=True, kw_only=True)
class KernelWindow:
    """An attention.AnyWindow for modules whose other parts are PyTorch, as those of the draft are."""

    length_B: Tensor
    rope: Rope
    ops: Ops

    def attend(self, attention: Attention, x_BTW: Tensor, cache: KVCache | None) -> Tensor:
        qkv_RX = attention.qkv_proj(x_BTW).flatten(0, 1)
        o_RN = self.ops.attend(qkv_RX, cache, self.length_B, self.rope, heads_of(attention))
        return o_RN.view(*x_BTW.shape[:2], attention.num_heads, attention.head_dim).transpose(1, 2)


def kernel_window(ops: Ops, starts_B: Tensor, num_rows: int, num_slots: int, rope: Rope) -> KernelWindow:
    """A steps.MakeWindow, once `ops` is given. The kernel finds out by itself how far it has to look."""
    return KernelWindow(length_B=starts_B, rope=rope, ops=ops)


def lay_out_for_kernels(moe: MoE) -> None:
    """Stores `down` expert by expert behind the same shape, so that what one expert reads lies together."""
    down_HEI = moe.down_HEI.data
    moe.down_HEI.data = down_HEI.transpose(0, 1).contiguous().transpose(0, 1)
