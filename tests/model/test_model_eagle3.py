"""The draft network against the published layout, and training's unrolled form against drafting itself."""

import math

import torch

from model.attention import Window
from model.layers import build_rope, causal_mask
from model.losses import draft_loss, unrolled_features

CPU = torch.device("cpu")
ROPE = {"num_positions": 32, "head_dim": 16, "theta": 10_000.0, "dtype": torch.float64, "device": CPU}


def seeded(*shape, seed):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def norm(x):
    return x / torch.sqrt((x**2).mean(-1, keepdim=True) + 1e-6)


def turned(x, position):
    angle = torch.tensor([position * 10_000.0 ** (-2 * i / 16) for i in range(8)], dtype=torch.float64)
    a, b = x[:8], x[8:]
    return torch.cat((a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()))


def published_layer(weights, embedded, h):
    """One EAGLE-3 layer over rows at positions 0, 1, ..., written from its description, row by row."""
    x = torch.cat((norm(embedded), norm(h)), dim=-1)  # embedding first
    heads = (x @ weights["midlayer.self_attn.qkv_proj.weight"].T).view(len(x), 8, 16)
    rows = []
    for t in range(len(x)):
        mixed = []
        for n in range(4):
            q = turned(heads[t, n], t)
            scores = torch.stack([q @ turned(heads[s, 4 + n // 2], s) / math.sqrt(16) for s in range(t + 1)])
            mixed.append(scores.softmax(0) @ heads[: t + 1, 6 + n // 2])
        a1 = h[t] + weights["midlayer.self_attn.o_proj.weight"] @ torch.cat(mixed)
        gate, up = (weights["midlayer.mlp.gate_up_proj.weight"] @ norm(a1)).chunk(2)
        rows.append(a1 + weights["midlayer.mlp.down_proj.weight"] @ (gate * gate.sigmoid() * up))
    return torch.stack(rows)


def test_the_draft_follows_the_published_layout(small_draft):
    embedded, taps = seeded(3, 48, seed=1), seeded(3, 144, seed=2)
    weights = small_draft.state_dict()
    feature = published_layer(weights, embedded, taps @ weights["fc.weight"].T)
    window = Window(start=0, rope=build_rope(**ROPE), mask=causal_mask(3, 0, CPU))
    ours = small_draft(embedded[None], small_draft.fuse(taps[None]), window)
    torch.testing.assert_close(ours[0], feature)
    torch.testing.assert_close(small_draft.logits(ours)[0], norm(feature) @ weights["lm_head.weight"].T)


def drafted_features(draft, next_embedded, h, row, num_steps):
    """What drafting computes after the target's features of slots 0..row: extend, then steps on its own."""
    rope, cache = build_rope(**ROPE), draft.midlayer.self_attn.new_cache(32, dtype=torch.float64, device=CPU)
    window = Window(start=0, rope=rope, mask=causal_mask(row + 1, 0, CPU))
    feature = draft(next_embedded[:, : row + 1], h[:, : row + 1], window, cache)[:, -1:]
    features = [feature]
    for step in range(1, num_steps):
        window = Window(start=row + step, rope=rope, mask=None)
        feature = draft(next_embedded[:, row + step : row + step + 1], feature, window, cache)
        features.append(feature)
    return torch.cat(features, dim=1)[0]


def test_unrolled_training_computes_what_drafting_computes(small_draft):
    next_embedded, h = seeded(1, 10, 48, seed=5), seeded(1, 7, 48, seed=6)  # 7 rows, 4 steps
    unrolled = list(unrolled_features(small_draft, next_embedded, h, build_rope(**ROPE), unroll=4))
    for row in (0, 3, 6):
        by_training = torch.stack([feature[0, row] for feature in unrolled])
        torch.testing.assert_close(by_training, drafted_features(small_draft, next_embedded, h, row, 4))


def test_each_step_learns_the_target_distribution_two_tokens_behind_its_feature(small_target, small_draft):
    """Row i at step k has read x_0..x_(i+k+1): it is graded by the target's distribution after exactly those."""
    tokens = torch.tensor([[5, 17, 88, 3, 41, 60, 2]])  # 7 tokens, 2 steps: rows 0..4
    rope, taps = build_rope(**ROPE), []
    window = Window(start=0, rope=rope, mask=causal_mask(7, 0, CPU))
    small_target(tokens, window, None, taps)
    h, embedded = small_draft.fuse(torch.cat(taps, dim=-1)), small_target.embed_tokens(tokens)
    by_step = [[], []]
    for row in range(5):
        features = drafted_features(small_draft, embedded[:, 1:], h, row, 2)
        for step, losses in enumerate(by_step):
            read = tokens[:, : row + step + 2]
            prefix = Window(start=0, rope=rope, mask=causal_mask(read.shape[1], 0, CPU))
            teacher = small_target.logits(small_target(read, prefix))[0, -1].softmax(0)
            losses.append(-(teacher * small_draft.logits(features[step]).log_softmax(0)).sum())
    first, second = (torch.stack(losses).mean() for losses in by_step)
    ours = draft_loss(small_target, small_draft, tokens, (rope, rope), unroll=2)
    torch.testing.assert_close(ours, (first + 0.8 * second) / 1.8)
