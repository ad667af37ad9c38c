"""What one batch of sequences is at any moment, as tensors on the device; and what a cycle does to it.

Everything is changed in place and nothing is read back, so that a step can be a CUDA graph and the host may
learn of it later. Must not run a network.

With K drafted tokens a verify pass has T = K + 1 rows. Let P be a sequence's length (tokens in the target's KV
cache) and x_P its newest token, not yet in it:
  draft    extends the draft's cache by the T rows verified last (slots from `ext_start`), of which row `read_row`
           is the last accepted one and predicts d_1; then K - 1 steps of its own give d_2 .. d_K
  verify   the target takes [x_P, d_1 .. d_K] at slots P..P+K, whatever will be accepted
  accept   a drafted tokens are accepted; d_1..d_a and the target's next choice are emitted; P grows by a + 1
Rows beyond the accepted one are rewritten before anything attends to them.

Legend: B batch, T rows, K drafted tokens, C taps side by side, X = T + 1.
"""

# ruff: noqa: N815 - fields carry shape suffixes too

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class Sequences:
    """Token ids and slots are int64. `asked_BT`: what a verify pass takes in, the newest token and the drafted ones.

    `draft_slot_KB`: slots of the rows that draft, the last accepted one and those of the draft's own steps.
    `outcome_BX`: the tokens that a step emitted, and in the last column how many.
    `clock` numbers the coins of sampling: steps or cycles since the prefill, which sets where it begins.
    """

    length_B: Tensor
    asked_BT: Tensor
    verified_BT: Tensor
    taps_BTC: Tensor
    next_tokens_BT: Tensor
    ext_start_B: Tensor
    read_row_B: Tensor
    draft_slot_KB: Tensor
    outcome_BX: Tensor
    clock: Tensor

    @property
    def newest_B(self) -> Tensor:
        return self.asked_BT[:, 0]

    @property
    def drafted_BK(self) -> Tensor:
        return self.asked_BT[:, 1:]

    @property
    def num_drafted(self) -> int:
        return len(self.draft_slot_KB)

    @property
    def num_rows(self) -> int:
        return self.verified_BT.shape[1]


def new_sequences(
    *, batch: int, num_draft_tokens: int, taps_size: int, dtype: torch.dtype, device: torch.device
) -> Sequences:
    def ids(*shape: int) -> Tensor:
        return torch.zeros(shape, dtype=torch.int64, device=device)

    num_rows = num_draft_tokens + 1
    return Sequences(
        length_B=ids(batch),
        asked_BT=ids(batch, num_rows),
        verified_BT=ids(batch, num_rows),
        taps_BTC=torch.zeros(batch, num_rows, taps_size, dtype=dtype, device=device),
        next_tokens_BT=ids(batch, num_rows),
        ext_start_B=ids(batch),
        read_row_B=ids(batch),
        draft_slot_KB=ids(num_draft_tokens, batch),
        outcome_BX=ids(batch, num_rows + 1),
        clock=ids(),
    )


def begin(sequences: Sequences, index: int, tokens_1T: Tensor, taps_1TC: Tensor | None, newest: Tensor) -> None:
    """Sequence `index` is now the prompt `tokens_1T`, followed by `newest`.

    With taps, the draft has yet to take in the prompt's last rows, at most as many as one verify pass has.
    """
    length = tokens_1T.shape[1]
    sequences.length_B[index] = length
    sequences.newest_B[index] = newest
    if taps_1TC is None:
        return
    start = max(0, length - sequences.num_rows)
    rows = length - start
    following_T = torch.cat((tokens_1T[0, 1:], newest.view(1)))
    sequences.taps_BTC[index].zero_()
    sequences.taps_BTC[index, :rows] = taps_1TC[0, start:]
    sequences.next_tokens_BT[index].zero_()
    sequences.next_tokens_BT[index, :rows] = following_T[start:]
    sequences.ext_start_B[index] = start
    sequences.read_row_B[index] = rows - 1
    sequences.draft_slot_KB[:, index] = length - 1 + torch.arange(sequences.num_drafted, device=tokens_1T.device)


def append(sequences: Sequences, choice_B: Tensor, max_len: int) -> None:
    """One plain step has taken the newest token in and chose `choice_B`. A full sequence stays as it is."""
    sequences.clock.add_(1)
    has_room_B = sequences.length_B < max_len
    sequences.outcome_BX[:, 0] = choice_B
    sequences.outcome_BX[:, -1] = has_room_B
    sequences.newest_B.copy_(torch.where(has_room_B, choice_B, sequences.newest_B))
    sequences.length_B.add_(has_room_B)


def num_agreed(drafted_BK: Tensor, verified_BT: Tensor) -> Tensor:
    """agreed_B: leading drafted tokens that are the target's choices. verified_BT[:, j] follows j drafted tokens."""
    return (drafted_BK == verified_BT[:, :-1]).long().cumprod(1).sum(1)


def accept(sequences: Sequences, agreed_B: Tensor, max_len: int) -> None:
    """Emits the first `agreed_B` drafted tokens and the target's next; a sequence without room stays as it is."""
    s = sequences
    s.clock.add_(1)
    places_T = torch.arange(s.num_rows, device=agreed_B.device)
    drafted_BT = torch.cat((s.drafted_BK, s.drafted_BK[:, -1:]), dim=1)
    emitted_BT = torch.where(places_T < agreed_B[:, None], drafted_BT, s.verified_BT)
    has_room_B = s.length_B + s.num_rows <= max_len
    count_B = torch.where(has_room_B, agreed_B + 1, 0)
    s.outcome_BX[:, :-1] = emitted_BT
    s.outcome_BX[:, -1] = count_B
    s.next_tokens_BT.copy_(emitted_BT)
    s.ext_start_B.copy_(torch.where(has_room_B, s.length_B, s.ext_start_B))
    s.read_row_B.copy_(torch.where(has_room_B, agreed_B, s.read_row_B))
    slot_KB = s.length_B + agreed_B + torch.arange(s.num_drafted, device=agreed_B.device)[:, None]
    s.draft_slot_KB.copy_(torch.where(has_room_B, slot_KB, s.draft_slot_KB))
    s.newest_B.copy_(torch.where(has_room_B, emitted_BT.gather(1, agreed_B[:, None])[:, 0], s.newest_B))
    s.length_B.add_(count_B)
