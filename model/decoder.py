"""The target: embedding, layers of attention and experts, head; and the taps its draft lives on.

Embedding and head are replicated: at this vocabulary a copy is cheaper than another collective, and all
ranks see the same logits by construction, hence take the same decisions.

Legend: B batch, T rows of this forward, H hidden, C taps side by side (num_taps * H), V vocabulary.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from model.attention import AnyWindow, Attention, KVCache
from model.config import TargetConfig
from model.moe import MoE
from model.parallel import SINGLE, Group


class DecoderLayer(nn.Module):
    """Two residual branches, each ends in one all-reduce."""

    def __init__(self, config: TargetConfig, group: Group) -> None:
        super().__init__()
        self.input_layernorm = nn.RMSNorm(config.hidden_size, config.norm_eps)
        self.self_attn = Attention(
            input_size=config.hidden_size,
            hidden_size=config.hidden_size,
            num_heads=config.num_heads,
            num_kv_heads=config.num_kv_heads,
            head_dim=config.head_dim,
            qk_norm=config.qk_norm,
            norm_eps=config.norm_eps,
            group=group,
        )
        self.post_attention_layernorm = nn.RMSNorm(config.hidden_size, config.norm_eps)
        self.mlp = MoE(
            hidden_size=config.hidden_size,
            num_experts=config.num_experts,
            top_k=config.top_k,
            expert_size=config.expert_size,
            shared_size=config.shared_size,
            group=group,
        )

    def forward(self, x_BTH: Tensor, window: AnyWindow, cache: KVCache | None) -> Tensor:
        x_BTH = x_BTH + self.self_attn(self.input_layernorm(x_BTH), window, cache)
        return x_BTH + self.mlp(self.post_attention_layernorm(x_BTH))


class Decoder(nn.Module):
    def __init__(self, config: TargetConfig, group: Group = SINGLE) -> None:
        super().__init__()
        self.config = config
        self.tap_layers = config.tap_layers
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList(DecoderLayer(config, group) for _ in range(config.num_layers))
        self.norm = nn.RMSNorm(config.hidden_size, config.norm_eps)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)

    def new_caches(
        self, num_slots: int, *, dtype: torch.dtype, device: torch.device, batch: int = 1
    ) -> list[KVCache]:
        attentions = [layer.self_attn for layer in self.layers]
        return [attention.new_cache(num_slots, dtype=dtype, device=device, batch=batch) for attention in attentions]

    def forward(
        self,
        tokens_BT: Tensor,
        window: AnyWindow,
        caches: Sequence[KVCache] | None = None,
        taps: list[Tensor] | None = None,
    ) -> Tensor:
        """The residual stream behind the last layer, before the final norm.

        `taps`: a list to which the un-normed streams entering the tap layers are appended, one for each; without it
        nothing is collected.
        """
        x_BTH = self.embed_tokens(tokens_BT)
        for index, layer in enumerate(self.layers):
            if taps is not None and index in self.tap_layers:
                taps.append(x_BTH)
            x_BTH = layer(x_BTH, window, None if caches is None else caches[index])
        return x_BTH

    def logits(self, x_BTH: Tensor) -> Tensor:
        return self.lm_head(self.norm(x_BTH))
