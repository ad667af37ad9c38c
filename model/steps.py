"""The steps of decoding as functions of what lies on the device: one plain token, or draft, verify and accept.

Each changes the sequences and caches in place and returns nothing: it runs as it stands, or captured in a CUDA
graph. Must not read anything back, and must not know when it is called (entry.Session).

Legend: B batch, T rows of a verify pass, K drafted tokens, C taps side by side, H hidden, V vocabulary.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from model.attention import KVCache, Window, own_window
from model.choices import Choices
from model.decoder import Decoder
from model.eagle3 import Draft
from model.layers import Rope, causal_mask
from model.marks import Marks
from model.pathologies import Pathologies
from model.sequences import Sequences

# tokens_BT, first slot of each sequence, slots to attend to, where taps_BTC go -> logits_BTV
TargetForward = Callable[[Tensor, Tensor, int, Tensor | None], Tensor]
# tokens_BT, h_BTH, first slot of each sequence, slots to attend to, the row that is read (None: there is one)
# -> feature_BH, logits_BD
DraftForward = Callable[[Tensor, Tensor, Tensor, int, Tensor | None], tuple[Tensor, Tensor]]


@dataclass(frozen=True, kw_only=True)
class Drafter:
    """The draft with what it needs around it: the target's embedding table, its KV cache, positions.

    `fuse` (taps_BTC -> h_BTH) and `forward` run over plain modules or over kernels.
    """

    draft: Draft
    embed_tokens: nn.Embedding
    cache: KVCache
    rope: Rope
    fuse: Callable[[Tensor], Tensor]
    forward: DraftForward

    def take_in(self, index: int, next_tokens_1T: Tensor, taps_1TC: Tensor) -> None:
        """The first rows of a prompt, of sequence `index`, with target features."""
        num_rows = next_tokens_1T.shape[1]
        window = Window(start=0, rope=self.rope, mask=causal_mask(num_rows, 0, next_tokens_1T.device))
        embedded_1TH = self.embed_tokens(next_tokens_1T)
        self.draft(embedded_1TH, self.draft.fuse(taps_1TC), window, self.cache.of(index))


@dataclass(frozen=True, kw_only=True)
class Steps:
    """`target` is the forward pass over plain modules or over kernels. `max_len`: slots of every cache."""

    sequences: Sequences
    choices: Choices
    target: TargetForward
    drafter: Drafter | None
    max_len: int
    marks: Marks
    pathologies: Pathologies

    def decode(self, num_slots: int) -> None:
        s = self.sequences
        self.marks.stamp("begin")
        logits_B1V = self.target(s.newest_B[:, None], s.length_B, num_slots, None)
        self.choices.append(logits_B1V[:, 0], self.max_len)
        self.marks.stamp("decode_s")

    def draft(self, num_slots: int) -> None:
        s, drafter = self.sequences, self.drafter
        self.marks.stamp("begin")
        feature_BH, logits_BD = self.extend(num_slots)
        self.choices.draft(logits_BD, 0)
        self.marks.stamp("draft_extend_s")
        for step in range(1, s.drafted_BK.shape[1]):  # no forward after the last token
            newest_B1 = s.drafted_BK[:, step - 1 : step]
            slot_B = s.draft_slot_KB[step]
            feature_BH, logits_BD = drafter.forward(newest_B1, feature_BH[:, None], slot_B, num_slots, None)
            self.choices.draft(logits_BD, step)
        self.marks.stamp("draft_steps_s")

    def extend(self, num_slots: int) -> tuple[Tensor, Tensor]:
        """feature_BH and logits_BD of the last accepted row, after all verified rows went in with target features.

        Rows behind the accepted one go in as well: always T of them, so that the shape is fixed.
        """
        s, drafter = self.sequences, self.drafter
        if self.pathologies.no_draft_extension:
            row_B11 = s.read_row_B[:, None, None]
            taps_B1C = s.taps_BTC.gather(1, row_B11.expand(-1, 1, s.taps_BTC.shape[-1]))
            next_B1 = s.next_tokens_BT.gather(1, s.read_row_B[:, None])
            return drafter.forward(next_B1, drafter.fuse(taps_B1C), s.draft_slot_KB[0], num_slots, None)
        h_BTH = drafter.fuse(s.taps_BTC)
        return drafter.forward(s.next_tokens_BT, h_BTH, s.ext_start_B, num_slots, s.read_row_B)

    def verify(self, num_slots: int) -> None:
        s = self.sequences
        self.marks.stamp("begin")
        logits_BTV = self.target(s.asked_BT, s.length_B, num_slots, s.taps_BTC)
        self.choices.verify(logits_BTV)
        self.marks.stamp("verify_s")

    def accept(self, num_slots: int) -> None:
        self.marks.stamp("begin")
        self.choices.accept(self.max_len)
        self.marks.stamp("accept_s")

    def cycle(self, num_slots: int) -> None:
        self.draft(num_slots)
        self.verify(num_slots)
        self.accept(num_slots)


def plain_forward(decoder: Decoder, caches: Sequence[KVCache], rope: Rope) -> TargetForward:
    """The target's forward pass over its modules, in PyTorch alone."""

    def forward(tokens_BT: Tensor, starts_B: Tensor, num_slots: int, taps_BTC: Tensor | None) -> Tensor:
        window = own_window(starts_B, tokens_BT.shape[1], num_slots, rope)
        taps: list[Tensor] | None = None if taps_BTC is None else []
        x_BTH = decoder(tokens_BT, window, caches, taps)
        if taps_BTC is not None and taps is not None:
            taps_BTC.copy_(torch.cat(taps, dim=-1))
        return decoder.logits(x_BTH)

    return forward


def plain_draft(draft: Draft, embed_tokens: nn.Embedding, cache: KVCache, rope: Rope) -> DraftForward:
    """The draft's forward pass over its modules, in PyTorch alone."""

    def forward(
        tokens_BT: Tensor, h_BTH: Tensor, starts_B: Tensor, num_slots: int, row_B: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        window = own_window(starts_B, tokens_BT.shape[1], num_slots, rope)
        feature_BTH = draft(embed_tokens(tokens_BT), h_BTH, window, cache)
        if row_B is not None:
            feature_BTH = feature_BTH.gather(1, row_B[:, None, None].expand(-1, 1, feature_BTH.shape[-1]))
        return feature_BTH[:, 0], draft.logits(feature_BTH)[:, 0]

    return forward
