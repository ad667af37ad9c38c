"""The forward passes over few rows, written over the operations of kernels/: one read of each weight.

The same functions as decoder.Decoder and eagle3.Draft compute (tests hold them equal), in another order of rounding.
Must not know which implementation of the operations it runs on.

Legend: B batch, T rows a sequence, R = B * T rows, H hidden, N query heads * head width, X q, k and v side by side,
S distinct experts, I inner width, V vocabulary, C taps side by side, W the draft's input, D the draft's vocabulary.
"""

from collections.abc import Callable, Sequence

from torch import Tensor, nn

from model.attention import Attention, KVCache
from model.decoder import Decoder, DecoderLayer
from model.eagle3 import Draft
from model.kernels.ops import DraftNorms, Heads, Ops, Residual
from model.kernels.plain import inverse_rms
from model.layers import Rope, SwiGLU
from model.moe import MoE
from model.steps import DraftForward, TargetForward


def fused_forward(decoder: Decoder, caches: Sequence[KVCache], rope: Rope, ops: Ops) -> TargetForward:
    """Taps and logits are those of the plain forward; logits are wide."""
    norms = [layer.input_layernorm for layer in decoder.layers[1:]] + [decoder.norm]

    def forward(tokens_BT: Tensor, starts_B: Tensor, num_slots: int, taps_BTC: Tensor | None) -> Tensor:
        first_gamma_H = decoder.layers[0].input_layernorm.weight
        x_RH, squares_RP, h_RH = ops.embed(tokens_BT.flatten(), decoder.embed_tokens.weight, first_gamma_H)
        tap_of = {}
        if taps_BTC is not None:
            taps = taps_BTC.flatten(0, 1).split(h_RH.shape[1], dim=1)
            tap_of = dict(zip(sorted(decoder.tap_layers), taps, strict=True))
        if 0 in tap_of:
            tap_of[0].copy_(h_RH)
        for index, (layer, next_norm) in enumerate(zip(decoder.layers, norms, strict=True)):
            after = Residual(h_RH=h_RH, gamma_H=next_norm.weight, tap_RH=tap_of.get(index + 1))
            x_RH, squares_RP = run_layer(layer, x_RH, squares_RP, after, caches[index], starts_B, rope, ops)
        logits_RV = ops.norm_linear(x_RH, h_RH, decoder.lm_head.weight, decoder.norm.eps, h_RH.dtype, squares_RP)
        return logits_RV.unflatten(0, tokens_BT.shape)

    return forward


def run_layer(
    layer: DecoderLayer,
    x_RH: Tensor,
    squares_RP: Tensor | None,
    after: Residual,
    cache: KVCache,
    starts_B: Tensor,
    rope: Rope,
    ops: Ops,
) -> tuple[Tensor, Tensor | None]:
    """Adds both branches to the stream, the second as `after` says; returns its twin for that norm, and its squares."""
    h_RH = after.h_RH
    attention, moe = layer.self_attn, layer.mlp
    norm = layer.post_attention_layernorm

    eps = layer.input_layernorm.eps
    qkv_RX = ops.norm_linear(x_RH, h_RH, attention.qkv_proj.weight, eps, x_RH.dtype, squares_RP)
    o_RN = ops.attend(qkv_RX, cache, starts_B, rope, heads_of(attention))
    x_RH, squares_RP = add_attention(attention, o_RN, Residual(h_RH=h_RH, gamma_H=norm.weight), ops)

    routing = ops.route(x_RH, h_RH, moe.router.weight, norm.eps, moe.top_k, squares_RP)
    moe.group.marks.distinct_count(routing.count_1)
    if moe.copies_experts:
        moe.copy_experts(routing.weights_RE)
    shared_RH = None
    if moe.shared_expert is not None:
        shared_RH = run_shared(moe.shared_expert, x_RH, h_RH, squares_RP, norm.eps, ops)
    a_SRI = ops.gate_up(x_RH, moe.gate_up_EXIH, routing)
    if moe.group.world_size > 1 or shared_RH is not None:
        y_RH = ops.down(a_SRI, moe.down_HEI, routing)
        y_RH = y_RH if shared_RH is None else y_RH + shared_RH
        return ops.add(moe.group.all_reduce(y_RH), after)
    return ops.add_down(a_SRI, moe.down_HEI, routing, after)


