"""Public models by name, with their real widths, and seeded random weights for them.

A weight is a function of (seed, tensor name, place in the whole tensor): a rank generates its share alone, and
the shares of any world size are cuts of the same model. `layers` cuts the depth; widths and routing stay.
Random routers choose experts as if rows were independent, so a preset reads more distinct experts than trained
weights would on text.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from model.config import Config, DraftConfig, TargetConfig
from model.hashing import key_of, uniforms
from model.parallel import Group
from model.sharding import coordinates

# Elements generated at once. On a GPU large enough to fill it (each int64 temporary then takes 128 MiB), on a
# CPU small enough for its caches.
BLOCK = {"cuda": 2**24, "cpu": 2**17}
# A random draft hardly hears the last token: attention averages over all slots and the feature is carried on, so it
# drafts one token again and again, and verified rows share their experts. With q, k and v this much larger, each
# head attends to one slot of its choice and the branches outweigh what is carried on (docs/model.md).
DRAFT_QKV_GAIN = 4.0


@dataclass(frozen=True, kw_only=True)
class Preset:
    target: TargetConfig
    draft: DraftConfig


def presets() -> Mapping[str, Preset]:
    """Targets: config.json of the published checkpoints. Drafts: SpecForge configs/*-eagle3.json.

    For Mixtral no EAGLE-3 configuration is published there: its draft has the target's own widths.
    """
    return {
        "tiny": Preset(target=TargetConfig(), draft=DraftConfig(norm_before_residual=True)),
        "qwen3-30b-a3b": Preset(
            target=_qwen3(num_layers=48, hidden_size=2048, num_heads=32, expert_size=768),
            draft=_draft(vocab_size=151936, hidden_size=2048, num_heads=32, num_kv_heads=4, inner_size=12288),
        ),
        "qwen3-235b-a22b": Preset(
            target=_qwen3(num_layers=94, hidden_size=4096, num_heads=64, expert_size=1536),
            draft=_draft(vocab_size=151936, hidden_size=4096, num_heads=64, num_kv_heads=4, inner_size=24576),
        ),
        "mixtral-8x7b": Preset(
            target=TargetConfig(
                vocab_size=32000,
                num_layers=32,
                hidden_size=4096,
                num_heads=32,
                num_kv_heads=8,
                head_dim=128,
                num_experts=8,
                top_k=2,
                expert_size=14336,
                rope_theta=1e6,
                norm_eps=1e-5,
            ),
            draft=_draft(vocab_size=32000, hidden_size=4096, num_heads=32, num_kv_heads=8, inner_size=14336),
        ),
    }


def preset_of(name: str, layers: int = 0) -> Preset:
    """`layers` 0: as published. Raises ValueError on an unknown name or more layers than there are."""
    known = presets()
    if name not in known:
        raise ValueError(f"no preset {name!r}: there are {', '.join(known)}")
    preset = known[name]
    if not 0 <= layers <= preset.target.num_layers:
        raise ValueError(f"preset {name} has {preset.target.num_layers} layers, not {layers}")
    return replace(preset, target=replace(preset.target, num_layers=layers or preset.target.num_layers))


def _qwen3(*, num_layers: int, hidden_size: int, num_heads: int, expert_size: int) -> TargetConfig:
    return TargetConfig(
        vocab_size=151936,
        num_layers=num_layers,
        hidden_size=hidden_size,
        num_heads=num_heads,
        num_kv_heads=4,
        head_dim=128,
        num_experts=128,
        top_k=8,
        expert_size=expert_size,
        qk_norm=True,
        rope_theta=1e6,
    )


def _draft(*, vocab_size: int, hidden_size: int, num_heads: int, num_kv_heads: int, inner_size: int) -> DraftConfig:
    return DraftConfig(
        vocab_size=vocab_size,
        target_hidden_size=hidden_size,
        hidden_size=hidden_size,
        num_heads=num_heads,
        num_kv_heads=num_kv_heads,
        head_dim=128,
        inner_size=inner_size,
        draft_vocab_size=32000,
        norm_before_residual=True,
    )


def generate(module: nn.Module, whole: nn.Module, config: Config, seed: int, group: Group) -> None:
    """Fills every tensor of `module`, this rank's share of `whole` (which may be on the meta device)."""
    shapes = {name: tuple(x.shape) for name, x in whole.state_dict().items()}
    num_layers = config.num_layers if isinstance(config, TargetConfig) else 1
    kind = type(config).__name__
    for name, out in module.state_dict().items():
        if name == "d2t":
            out.copy_(_spread_offsets(config, out.device))
        elif out.dim() == 1:
            out.fill_(1.0)  # norms
        else:
            places = coordinates(name, shapes[name], config, group, out.device)
            gain = DRAFT_QKV_GAIN if name == "midlayer.self_attn.qkv_proj.weight" else 1.0
            half_width = math.sqrt(3) * gain * _deviation(name, shapes[name], num_layers)
            fill_uniform(out, places, shapes[name], key_of(seed, kind, name), half_width)


def fill_uniform(out: Tensor, places: list[Tensor], shape: tuple[int, ...], key: int, half_width: float) -> None:
    """Uniform in [-half_width, half_width), rounded to bf16 whatever the dtype: one model in every precision.

    `places`: along each dimension, where in the whole tensor of this shape the elements of `out` lie.
    """
    if math.prod(shape) >= 2**32:
        raise ValueError(f"a tensor of shape {list(shape)} has more than 2^32 places")
    last = places[-1]
    rows = torch.zeros((), dtype=torch.int64, device=out.device)
    for place, size in zip(places, shape, strict=True):
        rows = (rows * size).unsqueeze(-1) + place if place is not last else rows * size
    rows, flat = rows.flatten(), out.view(-1, len(last))
    step = max(1, BLOCK[out.device.type] // len(last))
    for start in range(0, len(rows), step):
        unit = uniforms(rows[start : start + step, None] + last, key)
        flat[start : start + step] = unit.mul_(2).sub_(1).mul_(half_width).bfloat16()


def _deviation(name: str, shape: tuple[int, ...], num_layers: int) -> float:
    """1/sqrt(inputs), so that outputs have unit variance; less for what writes into the residual stream."""
    if name.endswith("embed_tokens.weight"):
        return 1.0
    writes_residual = name.endswith(("o_proj.weight", "down_proj.weight", "down_HEI"))
    return (shape[-1] * (2 * num_layers if writes_residual else 1)) ** -0.5


def _spread_offsets(config: Config, device: torch.device) -> Tensor:
    """d2t of a vocabulary of every n-th token."""
    assert isinstance(config, DraftConfig)
    ids = torch.arange(config.head_size, device=device)
    return ids * (config.vocab_size // config.head_size - 1)
