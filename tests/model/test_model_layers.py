"""Rotary positions, masks, norms, attention and experts against references written here, by another way."""

import math

import pytest
import torch

from model.attention import Attention, Window
from model.config import TargetConfig
from model.layers import SwiGLU, build_rope, causal_mask
from model.moe import MoE, route

CPU = torch.device("cpu")


def rope_of(num_positions=32, head_dim=16, dtype=torch.float64):
    return build_rope(num_positions=num_positions, head_dim=head_dim, theta=100.0, dtype=dtype, device=CPU)


def seeded(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def by_complex_numbers(x, position, theta=100.0):
    """Channel pair (i, i + D/2) as a complex number, turned by position * theta^(-2i/D)."""
    half = len(x) // 2
    z = torch.complex(x[:half], x[half:])
    angle = torch.tensor([position * theta ** (-2 * i / len(x)) for i in range(half)], dtype=torch.float64)
    z = z * torch.polar(torch.ones_like(angle), angle)
    return torch.cat((z.real, z.imag))


def test_rope_turns_each_channel_pair_like_a_complex_number():
    x = seeded(1, 3, 5, 16)
    turned = rope_of().rotate(x, start=7)
    for head in range(3):
        for row in range(5):
            torch.testing.assert_close(turned[0, head, row], by_complex_numbers(x[0, head, row], 7 + row))


def test_rope_scores_depend_on_the_distance_only():
    rope, q, k = rope_of(), seeded(1, 1, 1, 16), seeded(1, 1, 1, 16, seed=1)
    near = (rope.rotate(q, 5) * rope.rotate(k, 2)).sum()
    far = (rope.rotate(q, 25) * rope.rotate(k, 22)).sum()
    other = (rope.rotate(q, 6) * rope.rotate(k, 2)).sum()
    torch.testing.assert_close(near, far)
    assert abs(near - other) > 1e-3


def test_a_row_sees_itself_and_all_slots_before_it():
    assert causal_mask(1, 9, CPU) is None
    assert causal_mask(3, 2, CPU).int().tolist() == [[1, 1, 1, 0, 0], [1, 1, 1, 1, 0], [1, 1, 1, 1, 1]]


def test_norm_divides_by_the_root_mean_square(small_target):
    norm, x = small_target.layers[0].input_layernorm, seeded(4, 48)
    by_hand = torch.stack([row / math.sqrt((row**2).mean().item() + 1e-6) for row in x])
    torch.testing.assert_close(norm(x), by_hand)


def test_gated_mlp_is_down_of_silu_gate_times_up():
    mlp, x = SwiGLU(6, 10).double(), seeded(1, 3, 6)
    gate, up = mlp.gate_up_proj.weight[:10], mlp.gate_up_proj.weight[10:]
    inner = (x @ gate.T) / (1 + torch.exp(-(x @ gate.T))) * (x @ up.T)
    torch.testing.assert_close(mlp(x), inner @ mlp.down_proj.weight.T)


def attention(qk_norm):
    module = Attention(input_size=20, hidden_size=24, num_heads=6, num_kv_heads=2, head_dim=16, qk_norm=qk_norm)
    return module.double().requires_grad_(False)


def by_loops(module, x, start):
    """Head by head and row by row: 6 query heads, 2 KV heads, so query head n reads KV head n // 3."""
    rows = module.qkv_proj.weight.split(16)
    out = []
    for t in range(len(x)):
        heads = []
        for n in range(6):
            q = prepared(rows[n] @ x[t], module.q_norm, start + t)
            keys = [prepared(rows[6 + n // 3] @ x[s], module.k_norm, start + s) for s in range(t + 1)]
            values = [rows[8 + n // 3] @ x[s] for s in range(t + 1)]
            weights = torch.stack([q @ k / 4.0 for k in keys]).exp()
            heads.append(sum(w * v for w, v in zip(weights / weights.sum(), values, strict=True)))
        out.append(module.o_proj.weight @ torch.cat(heads))
    return torch.stack(out)


def prepared(x, norm, position):
    if norm is not None:
        x = x / math.sqrt((x**2).mean().item() + 1e-6)
    return by_complex_numbers(x, position)


@pytest.mark.parametrize("qk_norm", [False, True])
def test_attention_agrees_with_loops_over_heads_and_rows(qk_norm):
    module, x = attention(qk_norm), seeded(1, 5, 20)
    window = Window(start=3, rope=rope_of(), mask=causal_mask(5, 0, CPU))
    torch.testing.assert_close(module(x, window, None)[0], by_loops(module, x[0], start=3))


def test_cached_attention_agrees_with_attention_over_everything_at_once():
    module, x, rope = attention(False), seeded(1, 7, 20), rope_of()
    whole = module(x, Window(start=0, rope=rope, mask=causal_mask(7, 0, CPU)), None)
    cache = module.new_cache(16, dtype=torch.float64, device=CPU)
    parts, start = [], 0
    for rows in (3, 1, 1, 2):
        window = Window(start=start, rope=rope, mask=causal_mask(rows, start, CPU))
        parts.append(module(x[:, start : start + rows], window, cache))
        start += rows
    torch.testing.assert_close(torch.cat(parts, dim=1), whole)


def moe(shared_size=0):
    module = MoE(hidden_size=12, num_experts=5, top_k=2, expert_size=8, shared_size=shared_size)
    for x in module.parameters():
        torch.nn.init.normal_(x, std=0.3, generator=torch.Generator().manual_seed(x.numel()))
    return module.double().requires_grad_(False)


@pytest.mark.parametrize("shared_size", [0, 6])
def test_experts_agree_with_a_loop_over_the_two_best_of_each_row(shared_size):
    module, x = moe(shared_size), seeded(1, 9, 12)
    rows = []
    for row in x[0]:
        probabilities = (module.router.weight @ row).softmax(0)
        best = probabilities.argsort(descending=True)[:2]
        y = torch.zeros(12, dtype=torch.float64)
        for expert in best:
            gate, up = module.gate_up_EXIH[expert]
            inner = torch.nn.functional.silu(gate @ row) * (up @ row)
            y += probabilities[expert] / probabilities[best].sum() * (module.down_HEI[:, expert] @ inner)
        rows.append(y + module.shared_expert(row) if shared_size else y)
    torch.testing.assert_close(module(x)[0], torch.stack(rows))


def test_routing_weights_are_a_softmax_renormalised_over_the_chosen():
    logits = torch.tensor([[[math.log(1.0), math.log(4.0), math.log(2.0), math.log(1.0)]]], dtype=torch.float64)
    torch.testing.assert_close(route(logits, 2), torch.tensor([[[0, 4 / 6, 2 / 6, 0]]], dtype=torch.float64))


def test_an_odd_share_of_heads_or_layers_is_refused():
    with pytest.raises(ValueError, match="6 query heads do not share 4 KV heads"):
        TargetConfig(num_heads=6, num_kv_heads=4)
    with pytest.raises(ValueError, match="need at least 7"):
        TargetConfig(num_layers=6)
