"""Presets: published sizes, and random weights that are one model whatever the number of ranks."""

import math
from dataclasses import replace

import pytest
import torch

from model.attention import Window
from model.config import DraftConfig, TargetConfig
from model.decoder import Decoder
from model.eagle3 import Draft
from model.entry import build
from model.evaluate import generate_eagle3, generate_plain
from model.hashing import key_of, uniforms
from model.layers import build_rope, causal_mask
from model.parallel import SINGLE, Group
from model.presets import Preset, fill_uniform, generate, preset_of, presets
from model.sharding import shard
from model.sources import parse
from model.weights import open_target

CPU, META = torch.device("cpu"), torch.device("meta")
# Every option on; a width that no power of two divides evenly.
MIXED = TargetConfig(
    vocab_size=90, num_layers=7, hidden_size=40, num_heads=8, num_kv_heads=4, head_dim=12, num_experts=6,
    expert_size=20, shared_size=28, qk_norm=True,
)  # fmt: skip


def generated(config, group=SINGLE, seed=3, dtype=torch.float32):
    kind = Decoder if isinstance(config, TargetConfig) else lambda config, _group: Draft(config)
    with META:
        module, whole = kind(config, group), kind(config, SINGLE)
    module.to(dtype).to_empty(device=CPU).requires_grad_(False)
    generate(module, whole, config, seed, group)
    return module


def num_parameters(module):
    return sum(x.numel() for x in module.parameters())


@pytest.mark.parametrize(
    ("name", "total", "active"),
    # Billions, as published; active leaves out the embedding's lookup.
    [("qwen3-30b-a3b", 30.5, 3.0), ("qwen3-235b-a22b", 235.1, 21.6), ("mixtral-8x7b", 46.7, 12.7)],
)
def test_a_preset_has_the_published_number_of_parameters(name, total, active):
    config = presets()[name].target
    with META:
        decoder = Decoder(config, SINGLE)
    asleep = (config.num_experts - config.top_k) * 3 * config.hidden_size * config.expert_size * config.num_layers
    counted = num_parameters(decoder)
    assert counted / 1e9 == pytest.approx(total, abs=0.1)
    assert (counted - asleep - config.vocab_size * config.hidden_size) / 1e9 == pytest.approx(active, abs=0.06)


def test_drafts_have_the_published_shapes():
    """SpecForge: hidden, inner, heads / KV heads, vocabulary; all with 32,000 drafted tokens."""
    shapes = {
        name: (d.hidden_size, d.inner_size, d.num_heads, d.num_kv_heads, d.head_dim, d.vocab_size, d.head_size)
        for name, d in ((name, preset.draft) for name, preset in presets().items())
    }
    assert shapes["qwen3-30b-a3b"] == (2048, 12288, 32, 4, 128, 151936, 32000)
    assert shapes["qwen3-235b-a22b"] == (4096, 24576, 64, 4, 128, 151936, 32000)


@pytest.mark.parametrize("world_size", [2, 4])
def test_the_shares_of_any_world_size_are_cuts_of_the_same_model(world_size):
    whole = generated(MIXED).state_dict()
    for rank in range(world_size):
        group = Group(rank=rank, world_size=world_size)
        for name, x in generated(MIXED, group).state_dict().items():
            assert torch.equal(x, shard(name, whole[name], MIXED, group)), name


def test_precisions_hold_one_model():
    wide, narrow = (generated(MIXED, dtype=dtype).state_dict() for dtype in (torch.float64, torch.bfloat16))
    assert all(torch.equal(x, narrow[name].double()) for name, x in wide.items())


def test_a_tensor_is_filled_alike_in_blocks_of_any_size(monkeypatch):
    out, places = torch.empty(70, 33), [torch.arange(70), torch.arange(33)]
    fill_uniform(out, places, (70, 33), 9, 1.0)
    monkeypatch.setattr("model.presets.BLOCK", {"cpu": 100})  # three rows at a time
    again = torch.empty(70, 33)
    fill_uniform(again, places, (70, 33), 9, 1.0)
    assert torch.equal(out, again)


