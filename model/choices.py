"""How a next token is chosen, and how many drafted ones a cycle keeps: greedily, by sampling, or as many as wanted.

Works on what lies on the device and reads nothing back, so that it can stand inside a graph. All ranks see the same
logits and throw the same coins, hence decide alike. Must not run a network.

Legend: B batch, T rows of a verify pass, K drafted tokens, V the target's vocabulary, D the draft's.
"""

# ruff: noqa: N815 - fields carry shape suffixes too

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from model.hashing import key_of
from model.kernels.ops import Ops
from model.sampling import accept_sampled, check_rates, coins, probabilities, sample
from model.sequences import Sequences


@dataclass(frozen=True, kw_only=True)
class Choices:
    """`temperature` 0: the likeliest token. `rates_K`: acceptance by coin, whatever the logits say.

    `sequences.clock` numbers the coins; steps count it on. The distributions of the drafted tokens and of the
    verified rows are kept only where they decide.
    """

    sequences: Sequences
    ops: Ops
    temperature: float
    seed: int
    rates_K: Tensor | None
    q_BKV: Tensor | None
    p_BTV: Tensor | None
    drafted_ids_D: Tensor | None

    def first(self, logits_V: Tensor, index: int) -> Tensor:
        """The token after a prompt, of sequence `index`. Its coin is another than that of the step that follows."""
        if not self.temperature:
            return logits_V.argmax(-1)
        return sample(probabilities(logits_V, self.temperature), self._coins("first", 1)[index, 0])

    def append(self, logits_BV: Tensor, max_len: int) -> None:
        """Ends a plain step: sequences.append with the token after one row a sequence."""
        if self.temperature:
            token_B = sample(probabilities(logits_BV, self.temperature), self._coins("next", 1)[:, 0])
        else:
            token_B = self.ops.best(logits_BV)
        self.ops.append(self.sequences, token_B, max_len)

    def draft(self, logits_BD: Tensor, place: int) -> None:
        """Sets the drafted token number `place` of this cycle, an id of the target's vocabulary."""
        out_B = self.sequences.drafted_BK[:, place]
        if self.q_BKV is None:
            self.ops.best(logits_BD, self.drafted_ids_D, out_B)
            return
        q_BD = probabilities(logits_BD, self.temperature)
        q_BV = self.q_BKV[:, place]
        if self.drafted_ids_D is None:
            q_BV.copy_(q_BD)
        else:
            q_BV.zero_().index_copy_(-1, self.drafted_ids_D, q_BD)
        ids_B = sample(q_BD, self._coins("draft", self.q_BKV.shape[1])[:, place])
        out_B.copy_(ids_B if self.drafted_ids_D is None else self.drafted_ids_D[ids_B])

    def verify(self, logits_BTV: Tensor) -> None:
        """Keeps what `accept` decides by."""
        if self.p_BTV is None:
            self.ops.best(logits_BTV.flatten(0, 1), None, self.sequences.verified_BT.view(-1))
        else:
            self.p_BTV.copy_(probabilities(logits_BTV, self.temperature))

    def accept(self, max_len: int) -> None:
        """Ends the cycle: sequences.accept with as many drafted tokens as the logits, or coins, say."""
        s = self.sequences
        if self.p_BTV is None or self.q_BKV is None:
            self.ops.accept(s, max_len, rates_K=self.rates_K)
            return
        u_BT = self._coins("accept", s.num_rows)
        accepted_B, last_B = accept_sampled(s.drafted_BK, self.q_BKV, self.p_BTV, u_BT[:, :-1], u_BT[:, -1])
        s.verified_BT.scatter_(1, accepted_B[:, None], last_B[:, None])
        self.ops.accept(s, max_len, agreed_B=accepted_B)

    def _coins(self, purpose: str, num_coins: int) -> Tensor:
        s = self.sequences
        return coins(s.clock, len(s.length_B), num_coins, key_of(self.seed, purpose))


def num_kept(batch: int, num_draft_tokens: int, temperature: float, *, has_draft: bool) -> int:
    """Distributions (fp32, over the vocabulary) that lie on the device: of drafted tokens and of verified rows."""
    return batch * (2 * num_draft_tokens + 1) if temperature > 0 and has_draft else 0


def new_choices(
    sequences: Sequences,
    ops: Ops,
    *,
    temperature: float,
    seed: int,
    accept_rates: Sequence[float],
    vocab_size: int,
    drafted_ids_D: Tensor | None,
    has_draft: bool,
) -> Choices:
    """`drafted_ids_D`: ids of the target's vocabulary that the draft knows, None for all of them.

    Raises ValueError on rates that cannot be, or a temperature together with rates.
    """
    batch, num_draft_tokens = sequences.drafted_BK.shape
    device = sequences.drafted_BK.device
    if accept_rates:
        check_rates(list(accept_rates), num_draft_tokens)
        if temperature:
            raise ValueError(f"temperature {temperature} and accept_rates exclude each other")

    is_needed = num_kept(batch, num_draft_tokens, temperature, has_draft=has_draft) > 0

    def distributions(num_rows: int) -> Tensor | None:
        return torch.zeros(batch, num_rows, vocab_size, device=device) if is_needed else None

    return Choices(
        sequences=sequences,
        ops=ops,
        temperature=temperature,
        seed=seed,
        rates_K=torch.tensor(accept_rates, dtype=torch.float64, device=device) if accept_rates else None,
        q_BKV=distributions(num_draft_tokens),
        p_BTV=distributions(num_draft_tokens + 1),
        drafted_ids_D=drafted_ids_D,
    )
