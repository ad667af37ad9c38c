"""Grouped-query attention over a fixed-size KV cache. Knows slots and rows, but not whose tokens they are.

A cache has no length of its own: whoever calls says at which slot the rows start, and rows see the slots
before them and nothing behind. So taking rejected tokens back is setting an integer, and a stale slot is
overwritten before anything can attend to it.

Legend: B batch, T rows of this forward, S slots attended to, P slots of the cache, W input width, H hidden,
N query heads, G KV heads, D head width. N and G are this rank's share.
"""

# ruff: noqa: N815 - fields carry shape suffixes too

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from model.layers import Rope
from model.parallel import SINGLE, Group


@dataclass(frozen=True, kw_only=True)
class KVCache:
    k_BGPD: Tensor
    v_BGPD: Tensor

    def write(self, k_BGTD: Tensor, v_BGTD: Tensor, start: int) -> tuple[Tensor, Tensor]:
        """Stores rows at slots start..start+T-1; returns keys and values of all slots up to there."""
        end = start + k_BGTD.shape[2]
        self.k_BGPD[:, :, start:end] = k_BGTD
        self.v_BGPD[:, :, start:end] = v_BGTD
        return self.k_BGPD[:, :, :end], self.v_BGPD[:, :, :end]


@dataclass(frozen=True, kw_only=True)
class Window:
    """Where the rows of one forward stand: their first slot (= first position), and what they may see."""

    start: int
    rope: Rope
    mask_TS: Tensor | None


class Attention(nn.Module):
    """Heads are shared out over the ranks; the all-reduce after `o_proj` adds their parts up."""

    def __init__(
        self,
        *,
        input_size: int,
        hidden_size: int,
        num_heads: int,
        num_kv_heads: int,
        head_dim: int,
        qk_norm: bool = False,
        norm_eps: float = 1e-6,
        group: Group = SINGLE,
    ) -> None:
        super().__init__()
        self.num_heads = group.share(num_heads, "query heads")
        self.num_kv_heads = group.share(num_kv_heads, "KV heads")
        self.head_dim = head_dim
        self.group = group
        self.qkv_proj = nn.Linear(input_size, (self.num_heads + 2 * self.num_kv_heads) * head_dim, bias=False)
        self.o_proj = nn.Linear(self.num_heads * head_dim, hidden_size, bias=False)
        self.q_norm = nn.RMSNorm(head_dim, norm_eps) if qk_norm else None
        self.k_norm = nn.RMSNorm(head_dim, norm_eps) if qk_norm else None

    def new_cache(self, num_slots: int, *, dtype: torch.dtype, device: torch.device) -> KVCache:
        shape = (1, self.num_kv_heads, num_slots, self.head_dim)
        return KVCache(
            k_BGPD=torch.zeros(shape, dtype=dtype, device=device),
            v_BGPD=torch.zeros(shape, dtype=dtype, device=device),
        )

    def project(self, x_BTW: Tensor, window: Window) -> tuple[Tensor, Tensor, Tensor]:
        """q_BNTD, k_BGTD (both turned to their positions) and v_BGTD."""
        qkv_BTXD = self.qkv_proj(x_BTW).unflatten(-1, (-1, self.head_dim))
        qk_BXTD, v_BGTD = qkv_BTXD.transpose(1, 2).split(
            (self.num_heads + self.num_kv_heads, self.num_kv_heads), dim=1
        )
        if self.q_norm is not None and self.k_norm is not None:
            q_BNTD, k_BGTD = qk_BXTD.split((self.num_heads, self.num_kv_heads), dim=1)
            qk_BXTD = torch.cat((self.q_norm(q_BNTD), self.k_norm(k_BGTD)), dim=1)
        qk_BXTD = window.rope.rotate(qk_BXTD, window.start)
        q_BNTD, k_BGTD = qk_BXTD.split((self.num_heads, self.num_kv_heads), dim=1)
        return q_BNTD, k_BGTD, v_BGTD

    def output(self, o_BNTD: Tensor) -> Tensor:
        return self.group.all_reduce(self.o_proj(o_BNTD.transpose(1, 2).flatten(2)))

    def forward(self, x_BTW: Tensor, window: Window, cache: KVCache | None) -> Tensor:
        q_BNTD, k_BGSD, v_BGSD = self.project(x_BTW, window)
        if cache is not None:
            k_BGSD, v_BGSD = cache.write(k_BGSD, v_BGSD, window.start)
        o_BNTD = scaled_dot_product_attention(
            q_BNTD, k_BGSD, v_BGSD, attn_mask=window.mask_TS, enable_gqa=True
        )
        return self.output(o_BNTD)
