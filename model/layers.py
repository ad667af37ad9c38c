"""Rotary positions, the causal mask and the gated MLP. Stateless but for weights; no parallelism in here.

Legend: B batch, T rows of this forward, S slots attended to, P positions in the table, X any heads,
D head width, H hidden, I inner width.
"""

# ruff: noqa: N815 - fields carry shape suffixes too

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import silu


@dataclass(frozen=True, kw_only=True)
class Rope:
    """cos and sin of position x frequency, for every position and channel of a head.

    `sin_PD` has its first half negated, so that a rotation is x * cos + (x with its halves swapped) * sin:
    channel i is paired with channel i + D/2, as in Llama.
    """

    cos_PD: Tensor
    sin_PD: Tensor

    def rotate(self, x_BXTD: Tensor, start: int) -> Tensor:
        """Turns row t of every head to position `start` + t."""
        rows = slice(start, start + x_BXTD.shape[2])
        return turn(x_BXTD, self.cos_PD[rows], self.sin_PD[rows])


def turn(x_BXTD: Tensor, cos_TD: Tensor, sin_TD: Tensor) -> Tensor:
    """x * cos + swapped x * sin; the tables may have leading dimensions that broadcast against B and X."""
    swapped_BXTD = x_BXTD.roll(x_BXTD.shape[-1] // 2, dims=-1)
    return torch.addcmul(x_BXTD * cos_TD, swapped_BXTD, sin_TD)


def build_rope(
    *, num_positions: int, head_dim: int, theta: float, dtype: torch.dtype, device: torch.device
) -> Rope:
    """Table of Su et al. 2021 (RoFormer), computed in fp64 whatever `dtype` is."""
    frequency_d = theta ** -(torch.arange(0, head_dim, 2, dtype=torch.float64) / head_dim)
    angle_Pd = torch.outer(torch.arange(num_positions, dtype=torch.float64), frequency_d)
    cos_PD = torch.cat((angle_Pd.cos(), angle_Pd.cos()), dim=-1)
    sin_PD = torch.cat((-angle_Pd.sin(), angle_Pd.sin()), dim=-1)
    return Rope(cos_PD=cos_PD.to(device, dtype), sin_PD=sin_PD.to(device, dtype))


def causal_mask(num_rows: int, start: int, device: torch.device) -> Tensor | None:
    """mask_TS: row t sees slots 0..start+t. None for one row, which sees everything before it."""
    if num_rows == 1:
        return None
    return torch.ones(num_rows, start + num_rows, dtype=torch.bool, device=device).tril(start)


class SwiGLU(nn.Module):
    """down(silu(gate(x)) * up(x)), gate and up in one matrix (Shazeer 2020)."""

    def __init__(self, hidden_size: int, inner_size: int) -> None:
        super().__init__()
        self.gate_up_proj = nn.Linear(hidden_size, 2 * inner_size, bias=False)
        self.down_proj = nn.Linear(inner_size, hidden_size, bias=False)

    def forward(self, x_BTH: Tensor) -> Tensor:
        gate_BTI, up_BTI = self.gate_up_proj(x_BTH).chunk(2, dim=-1)
        return self.down_proj(silu(gate_BTI) * up_BTI)