def add_attention(
    attention: Attention, o_RN: Tensor, residual: Residual, ops: Ops
) -> tuple[Tensor, Tensor | None]:
    weight_HN = attention.o_proj.weight
    if attention.group.world_size == 1:
        return ops.add_linear(o_RN, weight_HN, residual)
    y_RH = ops.norm_linear(o_RN, None, weight_HN, 0.0, o_RN.dtype)
    return ops.add(attention.group.all_reduce(y_RH), residual)


def run_shared(
    expert: SwiGLU, x_RH: Tensor, h_RH: Tensor, squares_RP: Tensor | None, eps: float, ops: Ops
) -> Tensor:
    a_RI = ops.gated_linear(x_RH, h_RH, expert.gate_up_proj.weight, eps, squares_RP)
    return ops.norm_linear(a_RI, None, expert.down_proj.weight, 0.0, x_RH.dtype)


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


def fused_fuse(draft: Draft, ops: Ops) -> Callable[[Tensor], Tensor]:
    def fuse(taps_BTC: Tensor) -> Tensor:
        taps_RC = draft.normed(taps_BTC).flatten(0, 1)
        return ops.norm_linear(taps_RC, None, draft.fc.weight, 0.0, taps_RC.dtype).unflatten(0, taps_BTC.shape[:2])

    return fuse


def fused_draft(draft: Draft, embed_tokens: nn.Embedding, cache: KVCache, rope: Rope, ops: Ops) -> DraftForward:
    """Behind the attention only the row that is read goes on. Features and logits are wide."""
    layer = draft.midlayer
    norms = DraftNorms(
        token_H=layer.input_layernorm.weight,
        feature_H=layer.hidden_norm.weight,
        eps=layer.hidden_norm.eps,
        is_residual_normed=layer.norm_before_residual,
    )

    def forward(
        tokens_BT: Tensor, feature_BTH: Tensor, starts_B: Tensor, num_slots: int, row_B: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        x_RW, h_BH = ops.join(tokens_BT.flatten(), embed_tokens.weight, feature_BTH.flatten(0, 1), norms, row_B)
        qkv_RX = ops.norm_linear(x_RW, None, layer.self_attn.qkv_proj.weight, 0.0, x_RW.dtype)
        o_BN = ops.attend(qkv_RX, cache, starts_B, rope, heads_of(layer.self_attn), row_B)
        x_BH, squares_BP = finish_layer(draft, o_BN, h_BH, ops)
        logits_BD = ops.norm_linear(x_BH, h_BH, draft.head.weight, draft.norm.eps, h_BH.dtype, squares_BP)
        if draft.config.norm_output:
            h_BH = h_BH * inverse_rms(h_BH, draft.norm.eps) * draft.norm.weight
        return h_BH, logits_BD

    return forward


def finish_layer(draft: Draft, o_BN: Tensor, h_BH: Tensor, ops: Ops) -> tuple[Tensor, Tensor | None]:
    """Adds attention and MLP to h_BH; returns its twin for the norm in front of the head, and its squares."""
    layer, norm = draft.midlayer, draft.midlayer.post_attention_layernorm
    residual = Residual(h_RH=h_BH, gamma_H=norm.weight)
    x_BH, squares_BP = ops.add_linear(o_BN, layer.self_attn.o_proj.weight, residual)
    a_BI = ops.gated_linear(x_BH, h_BH, layer.mlp.gate_up_proj.weight, norm.eps, squares_BP)
    residual = Residual(h_RH=h_BH, gamma_H=draft.norm.weight)
    return ops.add_linear(a_BI, layer.mlp.down_proj.weight, residual)


def lay_out_for_kernels(moe: MoE) -> None:
    """Stores `down` expert by expert behind the same shape, so that what one expert reads lies together."""
    down_HEI = moe.down_HEI.data
    moe.down_HEI.data = down_HEI.transpose(0, 1).contiguous().transpose(0, 1)
