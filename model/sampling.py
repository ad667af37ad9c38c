"""How many drafted tokens a cycle emits, and which token follows them: exact rejection sampling for a temperature,
or a wanted accept length.

Pure functions of tensors; the coins (uniforms in [0, 1)) are handed in, so all of it can stand inside a graph and
every rank decides alike. Nothing waits for the device.

Legend: B sequences, K drafted tokens, J = K + 1 rows of a verify pass, V the target's vocabulary, X any.
"""

import torch
from torch import Tensor

from model.hashing import uniforms

GOLDEN = 0.6180339887498949  # multiples of the golden ratio fill [0, 1) most evenly
PLASTIC = 0.7548776662466927  # those of the plastic ratio, where each prefill begins
PREFILL = 1_000_003  # a clock counts steps since a prefill, on top of so many for each prefill before


def probabilities(logits_XV: Tensor, temperature: float) -> Tensor:
    """softmax(logits / temperature) in fp32 at least. `temperature` > 0."""
    wide_XV = logits_XV.to(torch.promote_types(logits_XV.dtype, torch.float32))
    return (wide_XV / temperature).softmax(-1)


def sample(weights_XV: Tensor, u_X: Tensor) -> Tensor:
    """The id at which the cumulated weights pass u times their sum. Weights need not sum to one.

    Cumulated in fp64: with 150,000 tokens fp32 would lose the rare ones. A weight of zero is never chosen.
    """
    passed_XV = weights_XV.double().cumsum(-1)
    return torch.searchsorted(passed_XV, (u_X.double() * passed_XV[..., -1]).unsqueeze(-1), right=True).squeeze(-1)


def accept_sampled(
    drafted_BK: Tensor, q_BKV: Tensor, p_BJV: Tensor, u_BK: Tensor, u_last_B: Tensor
) -> tuple[Tensor, Tensor]:
    """(accepted_B, last_B): so many leading drafted tokens are emitted, then `last`. Together they are distributed
    as if the target had been sampled alone. Leviathan et al. 2023, algorithm 1.

    `q_BKV`: the distributions that the drafted tokens were sampled from; `p_BJV`: the target's. A drafted token x is
    accepted with probability min(1, p(x)/q(x)); after the first refusal the token is drawn from max(0, p - q)
    renormalised, after none from the target's last row.
    """
    p_drafted_BK = p_BJV[:, :-1].gather(-1, drafted_BK.unsqueeze(-1)).squeeze(-1)
    q_drafted_BK = q_BKV.gather(-1, drafted_BK.unsqueeze(-1)).squeeze(-1)
    accepted_B = _leading(u_BK * q_drafted_BK < p_drafted_BK)
    nothing_B1V = torch.zeros_like(q_BKV[:, :1])
    p_BV, q_BV = (_at(x_BJV, accepted_B) for x_BJV in (p_BJV, torch.cat((q_BKV, nothing_B1V), dim=1)))
    rest_BV = (p_BV - q_BV).clamp_min(0)
    # p equal to q refuses nothing but for rounding; then nothing is left over and p itself is right.
    rest_BV = torch.where(rest_BV.sum(-1, keepdim=True) > 0, rest_BV, p_BV)
    return accepted_B, sample(rest_BV, u_last_B)


def accept_synthetic(rates_K: Tensor, u_B: Tensor) -> Tensor:
    """accepted_B, as the coin says and whatever the logits are: for timing weights that agree on nothing.

    `rates_K`: how often the first, second, ... drafted token is wanted accepted, over all cycles, not ascending.
    """
    return (u_B.unsqueeze(-1) < rates_K).sum(-1)


def coins(clock: Tensor, num_sequences: int, num_coins: int, key: int) -> Tensor:
    """u_BX in [0, 1) for one step or cycle; `clock`: int64 on the device, counted on by whoever calls."""
    place_BX = torch.arange(num_sequences * num_coins, device=clock.device).view(num_sequences, num_coins)
    return uniforms((clock * (num_sequences * num_coins) + place_BX) & 0xFFFFFFFF, key)


def even_coins(clock: Tensor, num_sequences: int) -> Tensor:
    """u_B for accept_synthetic, spread so evenly that n coins meet a rate to about 3 in n, not 1 in sqrt(n)."""
    number_B = clock % PREFILL * num_sequences + torch.arange(num_sequences, device=clock.device)
    return (number_B.double() * GOLDEN + (clock // PREFILL).double() * PLASTIC).frac()


def check_rates(rates: list[float], num_draft_tokens: int) -> None:
    """Raises ValueError: one rate for each drafted token, each within 0..1 and none above the one before."""
    if len(rates) != num_draft_tokens:
        raise ValueError(f"{len(rates)} accept rates for {num_draft_tokens} drafted tokens")
    if not all(0 <= rate <= 1 for rate in rates) or sorted(rates, reverse=True) != list(rates):
        raise ValueError(f"accept rates {rates}: within 0..1, and none above the one before it")


def _leading(is_accepted_BK: Tensor) -> Tensor:
    """How many before the first refusal."""
    return is_accepted_BK.cumprod(-1).sum(-1)


def _at(x_BJX: Tensor, row_B: Tensor) -> Tensor:
    """Of each sequence the row it stopped at."""
    return x_BJX[torch.arange(len(row_B), device=row_B.device), row_B]
