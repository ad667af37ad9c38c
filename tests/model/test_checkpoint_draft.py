"""Public EAGLE-3 checkpoints: both forms and all variants, against the published equations."""

import pytest
import torch
from published_eagle3 import (
    DRAFT_VOCAB,
    HIDDEN,
    MEMBERS,
    TARGET,
    VOCAB,
    PublishedDraft,
    random_tensors,
    write_sglang,
    write_speculators,
)

from model.attention import Window
from model.config import TargetConfig
from model.decoder import Decoder
from model.entry import build
from model.layers import build_rope, causal_mask
from model.presets import generate
from model.weights import load_draft, load_models, save

CPU = torch.device("cpu")
WRITERS = {"midlayer": write_sglang, "layers.0": write_speculators}
# name -> (what the tensors are made with, what config.json says)
VARIANTS = {
    "plain": ({}, {}),
    "norm_before_residual": ({}, {"norm_before_residual": True}),
    "norm_output": ({}, {"norm_output": True}),
    "fc_norm": ({"fc_norm": True}, {"fc_norm": True}),
    "norm_before_fc": ({"norm_before_fc": True}, {"norm_before_fc": True}),
    "two taps": ({"num_taps": 2}, {"eagle_aux_hidden_state_layer_ids": [1, 3]}),
    "EAGLE-3.1": ({"fc_norm": True}, {"fc_norm": True, "norm_output": True, "norm_before_residual": True}),
    "whole vocabulary": ({"own_vocabulary": False}, {"draft_vocab_size": VOCAB}),
    "own embedding": ({"own_embedding": True}, {}),
}


def seeded(*shape, seed):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def published(tensors, settings, embedded, taps, num_steps):
    """Logits: of the rows that have target features, then of steps that read their own feature."""
    flags = {name: settings.get(name, False) for name in ("norm_before_residual", "norm_output")}
    draft, logits, feature = PublishedDraft(tensors, **flags), [], None
    for row, vector in enumerate(embedded):
        h = draft.fuse(taps[row]) if row < len(embedded) - num_steps else feature
        row_logits, feature = draft.step(vector, h)
        logits.append(row_logits)
    return torch.stack(logits)


def ours(draft, embedded, taps, num_steps):
    rope = build_rope(num_positions=16, head_dim=8, theta=draft.config.rope_theta, dtype=torch.float64, device=CPU)
    cache = draft.midlayer.self_attn.new_cache(16, dtype=torch.float64, device=CPU)
    rows = len(embedded) - num_steps
    window = Window(start=0, rope=rope, mask=causal_mask(rows, 0, CPU))
    features = [draft(embedded[None, :rows], draft.fuse(taps[None, :rows].flatten(2)), window, cache)]
    for row in range(rows, len(embedded)):
        window = Window(start=row, rope=rope, mask=None)
        features.append(draft(embedded[None, row : row + 1], features[-1][:, -1:], window, cache))
    return draft.logits(torch.cat(features, dim=1))[0]


