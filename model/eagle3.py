"""The EAGLE-3 draft network: one decoder layer that continues the target's features.

Slot i holds the feature f_i together with the embedding of token x_(i+1); its position is i, the slot of the
feature. Layout after SafeAILab/EAGLE eagle/model/cnets.py. It does not decide what is accepted.

The draft is replicated on every rank, not sharded: its layer is smaller than one all-reduce is long, and a
drafting step without collectives cannot be slowed by the link. All ranks compute the same drafted tokens.

Legend: B batch, T rows, H hidden, C taps side by side (num_taps * H), W the layer's input (2 * H), V vocabulary.
"""

import torch
from torch import Tensor, nn

from model.attention import AnyWindow, Attention, KVCache
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
        self.norm_before_residual = config.norm_before_residual
        self.post_attention_layernorm = nn.RMSNorm(config.hidden_size, config.norm_eps)
        self.mlp = SwiGLU(config.hidden_size, config.inner_size)

    def join(self, embedded_BTH: Tensor, h_BTH: Tensor) -> Tensor:
        return torch.cat((self.input_layernorm(embedded_BTH), self.hidden_norm(h_BTH)), dim=-1)

    def finish(self, a_BTH: Tensor) -> Tensor:
        return a_BTH + self.mlp(self.post_attention_layernorm(a_BTH))

    def forward(
        self, embedded_BTH: Tensor, h_BTH: Tensor, window: AnyWindow, cache: KVCache | None
    ) -> Tensor:
        residual_BTH = self.hidden_norm(h_BTH) if self.norm_before_residual else h_BTH
        a_BTH = residual_BTH + self.self_attn(self.join(embedded_BTH, h_BTH), window, cache)
        return self.finish(a_BTH)


class Draft(nn.Module):
    """`forward` gives the feature that the next drafting step takes as its h, and that `logits` reads.

    It is the layer's output BEFORE the norm, or after it where the checkpoint says norm_output.
    """

    def __init__(self, config: DraftConfig) -> None:
        super().__init__()
        self.config = config
        taps_size = config.num_taps * config.target_hidden_size
        own_embedding = nn.Embedding(config.vocab_size, config.hidden_size) if config.has_own_embedding else None
        self.embed_tokens = own_embedding
        self.fc_norm = _norm_of_each_tap(config) if config.fc_norm else None
        self.input_norm = nn.RMSNorm(taps_size, config.norm_eps) if config.norm_before_fc else None
        self.fc = nn.Linear(taps_size, config.hidden_size, bias=False)
        self.midlayer = MidLayer(config)
        self.norm = nn.RMSNorm(config.hidden_size, config.norm_eps)
        self.lm_head = nn.Linear(config.hidden_size, config.head_size, bias=False) if config.has_own_head else None
        if config.has_own_vocabulary:
            self.register_buffer("d2t", torch.zeros(config.head_size, dtype=torch.int64))

    def borrow_head(self, lm_head: nn.Linear) -> None:
        """Reads the target's head from now on; nothing is copied."""
        self.lm_head = lm_head

    def fuse(self, taps_BTC: Tensor) -> Tensor:
        """Target features only: the draft's own feature goes in as it is."""
        return self.fc(self.normed(taps_BTC))

    def normed(self, taps_BTC: Tensor) -> Tensor:
        """As this draft's variant norms its taps before fc, if it does."""
        if self.fc_norm is not None:
            taps = taps_BTC.chunk(len(self.fc_norm), dim=-1)
            taps_BTC = torch.cat([norm(tap) for norm, tap in zip(self.fc_norm, taps, strict=True)], dim=-1)
        if self.input_norm is not None:
            taps_BTC = self.input_norm(taps_BTC)
        return taps_BTC

    def forward(
        self, embedded_BTH: Tensor, h_BTH: Tensor, window: AnyWindow, cache: KVCache | None = None
    ) -> Tensor:
        feature_BTH = self.midlayer(embedded_BTH, h_BTH, window, cache)
        return self.norm(feature_BTH) if self.config.norm_output else feature_BTH

    def logits(self, feature_BTH: Tensor) -> Tensor:
        """Over the draft's own vocabulary; `to_target` translates its ids."""
        return self.head(feature_BTH if self.config.norm_output else self.norm(feature_BTH))

    @property
    def head(self) -> nn.Linear:
        """Raises RuntimeError where it has none of its own and borrowed none."""
        if self.lm_head is None:
            raise RuntimeError("this draft has no head of its own: borrow_head first")
        return self.lm_head

    def to_target(self, ids: Tensor) -> Tensor:
        """Ids of the target's vocabulary. d2t holds offsets: target id = draft id + d2t[draft id]."""
        return ids + self.d2t[ids] if self.config.has_own_vocabulary else ids


def _norm_of_each_tap(config: DraftConfig) -> nn.ModuleList:
    return nn.ModuleList(nn.RMSNorm(config.target_hidden_size, config.norm_eps) for _ in range(config.num_taps))
