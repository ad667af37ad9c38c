"""Mixture of Experts: route each row to its best experts and add their outputs up.

All experts run over all rows, in two matrix products, and the routing weights of the others are zero. At a
few rows of small experts that beats gathering rows by expert (docs/model.md has the numbers); experts wide
enough to be bound by reading their weights need a kernel that skips the others.

Legend: B batch, T rows, H hidden, E experts, K experts a row, I inner width of an expert (this rank's share).
"""

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, silu

from model.layers import SwiGLU
from model.parallel import SINGLE, Group


def route(logits_BTE: Tensor, top_k: int) -> Tensor:
    """Weight of every expert for every row: softmax, the `top_k` largest renormalised, the others zero.

    The softmax over the k best logits alone is the same number. Half precision is routed in fp32.
    """
    wide_BTE = logits_BTE.to(torch.promote_types(logits_BTE.dtype, torch.float32))
    best_BTK, ids_BTK = wide_BTE.topk(top_k, dim=-1)
    weights_BTE = torch.zeros_like(wide_BTE).scatter(-1, ids_BTK, best_BTK.softmax(-1))
    return weights_BTE.to(logits_BTE.dtype)


class MoE(nn.Module):
    """Every rank holds a slice of every expert's inner width; the all-reduce adds the slices up.

    Experts are stored as gate_up_EXIH (X: gate, up) and down_HEI, so that each product is one `linear`.
    """

    def __init__(
        self,
        *,
        hidden_size: int,
        num_experts: int,
        top_k: int,
        expert_size: int,
        shared_size: int = 0,
        group: Group = SINGLE,
    ) -> None:
        super().__init__()
        inner_size = group.share(expert_size, "channels of an expert")
        self.top_k = top_k
        self.group = group
        self.copies_experts = False  # a pathology, see pathologies.py
        self.router = nn.Linear(hidden_size, num_experts, bias=False)
        self.gate_up_EXIH = nn.Parameter(torch.empty(num_experts, 2, inner_size, hidden_size))
        self.down_HEI = nn.Parameter(torch.empty(hidden_size, num_experts, inner_size))
        shared_size = group.share(shared_size, "channels of the shared expert")
        self.shared_expert = SwiGLU(hidden_size, shared_size) if shared_size else None

    def forward(self, x_BTH: Tensor) -> Tensor:
        weights_BTE = route(self.router(x_BTH), self.top_k)
        self.group.marks.distinct(weights_BTE)
        if self.copies_experts:
            self.copy_experts(weights_BTE)
        y_BTH = self.experts(x_BTH, weights_BTE)
        if self.shared_expert is not None:
            y_BTH = y_BTH + self.shared_expert(x_BTH)
        return self.group.all_reduce(y_BTH)

    def experts(self, x_BTH: Tensor, weights_BTE: Tensor) -> Tensor:
        num_experts, _, inner_size, _ = self.gate_up_EXIH.shape
        both_BTEXI = linear(x_BTH, self.gate_up_EXIH.flatten(0, 2)).unflatten(-1, (num_experts, 2, inner_size))
        gate_BTEI, up_BTEI = both_BTEXI.unbind(-2)
        inner_BTEI = silu(gate_BTEI) * up_BTEI * weights_BTE.unsqueeze(-1)
        return linear(inner_BTEI.flatten(-2), self.down_HEI.flatten(1))

    def copy_experts(self, weights_BTE: Tensor) -> None:
        """Reads and writes the weights of the first row's experts once more than is needed."""
        ids_K = weights_BTE.flatten(0, -2)[0].topk(self.top_k).indices
        self.gate_up_EXIH.index_select(0, ids_K)
        self.down_HEI.index_select(1, ids_K)
