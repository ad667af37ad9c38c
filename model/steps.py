"""The steps of decoding as functions of what lies on the device: one plain token, or draft, verify and accept.

Each changes the sequences and caches in place and returns nothing: it runs as it stands, or captured in a CUDA
graph. Must not read anything back, and must not know when it is called (entry.Session).

Legend: B batch, T rows of a verify pass, K drafted tokens, C taps side by side, H hidden, V vocabulary.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from model import sequences as of
from model.attention import AnyWindow, KVCache, Window, own_window
from model.choices import Choices
from model.decoder import Decoder
from model.eagle3 import Draft
from model.layers import Rope, causal_mask
from model.marks import Marks
from model.pathologies import Pathologies
from model.sequences import Sequences

# tokens_BT, first slot of each sequence, slots to attend to, list for taps -> logits_BTV
TargetForward = Callable[[Tensor, Tensor, int, list[Tensor] | None], Tensor]
# first slot of each sequence, rows of each, slots to attend to, positions
MakeWindow = Callable[[Tensor, int, int, Rope], AnyWindow]


@dataclass(frozen=True, kw_only=True)
class Drafter:
    """The draft with what it needs around it: the target's embedding table, its KV cache, positions."""

    draft: Draft
    embed_tokens: nn.Embedding
    cache: KVCache
    rope: Rope
    window: MakeWindow = own_window

    def forward(self, tokens_BT: Tensor, h_BTH: Tensor, starts_B: Tensor, num_slots: int) -> Tensor:
        """Features of T rows a sequence, at slots from starts_B."""
        window = self.window(starts_B, tokens_BT.shape[1], num_slots, self.rope)
        return self.draft(self.embed_tokens(tokens_BT), h_BTH, window, self.cache)

    def take_in(self, index: int, next_tokens_1T: Tensor, taps_1TC: Tensor) -> None:
        """The first rows of a prompt, of sequence `index`, with target features."""
        num_rows = next_tokens_1T.shape[1]
        window = Window(start=0, rope=self.rope, mask=causal_mask(num_rows, 0, next_tokens_1T.device))
        embedded_1TH = self.embed_tokens(next_tokens_1T)
        self.draft(embedded_1TH, self.draft.fuse(taps_1TC), window, self.cache.of(index))

    def choose(self, feature_B1H: Tensor, place: int, choices: Choices) -> Tensor:
        """choice_B1: drafted token number `place` of the cycle, an id of the target's vocabulary."""
        return self.draft.to_target(choices.draft(self.draft.logits(feature_B1H)[:, 0], place))[:, None]


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
        of.append(s, self.choices.next(logits_B1V[:, 0]), self.max_len)
        self.marks.stamp("decode_s")

    def draft(self, num_slots: int) -> None:
        s, drafter = self.sequences, self.drafter
        self.marks.stamp("begin")
        feature_B1H = self.extend(num_slots)
        token_B1 = drafter.choose(feature_B1H, 0, self.choices)
        s.drafted_BK[:, :1] = token_B1
        self.marks.stamp("draft_extend_s")
        slot_B = s.ext_start_B + s.read_row_B
        for step in range(1, s.drafted_BK.shape[1]):  # no forward after the last token
            feature_B1H = drafter.forward(token_B1, feature_B1H, slot_B + step, num_slots)
            token_B1 = drafter.choose(feature_B1H, step, self.choices)
            s.drafted_BK[:, step : step + 1] = token_B1
        self.marks.stamp("draft_steps_s")

    def extend(self, num_slots: int) -> Tensor:
        """feature_B1H of the last accepted row, after all verified rows went in with target features.

        Rows behind the accepted one go in as well: always T of them, so that the shape is fixed.
        """
        s, drafter = self.sequences, self.drafter
        if self.pathologies.no_draft_extension:
            row_B11 = s.read_row_B[:, None, None]
            taps_B1C = s.taps_BTC.gather(1, row_B11.expand(-1, 1, s.taps_BTC.shape[-1]))
            next_B1 = s.next_tokens_BT.gather(1, s.read_row_B[:, None])
            starts_B = s.ext_start_B + s.read_row_B
            return drafter.forward(next_B1, drafter.draft.fuse(taps_B1C), starts_B, num_slots)
        h_BTH = drafter.draft.fuse(s.taps_BTC)
        feature_BTH = drafter.forward(s.next_tokens_BT, h_BTH, s.ext_start_B, num_slots)
        row_B1H = s.read_row_B[:, None, None].expand(-1, 1, feature_BTH.shape[-1])
        return feature_BTH.gather(1, row_B1H)

    def verify(self, num_slots: int) -> None:
        s = self.sequences
        self.marks.stamp("begin")
        tokens_BT = torch.cat((s.newest_B[:, None], s.drafted_BK), dim=1)
        taps: list[Tensor] = []
        logits_BTV = self.target(tokens_BT, s.length_B, num_slots, taps)
        self.choices.verify(logits_BTV)
        s.taps_BTC.copy_(torch.cat(taps, dim=-1))
        self.marks.stamp("verify_s")

    def accept(self, num_slots: int) -> None:
        s = self.sequences
        self.marks.stamp("begin")
        of.accept(s, self.choices.accept(), self.max_len)
        self.marks.stamp("accept_s")


def plain_forward(decoder: Decoder, caches: Sequence[KVCache], rope: Rope) -> TargetForward:
    """The target's forward pass over its modules, in PyTorch alone."""

    def forward(tokens_BT: Tensor, starts_B: Tensor, num_slots: int, taps: list[Tensor] | None) -> Tensor:
        window = own_window(starts_B, tokens_BT.shape[1], num_slots, rope)
        return decoder.logits(decoder(tokens_BT, window, caches, taps))

    return forward
