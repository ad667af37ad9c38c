"""Grouped-query attention over a fixed-size KV cache. Knows slots and rows, but not whose tokens they are.

A cache has no length of its own: whoever calls says at which slots the rows stand, and rows see the slots
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

from model.layers import Rope, turn
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

    def scatter(self, k_BGTD: Tensor, v_BGTD: Tensor, slots_BT: Tensor) -> None:
        """Stores row t of sequence b at slot slots_BT[b, t]."""
        slots_BGTD = slots_BT[:, None, :, None].expand_as(k_BGTD)
        self.k_BGPD.scatter_(2, slots_BGTD, k_BGTD)
        self.v_BGPD.scatter_(2, slots_BGTD, v_BGTD)

    def of(self, sequence: int) -> "KVCache":
        """The same memory, of one sequence alone."""
        rows = slice(sequence, sequence + 1)
        return KVCache(k_BGPD=self.k_BGPD[rows], v_BGPD=self.v_BGPD[rows])


@dataclass(frozen=True, kw_only=True)
class Window:
    """Where the rows of one forward stand, all sequences alike: their first slot, and what they may see."""

    start: int
    rope: Rope
    mask: Tensor | None

    def rotate(self, x_BXTD: Tensor) -> Tensor:
        return self.rope.rotate(x_BXTD, self.start)

    def store(self, cache: KVCache, k_BGTD: Tensor, v_BGTD: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values that the rows may attend to, their own included."""
        return cache.write(k_BGTD, v_BGTD, self.start)


@dataclass(frozen=True, kw_only=True)
class OwnWindow:
    """T rows of each sequence, standing where that sequence ends: at slots_BT, known to the device only.

    The cache is attended to up to `num_slots`, which the host knows to suffice; the mask leaves out what lies
    behind a row. No value is read back, so a forward over it can be captured in a CUDA graph.
    """

    slots_BT: Tensor
    cos_B1TD: Tensor
    sin_B1TD: Tensor
    mask: Tensor | None
    num_slots: int

    def rotate(self, x_BXTD: Tensor) -> Tensor:
        return turn(x_BXTD, self.cos_B1TD, self.sin_B1TD)

    def store(self, cache: KVCache, k_BGTD: Tensor, v_BGTD: Tensor) -> tuple[Tensor, Tensor]:
        cache.scatter(k_BGTD, v_BGTD, self.slots_BT)
        return cache.k_BGPD[:, :, : self.num_slots], cache.v_BGPD[:, :, : self.num_slots]


def own_window(starts_B: Tensor, num_rows: int, num_slots: int, rope: Rope) -> OwnWindow:
    """Rows t = 0..T-1 of sequence b at slot starts_B[b] + t.

    A sequence that has no room left is held at the last slot: it writes over its end and is not continued.
    """
    last_slot = rope.cos_PD.shape[0] - 1
    offsets_T = torch.arange(num_rows, device=starts_B.device)
    slots_BT = (starts_B[:, None] + offsets_T).clamp(max=last_slot)
    seen_S = torch.arange(num_slots, device=starts_B.device)
    return OwnWindow(
        slots_BT=slots_BT,
        cos_B1TD=rope.cos_PD[slots_BT].unsqueeze(1),
        sin_B1TD=rope.sin_PD[slots_BT].unsqueeze(1),
        mask=(seen_S <= slots_BT.unsqueeze(-1)).unsqueeze(1),
        num_slots=num_slots,
    )


AnyWindow = Window | OwnWindow


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

    def new_cache(
        self, num_slots: int, *, dtype: torch.dtype, device: torch.device, batch: int = 1
    ) -> KVCache:
        shape = (batch, self.num_kv_heads, num_slots, self.head_dim)
        return KVCache(
            k_BGPD=torch.zeros(shape, dtype=dtype, device=device),
            v_BGPD=torch.zeros(shape, dtype=dtype, device=device),
        )

    def project(self, x_BTW: Tensor, window: AnyWindow) -> tuple[Tensor, Tensor, Tensor]:
        """q_BNTD, k_BGTD (both turned to their positions) and v_BGTD."""
        qkv_BTXD = self.qkv_proj(x_BTW).unflatten(-1, (-1, self.head_dim))
        qk_BXTD, v_BGTD = qkv_BTXD.transpose(1, 2).split(
            (self.num_heads + self.num_kv_heads, self.num_kv_heads), dim=1
        )
        if self.q_norm is not None and self.k_norm is not None:
            q_BNTD, k_BGTD = qk_BXTD.split((self.num_heads, self.num_kv_heads), dim=1)
            qk_BXTD = torch.cat((self.q_norm(q_BNTD), self.k_norm(k_BGTD)), dim=1)
        qk_BXTD = window.rotate(qk_BXTD)
        q_BNTD, k_BGTD = qk_BXTD.split((self.num_heads, self.num_kv_heads), dim=1)
        return q_BNTD, k_BGTD, v_BGTD

    def output(self, o_BNTD: Tensor) -> Tensor:
        return self.group.all_reduce(self.o_proj(o_BNTD.transpose(1, 2).flatten(2)))

    def forward(self, x_BTW: Tensor, window: AnyWindow, cache: KVCache | None) -> Tensor:
        """Without a cache the rows see each other only."""
        q_BNTD, k_BGSD, v_BGSD = self.project(x_BTW, window)
        if cache is not None:
            k_BGSD, v_BGSD = window.store(cache, k_BGSD, v_BGSD)
        o_BNTD = scaled_dot_product_attention(q_BNTD, k_BGSD, v_BGSD, attn_mask=window.mask, enable_gqa=True)
        return self.output(o_BNTD)
