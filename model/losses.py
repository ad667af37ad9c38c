"""What training minimises: next-byte loss with balanced experts for the target, the unrolled loss for the draft.

Works on modules from outside: inference code carries nothing for training.

Legend: B batch, T tokens, R rows that are trained on, E experts, N query heads, G KV heads, D head width,
H hidden, C taps side by side, V vocabulary.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from model.attention import Attention, Window
from model.decoder import Decoder
from model.eagle3 import Draft
from model.layers import Rope, causal_mask

BALANCE_WEIGHT = 0.01  # as in Switch Transformers; without it a tiny model starves experts early
STEP_DECAY = 0.8  # weight of drafting step k is 0.8^k: eagle/traineagle3/main.py


def target_loss(decoder: Decoder, tokens_BT: Tensor, rope: Rope) -> tuple[Tensor, Tensor]:
    """Mean next-token cross-entropy in nats, and the load-balance loss (1 when balanced)."""
    num_rows = tokens_BT.shape[1] - 1
    window = Window(start=0, rope=rope, mask=causal_mask(num_rows, 0, tokens_BT.device))
    with router_logits(decoder) as routed:
        logits_BTV = decoder.logits(decoder(tokens_BT[:, :-1], window))
    loss = cross_entropy(logits_BTV.flatten(0, 1), tokens_BT[:, 1:].flatten())
    top_k = decoder.config.top_k
    return loss, torch.stack([balance_loss(logits_BTE, top_k) for logits_BTE in routed]).mean()


@contextmanager
def router_logits(decoder: Decoder) -> Iterator[list[Tensor]]:
    """Collects the router outputs of every layer while the block runs."""
    collected: list[Tensor] = []
    handles = [
        layer.mlp.router.register_forward_hook(lambda _module, _inputs, output: collected.append(output))
        for layer in decoder.layers
    ]
    try:
        yield collected
    finally:
        for handle in handles:
            handle.remove()


def balance_loss(logits_BTE: Tensor, top_k: int) -> Tensor:
    """E * sum over experts of (share of assignments) * (mean probability). Fedus et al. 2021, eq. 4."""
    probabilities_XE = logits_BTE.softmax(-1).flatten(0, -2)
    chosen_XE = torch.zeros_like(probabilities_XE).scatter(-1, probabilities_XE.topk(top_k).indices, 1.0)
    num_experts = logits_BTE.shape[-1]
    return num_experts * (chosen_XE.mean(0) / top_k * probabilities_XE.mean(0)).sum()


def draft_loss(decoder: Decoder, draft: Draft, tokens_BT: Tensor, ropes: tuple[Rope, Rope], unroll: int) -> Tensor:
    """Mean over drafting steps of the soft cross-entropy against the frozen target, weighted 0.8^k.

    `ropes`: of target and draft. T tokens train T - unroll rows: row i at step k reads x_(i+k+1) and learns
    the target's distribution of x_(i+k+2).
    """
    num_rows = tokens_BT.shape[1] - unroll
    with torch.no_grad():
        window = Window(start=0, rope=ropes[0], mask=causal_mask(tokens_BT.shape[1], 0, tokens_BT.device))
        taps: list[Tensor] = []
        teacher_BTV = decoder.logits(decoder(tokens_BT, window, None, taps)).softmax(-1)
        embedded_BTH = decoder.embed_tokens(tokens_BT)
    h_BRH = draft.fuse(torch.cat(taps, dim=-1)[:, :num_rows])
    features = unrolled_features(draft, embedded_BTH[:, 1:], h_BRH, ropes[1], unroll)
    losses = [
        cross_entropy(
            draft.logits(feature_BRH).flatten(0, 1), teacher_BTV[:, step + 1 : step + 1 + num_rows].flatten(0, 1)
        )
        for step, feature_BRH in enumerate(features)
    ]
    weights = STEP_DECAY ** torch.arange(unroll, device=tokens_BT.device)
    return (weights * torch.stack(losses)).sum() / weights.sum()


def unrolled_features(
    draft: Draft, next_embedded_BTH: Tensor, h_BRH: Tensor, rope: Rope, unroll: int
) -> Iterator[Tensor]:
    """Features of drafting steps 0, 1, ...: each step reads the features of the one before it.

    Row i at step k stands at position i + k and reads the embedding of x_(i+k+1). EAGLE-3's
    training-time test, eagle/traineagle3/cnets.py.
    """
    num_rows = h_BRH.shape[1]
    mask_RR = torch.ones(num_rows, num_rows, dtype=torch.bool, device=h_BRH.device).tril()
    layer = draft.midlayer
    keys: list[Tensor] = []
    values: list[Tensor] = []
    for step in range(unroll):
        x_BRW = layer.join(next_embedded_BTH[:, step : step + num_rows], h_BRH)
        q_BNRD, k_BGRD, v_BGRD = layer.self_attn.project(x_BRW, Window(start=step, rope=rope, mask=None))
        keys.append(spread(k_BGRD, layer.self_attn))
        values.append(spread(v_BGRD, layer.self_attn))
        o_BNRD = unrolled_attention(q_BNRD, keys, values, mask_RR)
        h_BRH = layer.finish(h_BRH + layer.self_attn.output(o_BNRD))
        yield h_BRH


def spread(kv_BGRD: Tensor, attention: Attention) -> Tensor:
    """Repeats each KV head for the query heads that share it."""
    return kv_BGRD.repeat_interleave(attention.num_heads // attention.num_kv_heads, dim=1)


def unrolled_attention(q_BNRD: Tensor, keys: list[Tensor], values: list[Tensor], mask_RR: Tensor) -> Tensor:
    """Causal over the keys of step 0, and of each later step only the row's own key."""
    q_BNRD = q_BNRD * q_BNRD.shape[-1] ** -0.5
    context_BNRR = (q_BNRD @ keys[0].transpose(-1, -2)).masked_fill(~mask_RR, float("-inf"))
    own_BNRK = [(q_BNRD * key).sum(-1, keepdim=True) for key in keys[1:]]
    weights_BNRS = torch.cat((context_BNRR, *own_BNRK), dim=-1).softmax(-1)
    num_rows = q_BNRD.shape[2]
    o_BNRD = weights_BNRS[..., :num_rows] @ values[0]
    for index, value in enumerate(values[1:], start=num_rows):
        o_BNRD = o_BNRD + weights_BNRS[..., index : index + 1] * value
    return o_BNRD