def test_values_are_uniform_and_have_the_deviation_of_their_inputs():
    state = generated(replace(MIXED, hidden_size=256, expert_size=64)).state_dict()
    x = state["layers.0.mlp.gate_up_EXIH"].double()  # 196,608 values
    assert x.std().item() == pytest.approx(256**-0.5, rel=0.01)
    assert abs(x.mean().item()) < 4 * 256**-0.5 / math.sqrt(x.numel())
    assert x.abs().max().item() == pytest.approx(math.sqrt(3 / 256), rel=0.01)
    counts = torch.histc(x, 16)
    expected = x.numel() / 16
    assert ((counts - expected) ** 2 / expected).sum() < 50  # chi-square of 15 degrees exceeds 50 once in 80,000
    assert torch.equal(state["norm.weight"], torch.ones(256))


def test_neighbours_tensors_and_seeds_are_not_correlated():
    index = torch.arange(2**16)
    a, b, c = (uniforms(index, key_of(*parts)) for parts in ((0, "a"), (0, "b"), (1, "a")))
    for x, y in ((a, b), (a, c), (a[:-1], a[1:]), (a[:-64], a[64:])):
        assert abs(torch.corrcoef(torch.stack((x, y)))[0, 1]) < 0.02  # five standard deviations


def test_hashing_gives_the_same_numbers_for_ever():
    """A change here changes every preset's weights: by hand from the two multipliers, in plain integers."""

    def mix(x):
        x = (x ^ (x >> 16)) * 0x21F0AAAD & 0xFFFFFFFF
        x = (x ^ (x >> 15)) * 0x735A2D97 & 0xFFFFFFFF
        return x ^ (x >> 15)

    index = torch.tensor([0, 1, 2**31, 2**32 - 1])
    expected = [(mix(mix(i) ^ 0xDEADBEEF) >> 8) / 2**24 for i in index.tolist()]
    assert uniforms(index, 0xDEADBEEF).tolist() == expected
    assert key_of(0, "TargetConfig", "norm.weight") == key_of("0/TargetConfig", "norm.weight")


def test_streams_and_logits_stay_sane_through_the_layers_and_experts_are_spread():
    config = TargetConfig(
        vocab_size=500, num_layers=12, hidden_size=256, num_heads=8, num_kv_heads=2, head_dim=32, num_experts=32,
        top_k=4, expert_size=96, qk_norm=True,
    )  # fmt: skip
    decoder = generated(config)
    taps, chosen = [], []
    for layer in decoder.layers:
        layer.mlp.router.register_forward_hook(lambda _module, _inputs, x: chosen.append(x.topk(4).indices))
    rope = build_rope(num_positions=64, head_dim=32, theta=1e4, dtype=torch.float32, device=CPU)
    window = Window(start=0, rope=rope, mask=causal_mask(64, 0, CPU))
    x = decoder(torch.arange(64)[None] * 7, window, None, taps)
    assert all(0.9 < tap.square().mean().sqrt() < 2 for tap in [*taps, x])
    assert decoder.logits(x).std().item() == pytest.approx(1, abs=0.2)
    for ids in chosen:
        assert len(ids.unique()) > 24


