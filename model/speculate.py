"""One cycle of speculation with a chain of K drafted tokens: drafting and greedy acceptance.

The target's own forward passes belong to `entry.Session`. Let P be the number of tokens in the target's KV
cache and x_P the newest token, not yet in it. A cycle is
  draft    slots up to P-1 are extended with TARGET features, the last accepted row gives d_1; then K-1 steps
           at slots P, P+1, ... each on the draft's own feature
  verify   the target takes [x_P, d_1 .. d_K] at slots P..P+K: always K+1 rows, whatever will be accepted
  accept   a = number of leading d_j equal to the target's choice; emits d_1..d_a and the target's bonus
After that P grows by a+1. Rows beyond the accepted one are rewritten before anything attends to them.

Legend: T rows, C taps side by side, H hidden, V vocabulary; leading 1: one sequence.
"""

# ruff: noqa: N815 - fields carry shape suffixes too

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from model.attention import KVCache, Window
from model.eagle3 import Draft
from model.layers import Rope, causal_mask


@dataclass(frozen=True, kw_only=True)
class Extension:
    """Target features the draft has yet to take in.

    Row t is slot `start` + t: taps of that slot, and the token that follows it. `read_row` is the last row
    that was accepted; it is the one that predicts d_1.
    """

    start: int
    taps_1TC: Tensor
    next_tokens_1T: Tensor
    read_row: int


@dataclass(frozen=True, kw_only=True)
class Drafter:
    """The draft with what it needs around it: the target's embedding table, one KV cache, positions."""

    draft: Draft
    embed_tokens: nn.Embedding
    cache: KVCache
    rope: Rope

    def extend(self, extension: Extension) -> Tensor:
        """Feature of `read_row` after all rows went in. Overwrites the slots that drafting had guessed."""
        h_1TH = self.draft.fuse(extension.taps_1TC)
        feature_1TH = self._forward(extension.next_tokens_1T, h_1TH, extension.start)
        row = extension.read_row
        return feature_1TH[:, row : row + 1]

    def propose(self, feature_11H: Tensor, slot: int, num_tokens: int) -> Tensor:
        """K drafted tokens from the last accepted feature; its slot is `slot`. No forward after the last."""
        tokens_11 = [self.draft.choose(feature_11H)]
        for step in range(1, num_tokens):
            feature_11H = self._forward(tokens_11[-1], feature_11H, slot + step)
            tokens_11.append(self.draft.choose(feature_11H))
        return torch.cat(tokens_11, dim=1)[0]

    def _forward(self, tokens_1T: Tensor, h_1TH: Tensor, start: int) -> Tensor:
        mask_TS = causal_mask(tokens_1T.shape[1], start, tokens_1T.device)
        window = Window(start=start, rope=self.rope, mask_TS=mask_TS)
        return self.draft(self.embed_tokens(tokens_1T), h_1TH, window, self.cache)


def accept_greedy(drafted: Sequence[int], verified: Sequence[int]) -> list[int]:
    """The tokens a cycle emits: drafted tokens up to the first the target disagrees with, then the target's.

    `verified[j]` is the target's choice after j drafted tokens, so an accepted d_(j+1) IS verified[j], and
    what is emitted is a prefix of `verified`. Raises ValueError if the lengths are not K and K+1.
    """
    if len(verified) != len(drafted) + 1:
        raise ValueError(f"{len(drafted)} drafted tokens need {len(drafted) + 1} verified, not {len(verified)}")
    agreed = 0
    while agreed < len(drafted) and drafted[agreed] == verified[agreed]:
        agreed += 1
    return list(verified[: agreed + 1])
