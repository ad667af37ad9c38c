"""Widths that are measured, and random inputs of one layer for kernels by themselves."""

# ruff: noqa: N815 - fields carry shape suffixes too

from dataclasses import dataclass

import torch
from torch import Tensor

from model.attention import KVCache
from model.config import TargetConfig
from model.kernels.ops import DraftNorms, Heads, Residual
from model.layers import Rope, build_rope
from model.presets import preset_of

Widths = TargetConfig

WIDTHS = {
    "qwen3-30b-a3b": preset_of("qwen3-30b-a3b", layers=12).target,
    "tiny": TargetConfig(
        vocab_size=512, num_layers=7, hidden_size=64, num_heads=4, num_kv_heads=2, head_dim=16,
        num_experts=8, top_k=2, expert_size=32, qk_norm=True,
    ),
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Inputs:
    """Names as in model/kernels/ops.py."""

    tokens_R: Tensor
    x_RH: Tensor
    h_RH: Tensor
    residual: Residual
    qkv_XH: Tensor
    qkv_RX: Tensor
    o_RN: Tensor
    o_HN: Tensor
    router_EH: Tensor
    gate_up_EXIH: Tensor
    down_HEI: Tensor
    lm_head_VH: Tensor
    cache: KVCache
    length_B: Tensor
    rope: Rope
    heads: Heads
    draft_norms: DraftNorms


def random_inputs(
    widths: Widths, num_rows: int, device: torch.device, *, is_empty: bool = False, slots: int = 256
) -> Inputs:
    """bf16 weights of one layer, one sequence half its cache long. `is_empty`: shapes only, memory never touched."""

    def draw(*shape: int, dtype: torch.dtype = torch.bfloat16) -> Tensor:
        if is_empty:
            return torch.empty(shape, dtype=dtype, device=device)
        return torch.randn(shape, dtype=dtype, device=device) * shape[-1] ** -0.5

    size, head = widths.hidden_size, widths.head_dim
    q_size, x_size = widths.num_heads * head, (widths.num_heads + 2 * widths.num_kv_heads) * head
    h_RH, gamma_H = draw(num_rows, size, dtype=torch.float32), draw(size)
    cache = (1, widths.num_kv_heads, slots, head)
    return Inputs(
        tokens_R=torch.arange(num_rows, device=device) * 1009 % widths.vocab_size,
        x_RH=(h_RH * gamma_H).to(torch.bfloat16),
        h_RH=h_RH,
        residual=Residual(h_RH=h_RH.clone(), gamma_H=gamma_H),
        qkv_XH=draw(x_size, size),
        qkv_RX=draw(num_rows, x_size),
        o_RN=draw(num_rows, q_size),
        o_HN=draw(size, q_size),
        router_EH=draw(widths.num_experts, size),
        gate_up_EXIH=draw(widths.num_experts, 2, widths.expert_size, size),
        down_HEI=draw(widths.num_experts, size, widths.expert_size).transpose(0, 1),
        lm_head_VH=draw(widths.vocab_size, size),
        cache=KVCache(k_BGPD=draw(*cache), v_BGPD=draw(*cache)),
        length_B=torch.full((1,), slots // 2, dtype=torch.int64, device=device),
        rope=build_rope(
            num_positions=slots, head_dim=head, theta=widths.rope_theta, dtype=torch.bfloat16, device=device
        ),
        heads=Heads(
            num_heads=widths.num_heads, num_kv_heads=widths.num_kv_heads, head_dim=head,
            q_norm_D=draw(head), k_norm_D=draw(head), norm_eps=widths.norm_eps,
        ),
        draft_norms=DraftNorms(
            token_H=draw(size), feature_H=draw(size), eps=widths.norm_eps, is_residual_normed=False
        ),
    )  # fmt: skip