def test_a_random_draft_drafts_tokens_that_differ_and_verified_rows_choose_experts_as_independent_rows_do(monkeypatch):
    target = TargetConfig(
        vocab_size=8000, num_layers=8, hidden_size=256, num_heads=8, num_kv_heads=2, head_dim=32, num_experts=64,
        top_k=8, expert_size=64, qk_norm=True,
    )  # fmt: skip
    draft = replace(
        presets()["qwen3-30b-a3b"].draft, vocab_size=8000, target_hidden_size=256, hidden_size=256, num_heads=8,
        num_kv_heads=2, head_dim=32, inner_size=512, draft_vocab_size=2000,
    )  # fmt: skip
    monkeypatch.setattr("model.presets.presets", lambda: {"mid": Preset(target=target, draft=draft)})
    files = {"target": "preset:mid", "draft": "preset:mid"}
    session = build(files | {"batch": 8, "num_draft_tokens": 2, "accept_rates": [1.0, 0.0], "max_len": 64})
    generator = torch.Generator().manual_seed(2)
    session.prefill(torch.randint(256, (8, 40), generator=generator).tolist(), mode="eagle3")
    num_distinct, num_experts = [], []
    for layer in session.target.layers:
        layer.mlp.router.register_forward_hook(
            lambda _module, _inputs, x: num_experts.extend(len(row.topk(8).indices.unique()) for row in x)
        )
    for _ in range(10):
        session.draft()
        session.verify()
        session.accept()
        num_distinct += [len(set(row)) for row in session.sequences.drafted_BK.tolist()]
        session.read()
    assert sum(num_distinct) / len(num_distinct) > 1.9
    independent = 64 * (1 - (1 - 8 / 64) ** 3)  # 21.1
    assert sum(num_experts) / len(num_experts) == pytest.approx(independent, rel=0.05)


def test_the_draft_of_a_preset_maps_its_ids_into_the_targets_vocabulary():
    config = DraftConfig(vocab_size=100, draft_vocab_size=30)
    assert generated(config).to_target(torch.arange(30)).tolist() == list(range(0, 90, 3))


def test_a_preset_is_cut_to_its_first_layers_and_keeps_its_widths():
    whole, cut = preset_of("mixtral-8x7b").target, open_target(parse("preset:mixtral-8x7b?layers=7", "target")).config
    assert cut == replace(whole, num_layers=7)
    with pytest.raises(ValueError, match="preset mixtral-8x7b has 32 layers, not 33"):
        preset_of("mixtral-8x7b", 33)
    with pytest.raises(ValueError, match="no preset 'qwen': there are tiny, qwen3-30b-a3b"):
        preset_of("qwen")


def test_a_session_speculates_on_a_preset_and_says_what_it_needs():
    spec = {"target": "preset:tiny?layers=7&seed=4", "draft": "preset:tiny?seed=4", "dtype": "float64", "max_len": 32}
    session = build(spec)
    assert generate_eagle3(session, [1, 2, 3], 9)[0] == generate_plain(session, [1, 2, 3], 9)
    assert session.describe()["memory"]["weights_bytes"] == 8 * num_parameters(session.target)


@pytest.mark.parametrize(
    ("role", "text", "message"),
    [
        ("target", "preset:tiny?layer=6", "a preset takes layers, seed, not 'layer'"),
        ("target", "preset:tiny?layers=six", "layers is a whole number, not 'six'"),
        ("target", "/w/target.safetensors?layers=6", "a file takes no options, not 'layers'"),
        ("target", "preset:tiny?layers", "bad query field"),
        ("draft", "preset:tiny?layers=7", "as draft a preset takes seed, not 'layers'"),
        ("draft", "/?layers=1", "as draft a checkpoint takes tap_ids, not 'layers'"),
        ("target", "/?tap_ids=output", "as target a checkpoint takes layers, not 'tap_ids'"),
    ],
)
def test_a_source_with_an_option_it_does_not_have_is_refused(role, text, message):
    with pytest.raises(ValueError, match=message):
        parse(text, role)


def test_a_folder_takes_layers_as_target_and_how_tap_ids_count_as_draft(tmp_path):
    target, draft = parse(f"{tmp_path}?layers=6", "target"), parse(f"{tmp_path}?tap_ids=output", "draft")
    assert (target.kind, target.place, target.layers) == ("checkpoint", str(tmp_path), 6)
    assert (draft.kind, draft.place, draft.tap_ids) == ("checkpoint", str(tmp_path), "output")
    with pytest.raises(ValueError, match="tap_ids is entering or output, not 'both'"):
        parse(f"{tmp_path}?tap_ids=both", "draft")
