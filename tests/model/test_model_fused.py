"""The decode step written over operations is the function that the modules compute."""

from dataclasses import replace

import pytest
import torch
from conftest import SMALL_DRAFT

from model.eagle3 import Draft
from model.fused import fused_draft, fused_forward, fused_fuse, lay_out_for_kernels
from model.kernels.plain import build_plain_ops, route
from model.layers import build_rope
from model.moe import route as route_of_modules
from model.steps import plain_draft, plain_forward
from model.train import initialise

CPU = torch.device("cpu")


def forwards(target, batch):
    """Both forward passes, each with caches of its own."""
    config = target.config
    rope = build_rope(
        num_positions=24, head_dim=config.head_dim, theta=config.rope_theta, dtype=torch.float64, device=CPU
    )
    caches = [target.new_caches(24, dtype=torch.float64, device=CPU, batch=batch) for _ in range(2)]
    return (
        (plain_forward(target, caches[0], rope), fused_forward(target, caches[1], rope, build_plain_ops())),
        caches,
    )


@pytest.mark.parametrize(("batch", "num_rows"), [(1, 1), (1, 4), (3, 1), (3, 3)])
def test_logits_taps_and_caches_are_those_of_the_modules(small_target, batch, num_rows):
    both, caches = forwards(small_target, batch)
    tokens = torch.arange(batch * 2 * num_rows).view(2, batch, num_rows) % 97
    starts_B = torch.tensor([0, 5, 2])[:batch]  # later slots are empty: attended to by both alike
    for step in range(2):
        taps = torch.full((2, batch, num_rows, 3 * small_target.config.hidden_size), torch.nan, dtype=torch.float64)
        logits = [f(tokens[step], starts_B + step * num_rows, 24, t) for f, t in zip(both, taps, strict=True)]
        torch.testing.assert_close(logits[1], logits[0], rtol=0, atol=1e-11)
        torch.testing.assert_close(taps[1], taps[0], rtol=0, atol=1e-11)
    for ours, theirs in zip(*caches, strict=True):
        torch.testing.assert_close(ours.k_BGPD, theirs.k_BGPD, rtol=0, atol=1e-11)


VARIANTS = [
    {}, {"norm_before_residual": True}, {"norm_output": True}, {"fc_norm": True}, {"norm_before_fc": True},
    {"draft_vocab_size": 40}, {"has_own_embedding": True},
]  # fmt: skip


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: "-".join(variant) or "usual")
@pytest.mark.parametrize("batch", [1, 3])
def test_the_draft_over_operations_is_the_draft_of_the_modules(small_target, batch, variant):
    """Verified rows of which one is read, then two steps of its own features."""
    config = replace(SMALL_DRAFT, **variant)
    draft = initialise(Draft(config), 4).double().requires_grad_(False)
    for norm in (module for module in draft.modules() if isinstance(module, torch.nn.RMSNorm)):
        norm.weight.data += torch.linspace(-0.5, 0.5, len(norm.weight))  # each element its own
    embed, ops = draft.embed_tokens or small_target.embed_tokens, build_plain_ops()
    rope = build_rope(num_positions=24, head_dim=16, theta=config.rope_theta, dtype=torch.float64, device=CPU)
    caches = [draft.midlayer.self_attn.new_cache(24, dtype=torch.float64, device=CPU, batch=batch) for _ in range(2)]
    both = (plain_draft(draft, embed, caches[0], rope), fused_draft(draft, embed, caches[1], rope, ops))
    taps_BTC = torch.randn(batch, 4, 3 * 48, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    fuses = (draft.fuse, fused_fuse(draft, ops))
    starts_B, row_B = torch.tensor([0, 5, 2])[:batch], torch.tensor([2, 0, 3])[:batch]
    tokens_BT = torch.arange(batch * 4).view(batch, 4) * 11 % 97
    found = [
        f(tokens_BT, fuse(taps_BTC), starts_B, 24, row_B) for f, fuse in zip(both, fuses, strict=True)
    ]
    for step in range(3):
        torch.testing.assert_close(found[1], found[0], rtol=0, atol=1e-11)
        slots_B, token_B1 = starts_B + row_B + 1 + step, tokens_BT[:, step : step + 1]
        found = [f(token_B1, one[0][:, None], slots_B, 24, None) for f, one in zip(both, found, strict=True)]
    torch.testing.assert_close(caches[1].k_BGPD, caches[0].k_BGPD, rtol=0, atol=1e-11)


def test_the_list_of_experts_names_each_once_whoever_chose_it():
    logits_RE = torch.tensor([[0.0, 5.0, 1.0, 4.0], [3.0, 5.0, 1.0, 0.0]], dtype=torch.float64)
    x_RH = torch.eye(2, dtype=torch.float64)  # times the transposed logits gives the logits
    h_RH = torch.ones(2, 2, dtype=torch.float64)  # its root mean square is 1
    routing = route(x_RH, h_RH, logits_RE.T.contiguous(), 0.0, 2)
    assert routing.count_1.item() == 3
    assert routing.ids_S[:3].tolist() == [0, 1, 3]
    assert len(routing.ids_S) == 4  # two rows of two experts each
    torch.testing.assert_close(routing.weights_RE, route_of_modules(logits_RE, 2))


def test_storing_experts_together_changes_no_number(small_target):
    moe = small_target.layers[0].mlp
    before = moe.down_HEI.clone()
    lay_out_for_kernels(moe)
    assert torch.equal(moe.down_HEI, before)
    assert moe.down_HEI.stride() == (24, 48 * 24, 1)
