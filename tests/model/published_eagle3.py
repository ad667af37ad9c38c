"""EAGLE-3's draft written from its published equations, and checkpoints in both published forms.

Imports nothing of the model under test: no public library in the environment holds an EAGLE-3 draft (transformers
5.24 has none), so this is the independent implementation. Slow, row by row, in fp64.
"""

import json
import math

import torch
from safetensors.torch import save_file

HIDDEN, TARGET, VOCAB, DRAFT_VOCAB, HEADS, KV_HEADS, WIDTH, INNER = 24, 24, 50, 20, 4, 2, 8, 40
EPS, THETA = 1e-5, 5e5
# Every second token, then the last ones: members in ascending order, offsets in d2t.
MEMBERS = torch.tensor([*range(0, 36, 2), 48, 49])


def random_tensors(*, num_taps=3, own_vocabulary=True, own_embedding=False, fc_norm=False, norm_before_fc=False):
    """A draft's tensors by their names in EAGLE's own form; the layer's begin with midlayer."""
    torch.manual_seed(23)

    def matrix(rows, columns):
        return torch.randn(rows, columns) * columns**-0.5

    def norm(size):
        return torch.rand(size) + 0.5

    tensors = {
        "fc.weight": matrix(HIDDEN, num_taps * TARGET),
        "midlayer.self_attn.q_proj.weight": matrix(HEADS * WIDTH, 2 * HIDDEN),
        "midlayer.self_attn.k_proj.weight": matrix(KV_HEADS * WIDTH, 2 * HIDDEN),
        "midlayer.self_attn.v_proj.weight": matrix(KV_HEADS * WIDTH, 2 * HIDDEN),
        "midlayer.self_attn.o_proj.weight": matrix(HIDDEN, HEADS * WIDTH),
        "midlayer.mlp.gate_proj.weight": matrix(INNER, HIDDEN),
        "midlayer.mlp.up_proj.weight": matrix(INNER, HIDDEN),
        "midlayer.mlp.down_proj.weight": matrix(HIDDEN, INNER),
        "midlayer.hidden_norm.weight": norm(HIDDEN),
        "midlayer.input_layernorm.weight": norm(HIDDEN),
        "midlayer.post_attention_layernorm.weight": norm(HIDDEN),
        "norm.weight": norm(HIDDEN),
        "lm_head.weight": matrix(DRAFT_VOCAB if own_vocabulary else VOCAB, HIDDEN),
    }
    if own_vocabulary:
        tensors["d2t"] = MEMBERS - torch.arange(DRAFT_VOCAB)
        tensors["t2d"] = torch.zeros(VOCAB, dtype=torch.bool).index_fill(0, MEMBERS, True)
    if own_embedding:
        tensors["embed_tokens.weight"] = torch.randn(VOCAB, HIDDEN)
    if norm_before_fc:
        tensors["input_norm.weight"] = norm(num_taps * TARGET)
    return tensors | ({f"fc_norm.{i}.weight": norm(TARGET) for i in range(num_taps)} if fc_norm else {})


def layer_settings():
    return {
        "vocab_size": VOCAB,
        "hidden_size": HIDDEN,
        "intermediate_size": INNER,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS,
        "head_dim": WIDTH,
        "num_hidden_layers": 1,
        "rms_norm_eps": EPS,
        "rope_theta": THETA,
        "hidden_act": "silu",
    }


def write_sglang(folder, tensors, **settings):
    """LlamaForCausalLMEagle3: everything at the top of config.json, tensors midlayer.*"""
    about = {"architectures": ["LlamaForCausalLMEagle3"], "draft_vocab_size": DRAFT_VOCAB, **layer_settings()}
    return _write(folder, tensors, about | settings)


def write_speculators(folder, tensors, **settings):
    """Eagle3Speculator: the layer's settings apart, tensors layers.0.*"""
    about = {
        "architectures": ["Eagle3Speculator"],
        "draft_vocab_size": DRAFT_VOCAB,
        "speculators_config": {"algorithm": "eagle3"},
        "transformer_layer_config": layer_settings(),
    }
    renamed = {name.replace("midlayer.", "layers.0."): x for name, x in tensors.items()}
    return _write(folder, renamed, about | settings)


def _write(folder, tensors, about):
    folder.mkdir(parents=True)
    save_file({name: x.contiguous() for name, x in tensors.items()}, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(about))
    return folder


def rms(x, weight):
    return x / torch.sqrt((x * x).mean() + EPS) * weight


def turned(x, position):
    half = WIDTH // 2
    angle = torch.tensor([position * THETA ** (-2 * i / WIDTH) for i in range(half)], dtype=torch.float64)
    a, b = x[:half], x[half:]
    return torch.cat((a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()))


class PublishedDraft:
    """One sequence. `step(embedded, h)` adds a slot and returns (logits, what the next step takes as h)."""

    def __init__(self, tensors, norm_before_residual=False, norm_output=False):
        self.w = {name: x.double() if x.is_floating_point() else x for name, x in tensors.items()}
        self.norm_before_residual, self.norm_output = norm_before_residual, norm_output
        self.keys, self.values = [], []

    def fuse(self, taps):
        """taps: one vector of the target's width for each tapped layer, low to high."""
        if "fc_norm.0.weight" in self.w:
            taps = [rms(tap, self.w[f"fc_norm.{i}.weight"]) for i, tap in enumerate(taps)]
        joined = torch.cat(list(taps))
        if "input_norm.weight" in self.w:
            joined = rms(joined, self.w["input_norm.weight"])
        return self.w["fc.weight"] @ joined

    def step(self, embedded, h):
        normed = rms(h, self.w["midlayer.hidden_norm.weight"])
        residual = normed if self.norm_before_residual else h
        x = torch.cat((rms(embedded, self.w["midlayer.input_layernorm.weight"]), normed))
        a1 = residual + self._attend(x)
        y = rms(a1, self.w["midlayer.post_attention_layernorm.weight"])
        gate, up = (self.w[f"midlayer.mlp.{part}_proj.weight"] @ y for part in ("gate", "up"))
        a2 = a1 + self.w["midlayer.mlp.down_proj.weight"] @ (gate / (1 + torch.exp(-gate)) * up)
        out = rms(a2, self.w["norm.weight"])
        return self.w["lm_head.weight"] @ out, out if self.norm_output else a2

    def _attend(self, x):
        position = len(self.keys)
        q, k, v = ((self.w[f"midlayer.self_attn.{part}_proj.weight"] @ x).view(-1, WIDTH) for part in "qkv")
        self.keys.append([turned(head, position) for head in k])
        self.values.append(list(v))
        mixed = []
        for n in range(HEADS):
            g = n // (HEADS // KV_HEADS)
            scores = torch.stack([turned(q[n], position) @ keys[g] / math.sqrt(WIDTH) for keys in self.keys])
            weights = torch.exp(scores - scores.max())
            mixed.append(sum(w * values[g] for w, values in zip(weights / weights.sum(), self.values, strict=True)))
        return self.w["midlayer.self_attn.o_proj.weight"] @ torch.cat(mixed)
