"""What the fused steps are made of, in one of two implementations of equal meaning: PyTorch, or kernels.

The residual stream h_RH is kept wide (float32; float64 in float64) and every branch reads a twin of it beside:
x_RH = h * (weight of the norm that comes next), in the model's dtype. So a projection can be taken of x and divided
by the root mean square of h afterwards, and no norm stands in an inner loop:
    norm(h) @ W.T  =  (x @ W.T) / rms(h)

Whoever made h may know the sums of its squares by parts of a row, squares_RP; None: whoever needs them sums them up.

Legend: R rows (T of each of B sequences, sequence by sequence), H hidden, N outputs, E experts, K experts a row,
S distinct experts in use (at most min(E, R * K)), I inner width of an expert or MLP, D head width, V vocabulary,
W the draft's input (2 * H), P parts of a row, X any.
"""

# ruff: noqa: N815 - fields carry shape suffixes too

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from model.sequences import Sequences


@dataclass(frozen=True, kw_only=True)
class Routing:
    """weights_RE is zero where a row did not choose an expert. The first `count_1` of ids_S are in use.

    scale_R: 1 / rms(h), of which the experts need the same.
    """

    scale_R: Tensor
    weights_RE: Tensor
    ids_S: Tensor
    count_1: Tensor


@dataclass(frozen=True, kw_only=True)
class Heads:
    """Shapes of an attention, and the weights of its norms on q and k (None: it has none)."""

    num_heads: int
    num_kv_heads: int
    head_dim: int
    q_norm_D: Tensor | None
    k_norm_D: Tensor | None
    norm_eps: float


@dataclass(frozen=True, kw_only=True)
class Residual:
    """The stream that a branch is added to, in place, and the weight of the norm that reads it next.

    `tap_RH`: rows of a larger tensor, in the model's dtype, where the new stream is left as well (None: nowhere).
    """

    h_RH: Tensor
    gamma_H: Tensor
    tap_RH: Tensor | None = None


@dataclass(frozen=True, kw_only=True)
class DraftNorms:
    """Of the token's embedding and of the feature. `is_residual_normed`: the stream begins behind the second norm."""

    token_H: Tensor
    feature_H: Tensor
    eps: float
    is_residual_normed: bool


@dataclass(frozen=True, kw_only=True)
class Ops:
    """
    The target's layers:
    embed(tokens_R, table_VH, gamma_H) -> (x_RH, squares_RP, h_RH)  the stream where it begins, and its twin
    norm_linear(x_RH, h_RH, weight_NH, eps, dtype, squares_RP) -> y_RN  norm(h) @ weight.T; h None: x @ weight.T
    add_linear(x_RN, weight_HN, residual) -> (x_RH, squares_RP)  h += x @ weight.T; the twin of the new h
    attend(qkv_RX, cache, length_B, rope, heads) -> o_RX       norms q and k, turns them, stores k and v, attends
    route(x_RH, h_RH, weight_EH, eps, top_k, squares_RP) -> Routing  softmax, the best renormalised, the distinct ones
    gate_up(x_RH, gate_up_EXIH, routing) -> a_SRI              routing weight * silu(gate) * up, every row, each in use
    add_down(a_SRI, down_HEI, routing, residual) -> (x_RH, squares_RP)  h += the sum over experts; its twin
    down(a_SRI, down_HEI, routing) -> y_RH                     the same sum alone, for ranks that add theirs up first
    add(y_RH, residual) -> (x_RH, squares_RP)                  h += y; the twin of the new h
    gated_linear(x_RH, h_RH, weight_XH, eps, squares_RP) -> a_RI  silu(gate) * up, the halves of norm(h) @ weight.T

    The draft's:
    join(tokens_R, table_VH, feature_RH, norms, row_B) -> (x_RW, h_BH)  both normed side by side; the stream begins
    attend(…, row_B) -> o_BX
    row_B: of each sequence the one row that goes on (None: all of them do)

    The ends of steps:
    best(logits_RV, ids_D, out_R) -> out_R                     the likeliest; ids_D: its id elsewhere (both may be None)
    append(sequences, choice_B, max_len)                       sequences.append
    accept(sequences, max_len, rates_K=, agreed_B=)            sequences.accept: as many as coins say, or as agreed_B
                                                               says; with neither, as many as the target agrees with
    """

    embed: Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor | None, Tensor]]
    norm_linear: Callable[..., Tensor]
    add_linear: Callable[[Tensor, Tensor, Residual], tuple[Tensor, Tensor | None]]
    attend: Callable[..., Tensor]
    route: Callable[..., Routing]
    gate_up: Callable[..., Tensor]
    add_down: Callable[[Tensor, Tensor, Routing, Residual], tuple[Tensor, Tensor | None]]
    down: Callable[[Tensor, Tensor, Routing], Tensor]
    add: Callable[[Tensor, Residual], tuple[Tensor, Tensor | None]]
    gated_linear: Callable[..., Tensor]
    join: Callable[..., tuple[Tensor, Tensor]]
    best: Callable[..., Tensor]
    append: Callable[[Sequences, Tensor, int], None]
    accept: Callable[..., None]
