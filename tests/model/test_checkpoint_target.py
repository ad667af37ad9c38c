"""Hugging Face checkpoints against transformers, which wrote them: logits within 1e-4 in fp32."""

import json
import shutil

import pytest
import torch
from hf_checkpoints import random_model
from safetensors.torch import load_file, save_file

from model.attention import Window
from model.checkpoint import read_config
from model.entry import build
from model.evaluate import generate_plain
from model.layers import build_rope, causal_mask
from model.parallel import Group
from model.weights import load_target

CPU = torch.device("cpu")
TOKENS = torch.tensor([[5, 17, 60, 3, 3, 41, 0, 2, 22, 11, 9, 30]])
FORMS = {
    "qwen3 one by one": ("qwen3", {}, {}),
    "qwen3 stacked, in shards": ("qwen3", {}, {"save_original_format": False, "max_shard_size": "60KB"}),
    "qwen3 tied head": ("qwen3", {"tie_word_embeddings": True}, {}),
    "mixtral one by one, in shards": ("mixtral", {}, {"max_shard_size": "60KB"}),
    "mixtral stacked": ("mixtral", {}, {"save_original_format": False}),
}


@pytest.fixture(scope="module", params=FORMS)
def checkpoint(request, tmp_path_factory):
    """(folder, logits of transformers)"""
    family, changes, form = FORMS[request.param]
    model, folder = random_model(family, **changes), tmp_path_factory.mktemp("checkpoint")
    model.save_pretrained(folder, **form)
    with torch.no_grad():
        return folder, model(TOKENS).logits


def rope_of(target):
    config = target.config
    return build_rope(
        num_positions=16, head_dim=config.head_dim, theta=config.rope_theta, dtype=torch.float32, device=CPU
    )


def window(target, rows, start):
    return Window(start=start, rope=rope_of(target), mask=causal_mask(rows, start, CPU))


def test_prefill_gives_the_logits_of_transformers(checkpoint):
    folder, expected = checkpoint
    target = load_target(folder, dtype=torch.float32, device=CPU)
    logits = target.logits(target(TOKENS, window(target, 12, 0)))
    assert expected.std() > 0.3  # a model that says nothing would agree with anything
    torch.testing.assert_close(logits, expected, rtol=0, atol=1e-4)


def test_step_by_step_through_the_cache_gives_the_logits_of_transformers(checkpoint):
    folder, expected = checkpoint
    target = load_target(folder, dtype=torch.float32, device=CPU)
    caches = target.new_caches(16, dtype=torch.float32, device=CPU)
    parts = [target(TOKENS[:, :4], window(target, 4, 0), caches)]
    parts += [target(TOKENS[:, i : i + 1], window(target, 1, i), caches) for i in range(4, 12)]
    torch.testing.assert_close(target.logits(torch.cat(parts, dim=1)), expected, rtol=0, atol=1e-4)


class Together:
    """Stands in for the collective: each rank's forward runs in turn, sums are formed layer by layer."""

    def __init__(self, ranks):
        self.ranks = ranks

    def forward(self, tokens):
        x = self.ranks[0].embed_tokens(tokens)
        for layers in zip(*(rank.layers for rank in self.ranks), strict=True):
            rows = window(self.ranks[0], x.shape[1], 0)
            x = x + sum(layer.self_attn(layer.input_layernorm(x), rows, None) for layer in layers)
            x = x + sum(layer.mlp(layer.post_attention_layernorm(x)) for layer in layers)
        return self.ranks[0].logits(x)


def test_two_ranks_that_add_up_give_the_logits_of_transformers(checkpoint, monkeypatch):
    folder, expected = checkpoint
    monkeypatch.setattr(Group, "all_reduce", lambda self, x: x)
    ranks = [
        load_target(folder, dtype=torch.float32, device=CPU, group=Group(rank=r, world_size=2)) for r in (0, 1)
    ]
    torch.testing.assert_close(Together(ranks).forward(TOKENS), expected, rtol=0, atol=1e-4)


def test_a_session_decodes_a_checkpoint_cut_to_its_first_layers(checkpoint):
    folder, _ = checkpoint
    session = build({"target": f"{folder}?layers=7", "max_len": 16})
    assert session.describe()["target"]["num_layers"] == 7
    assert all(0 <= token < 61 for token in generate_plain(session, [5, 17, 60], 4))


