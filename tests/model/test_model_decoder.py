"""The target as a whole: caching, taps, files."""

import pytest
import torch

from model.attention import Window
from model.config import TargetConfig
from model.layers import build_rope, causal_mask
from model.parallel import Group, read_group
from model.weights import load_draft, load_target, save, shard

CPU = torch.device("cpu")
TOKENS = torch.tensor([[5, 17, 88, 3, 3, 41, 60, 2, 90, 11]])


@pytest.fixture(scope="module")
def rope():
    return build_rope(num_positions=32, head_dim=16, theta=10_000.0, dtype=torch.float64, device=CPU)


def window(rope, rows, start):
    return Window(start=start, rope=rope, mask=causal_mask(rows, start, CPU))


def test_decoding_with_a_cache_gives_the_logits_of_a_forward_without(small_target, rope):
    whole = small_target.logits(small_target(TOKENS, window(rope, 10, 0)))
    caches = small_target.new_caches(16, dtype=torch.float64, device=CPU)
    parts = [small_target(TOKENS[:, :4], window(rope, 4, 0), caches)]
    parts += [small_target(TOKENS[:, i : i + 1], window(rope, 1, i), caches) for i in range(4, 10)]
    torch.testing.assert_close(small_target.logits(torch.cat(parts, dim=1)), whole, rtol=0, atol=1e-12)


def test_taps_are_the_streams_entering_layers_2_half_and_third_last(small_target, rope):
    entering = {}
    handles = [
        layer.register_forward_pre_hook(lambda _module, inputs, i=i: entering.update({i: inputs[0].clone()}))
        for i, layer in enumerate(small_target.layers)
    ]
    taps = []
    small_target(TOKENS, window(rope, 10, 0), None, taps)
    for handle in handles:
        handle.remove()
    assert len(taps) == 3
    for tap, layer in zip(taps, (2, 3, 4), strict=True):  # 7 layers: 2, 7 // 2, 7 - 3
        assert torch.equal(tap, entering[layer])


@pytest.mark.parametrize(
    ("num_layers", "outputs"),
    [(61, (1, 29, 57)), (94, (1, 46, 90))],
    ids=["DeepSeek-V3", "Qwen3-235B"],
)
def test_taps_agree_with_published_ones_which_count_outputs(num_layers, outputs):
    assert TargetConfig(num_layers=num_layers).tap_layers == tuple(i + 1 for i in outputs)


def test_a_later_token_does_not_change_earlier_logits(small_target, rope):
    changed = TOKENS.clone()
    changed[0, 6] = 1
    before, after = (small_target(x, window(rope, 10, 0)) for x in (TOKENS, changed))
    assert torch.equal(before[:, :6], after[:, :6])
    assert not torch.equal(before[:, 6:], after[:, 6:])


def test_weights_come_back_from_a_file_as_they_went_in(small_target, tmp_path):
    save(small_target, tmp_path / "t.safetensors", torch.float64)
    loaded = load_target(tmp_path / "t.safetensors", dtype=torch.float64, device=CPU)
    assert loaded.config == small_target.config
    assert all(torch.equal(x, small_target.state_dict()[name]) for name, x in loaded.state_dict().items())


def test_equal_weights_are_equal_files(small_target, tmp_path):
    for name in "abcd":
        save(small_target, tmp_path / name)
    assert len({(tmp_path / name).read_bytes() for name in "abcd"}) == 1


def test_a_target_file_is_not_taken_for_a_draft(random_folder):
    with pytest.raises(ValueError, match=r"expected perfguard-model@1 draft, found .*target"):
        load_draft(random_folder / "target.safetensors", dtype=torch.float32, device=CPU)


def test_two_shares_hold_each_head_and_each_expert_channel_once(small_target):
    config, ranks = small_target.config, [Group(rank=r, world_size=2) for r in (0, 1)]
    state = small_target.state_dict()
    qkv = state["layers.0.self_attn.qkv_proj.weight"].view(8, 16, 48)  # 4 query, 2 key, 2 value heads
    shares = [shard("layers.0.self_attn.qkv_proj.weight", qkv.flatten(0, 1), config, g).view(4, 16, 48) for g in ranks]
    assert torch.equal(shares[0], qkv[[0, 1, 4, 6]])
    assert torch.equal(shares[1], qkv[[2, 3, 5, 7]])
    down = state["layers.0.mlp.down_HEI"]
    assert torch.equal(torch.cat([shard("layers.0.mlp.down_HEI", down, config, g) for g in ranks], dim=2), down)


def test_heads_that_do_not_divide_over_the_ranks_are_refused(random_folder):
    group = Group(rank=0, world_size=4)
    with pytest.raises(ValueError, match="2 KV heads do not divide over 4 ranks"):
        load_target(random_folder / "target.safetensors", dtype=torch.float32, device=CPU, group=group)


def test_the_group_is_read_from_the_variables_of_torchrun():
    group = read_group({"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1"})
    assert (group.rank, group.world_size, group.local_rank) == (3, 4, 1)
    assert read_group({}) == Group()
    with pytest.raises(ValueError, match="RANK=2 is not within WORLD_SIZE=2"):
        read_group({"RANK": "2", "WORLD_SIZE": "2"})
