"""The EAGLE-3 draft network: one decoder layer that continues the target's features.

Slot i holds the feature f_i together with the embedding of token x_(i+1); its position is i, the slot of the
feature. Layout after SafeAILab/EAGLE eagle/model/cnets.py. It does not decide what is accepted.

The draft is replicated on every rank, not sharded: its layer is smaller than one all-reduce is long, and a
drafting step without collectives cannot be slowed by the link. All ranks compute the same drafted tokens.

Legend: B batch, T rows, H hidden, C taps side by side (num_taps * H), W the layer's input (2 * H), V vocabulary.
"""

import torch
from torch import Tensor, nn

from model.attention import Attention, KVCache, Window
from model.config import DraftConfig
from model.layers import SwiGLU


class MidLayer(nn.Module):
    """Residual r = h; input = [norm(embedding), norm(h)], embedding first; then attention and MLP."""

    def __init__(self, config: DraftConfig) -> None:
        super().__init__()
        self.hidden_norm = nn.RMSNorm(config.hidden_size, config.norm_eps)
        self.input_layernorm = nn.RMSNorm(config.hidden_size, config.norm_eps)
        self.self_attn = Attention(
            input_size=2 * config.hidden_size,
            hidden_size=config.hidden_size,
            num_heads=config.num_heads,
            num_kv_heads=config.num_kv_heads,
            head_dim=config.head_dim,
        )
        self.post_attention_layernorm = nn.RMSNorm(config.hidden_size, config.norm_eps)
        self.mlp = SwiGLU(config.hidden_size, config.inner_size)

    def join(self, embedded_BTH: Tensor, h_BTH: Tensor) -> Tensor:
        return torch.cat((self.input_layernorm(embedded_BTH), self.hidden_norm(h_BTH)), dim=-1)

    def finish(self, a_BTH: Tensor) -> Tensor:
        return a_BTH + self.mlp(self.post_attention_layernorm(a_BTH))

    def forward(
        self, embedded_BTH: Tensor, h_BTH: Tensor, window: Window, cache: KVCache | None
    ) -> Tensor:
        a_BTH = h_BTH + self.self_attn(self.join(embedded_BTH, h_BTH), window, cache)
        return self.finish(a_BTH)


class Draft(nn.Module):
    """`forward` gives the feature BEFORE the norm: it is the h of the next drafting step."""

    def __init__(self, config: DraftConfig) -> None:
        super().__init__()
        self.config = config
        self.fc = nn.Linear(config.num_taps * config.target_hidden_size, config.hidden_size, bias=False)
        self.midlayer = MidLayer(config)
        self.norm = nn.RMSNorm(config.hidden_size, config.norm_eps)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)

    def fuse(self, taps_BTC: Tensor) -> Tensor:
        """Target features only: the draft's own feature goes in as it is."""
        return self.fc(taps_BTC)

    def forward(
        self, embedded_BTH: Tensor, h_BTH: Tensor, window: Window, cache: KVCache | None = None
    ) -> Tensor:
        return self.midlayer(embedded_BTH, h_BTH, window, cache)

    def logits(self, feature_BTH: Tensor) -> Tensor:
        return self.lm_head(self.norm(feature_BTH))