@pytest.mark.parametrize("form", WRITERS)
@pytest.mark.parametrize("variant", VARIANTS)
def test_a_checkpoint_drafts_as_published(form, variant, tmp_path):
    made_with, settings = VARIANTS[variant]
    tensors = random_tensors(**made_with)
    folder = WRITERS[form](tmp_path / "draft", tensors, **settings)
    draft = load_draft(folder, dtype=torch.float64, device=CPU)
    embedded, taps = seeded(7, HIDDEN, seed=1), seeded(7, made_with.get("num_taps", 3), TARGET, seed=2)
    expected = published(tensors, settings, embedded, taps, num_steps=3)
    torch.testing.assert_close(ours(draft, embedded, taps, num_steps=3), expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("variant", ["norm_before_residual", "norm_output"])
def test_a_variant_that_is_overlooked_would_show(variant, tmp_path):
    tensors = random_tensors()
    draft = load_draft(write_sglang(tmp_path / "draft", tensors), dtype=torch.float64, device=CPU)
    embedded, taps = seeded(7, HIDDEN, seed=1), seeded(7, 3, TARGET, seed=2)
    expected = published(tensors, {variant: True}, embedded, taps, num_steps=3)
    assert (ours(draft, embedded, taps, num_steps=3) - expected).abs().max() > 0.1


def test_drafted_ids_are_those_of_the_target(tmp_path):
    folder = write_sglang(tmp_path / "draft", random_tensors())
    draft = load_draft(folder, dtype=torch.float32, device=CPU)
    assert torch.equal(draft.to_target(torch.arange(DRAFT_VOCAB)), MEMBERS)


@pytest.mark.parametrize(
    ("write", "settings", "taps"),
    [
        (write_sglang, {"eagle_config": {"eagle_aux_hidden_state_layer_ids": [1, 46, 90]}}, (2, 47, 91)),
        (write_sglang, {"eagle_aux_hidden_state_layer_ids": [1, 29, 57]}, (2, 30, 58)),
        (write_speculators, {"eagle_aux_hidden_state_layer_ids": [2, 47, 91]}, (2, 47, 91)),
        (write_speculators, {"aux_hidden_state_layer_ids": [2, 24, 45]}, (2, 24, 45)),
        (write_sglang, {}, ()),
    ],
)
def test_tap_ids_are_outputs_for_sglang_and_inputs_for_speculators(tmp_path, write, settings, taps):
    folder = write(tmp_path / "draft", random_tensors(), **settings)
    assert load_draft(folder, dtype=torch.float32, device=CPU).config.taps == taps


def test_how_ids_count_can_be_told(tmp_path):
    """Checkpoints that were converted from one form to the other keep their numbers."""
    folder = write_speculators(tmp_path / "d", random_tensors(), eagle_aux_hidden_state_layer_ids=[1, 46, 90])
    config = load_draft(f"{folder}?tap_ids=output", dtype=torch.float32, device=CPU).config
    assert config.taps == (2, 47, 91)


@pytest.mark.parametrize(
    ("made_with", "settings", "named"),
    [
        ({}, {"architectures": ["Eagle3DeepseekV2ForCausalLM"]}, "architecture 'Eagle3DeepseekV2ForCausalLM' is not"),
        ({}, {"num_hidden_layers": 2}, "num_hidden_layers=2"),
        ({}, {"eagle_config": {"use_aux_hidden_state": False}}, "use_aux_hidden_state=false"),
        ({}, {"rope_scaling": {"rope_type": "llama3"}}, "rope scaling llama3"),
        ({}, {"attention_bias": True}, "attention_bias"),
        ({"fc_norm": True}, {}, "tensors that this draft does not use: fc_norm.0.weight"),
        ({}, {"fc_norm": True}, "no tensor fc_norm.0.weight"),
        ({}, {"draft_vocab_size": VOCAB}, r"lm_head.weight: expected \[50, 24\], found \[20, 24\]"),
        ({}, {"eagle_aux_hidden_state_layer_ids": [1, 46]}, r"taps \[2, 47\] are not 3"),
    ],
)
def test_what_a_draft_does_not_do_is_refused_by_name(tmp_path, made_with, settings, named):
    folder = write_sglang(tmp_path / "draft", random_tensors(**made_with), **settings)
    with pytest.raises(ValueError, match=named):
        load_draft(folder, dtype=torch.float32, device=CPU)


def test_maps_that_contradict_each_other_are_refused(tmp_path):
    tensors = random_tensors()
    tensors["t2d"][[0, 1]] = tensors["t2d"][[1, 0]]
    with pytest.raises(ValueError, match="d2t and t2d name different tokens"):
        load_draft(write_sglang(tmp_path / "draft", tensors), dtype=torch.float32, device=CPU)


@pytest.fixture(scope="module")
def target_file(tmp_path_factory):
    config = TargetConfig(
        vocab_size=VOCAB, num_layers=7, hidden_size=TARGET, num_heads=2, num_kv_heads=2, head_dim=8, expert_size=8
    )
    target, path = Decoder(config), tmp_path_factory.mktemp("target") / "target.safetensors"
    generate(target, target, config, 5, Single())
    save(target, path, torch.float32)
    return path


class Single:
    rank, world_size = 0, 1


def open_pair(target_file, folder):
    return load_models(str(target_file), str(folder), dtype=torch.float32, device=CPU, num_slots=16)


def test_a_draft_without_a_head_reads_the_targets(target_file, tmp_path):
    tensors = random_tensors(own_vocabulary=False)
    del tensors["lm_head.weight"]
    models = open_pair(target_file, write_sglang(tmp_path / "draft", tensors, draft_vocab_size=None))
    assert models.draft.lm_head is models.target.lm_head


def test_a_copy_of_the_targets_embedding_is_held_once_and_another_is_kept(target_file, tmp_path):
    tensors = random_tensors(own_embedding=True)
    assert open_pair(target_file, write_sglang(tmp_path / "other", tensors)).draft.embed_tokens is not None
    tensors["embed_tokens.weight"] = open_pair(target_file, tmp_path / "other").target.embed_tokens.weight
    assert open_pair(target_file, write_sglang(tmp_path / "copy", tensors)).draft.embed_tokens is None


def test_the_target_taps_the_layers_that_the_draft_asks_for(target_file, tmp_path):
    folder = write_sglang(tmp_path / "draft", random_tensors(), eagle_aux_hidden_state_layer_ids=[0, 2, 5])
    session = build({"target": str(target_file), "draft": str(folder), "max_len": 32})
    assert session.describe()["tap_layers"] == [1, 3, 6]
    session.prefill([[1, 2, 3]], mode="eagle3")
    session.draft()
    assert set(session.sequences.drafted_BK.flatten().tolist()) <= set(MEMBERS.tolist())
    session.verify()
    session.accept()
    assert len(session.read()[0]) >= 1


def test_taps_behind_the_last_layer_and_another_targets_draft_are_refused(target_file, tmp_path):
    folder = write_sglang(tmp_path / "deep", random_tensors(), eagle_aux_hidden_state_layer_ids=[1, 3, 6])
    with pytest.raises(ValueError, match=r"taps \[2, 4, 7\] do not ascend within the 7 layers"):
        open_pair(target_file, folder)
    folder = write_sglang(tmp_path / "other", random_tensors(own_vocabulary=False), vocab_size=60, draft_vocab_size=50)
    with pytest.raises(ValueError, match="made for a target of vocabulary 60, this one has 50"):
        open_pair(target_file, folder)