def change_config(folder, copy, **changes):
    shutil.copytree(folder, copy)
    raw = json.loads((copy / "config.json").read_text())
    (copy / "config.json").write_text(json.dumps(raw | changes))
    return copy


@pytest.fixture(scope="module")
def qwen3(tmp_path_factory):
    folder = tmp_path_factory.mktemp("qwen3")
    random_model("qwen3").save_pretrained(folder)
    return folder


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"norm_topk_prob": False}, "norm_topk_prob=false"),
        ({"sliding_window": 4096, "use_sliding_window": True}, "sliding_window=4096"),
        ({"rope_parameters": {"rope_type": "yarn", "factor": 4.0, "rope_theta": 1e6}}, "rope scaling yarn"),
        ({"rope_scaling": {"type": "linear", "factor": 2.0}}, "rope scaling linear"),
        ({"quantization_config": {"quant_method": "fp8"}}, "quantization_config"),
        ({"attention_bias": True}, "attention_bias"),
        ({"hidden_act": "gelu"}, "hidden_act=gelu"),
        ({"mlp_only_layers": [0]}, r"mlp_only_layers=\[0\]"),
        ({"decoder_sparse_step": 2}, "decoder_sparse_step=2"),
        ({"rope_parameters": {"rope_type": "default"}}, "no rope_theta"),
        ({"model_type": "llama"}, "model_type 'llama' is not supported: qwen3_moe, mixtral"),
    ],
)
def test_what_the_model_does_not_do_is_refused_by_name(qwen3, tmp_path, changes, named):
    with pytest.raises(ValueError, match=named):
        read_config(change_config(qwen3, tmp_path / "copy", **changes))


def test_a_window_that_is_set_but_not_used_is_no_obstacle(qwen3, tmp_path):
    changes = {"sliding_window": 4096, "use_sliding_window": False}
    assert read_config(change_config(qwen3, tmp_path / "copy", **changes)).top_k == 2


def test_the_older_form_of_config_is_read_too(qwen3, tmp_path):
    """transformers 4: rope_theta at the top, num_experts for num_local_experts."""
    copy = change_config(qwen3, tmp_path / "copy", rope_theta=5e5, num_experts=6, rope_scaling=None)
    raw = json.loads((copy / "config.json").read_text())
    for name in ("rope_parameters", "num_local_experts"):
        del raw[name]
    (copy / "config.json").write_text(json.dumps(raw))
    config = read_config(copy)
    assert (config.rope_theta, config.num_experts) == (5e5, 6)


def test_a_missing_tensor_and_a_wrong_shape_are_named(qwen3, tmp_path):
    copy = change_config(qwen3, tmp_path / "more", num_local_experts=7)
    with pytest.raises(ValueError, match=r"mlp.gate: expected \[7, 32\], found \[6, 32\]"):
        load_target(copy, dtype=torch.float32, device=CPU)
    copy = change_config(qwen3, tmp_path / "deeper", num_hidden_layers=9)
    with pytest.raises(ValueError, match=r"no tensor model\.layers\.8\.input_layernorm\.weight"):
        load_target(copy, dtype=torch.float32, device=CPU)


def test_a_head_that_is_missing_is_the_embedding_only_where_the_two_are_tied(qwen3, tmp_path):
    copy = change_config(qwen3, tmp_path / "copy", tie_word_embeddings=False)
    tensors = load_file(copy / "model.safetensors")
    del tensors["lm_head.weight"]
    save_file(tensors, copy / "model.safetensors", {"format": "pt"})
    with pytest.raises(ValueError, match=r"no tensor lm_head\.weight"):
        load_target(copy, dtype=torch.float32, device=CPU)
    tied = load_target(
        change_config(copy, tmp_path / "tied", tie_word_embeddings=True), dtype=torch.float32, device=CPU
    )
    torch.testing.assert_close(tied.lm_head.weight, tensors["model.embed_tokens.weight"], rtol=0, atol=0)


def test_a_folder_without_safetensors_is_refused(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "pytorch_model.bin").write_bytes(b"")
    with pytest.raises(ValueError, match=r"neither model\.safetensors nor model\.safetensors\.index\.json"):
        load_target(tmp_path, dtype=torch.float32, device=CPU)
