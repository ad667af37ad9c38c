"""Hugging Face checkpoints of Qwen3-MoE and Mixtral: config.json and safetensors, whole or in shards.

What this model cannot compute is refused by name: a checkpoint that loads is computed as it was trained.
Experts may lie one by one, as published, or stacked, as transformers 5 writes them on request
(save_original_format=False). Must not import transformers.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from torch import Tensor

from model.config import TargetConfig
from model.decoder import Decoder, DecoderLayer
from model.parallel import Group


@dataclass(frozen=True, kw_only=True)
class Names:
    """Where a family keeps router and experts within a layer: gate, up and down of expert {e}."""

    router: str
    gate: str
    up: str
    down: str


FAMILIES: Mapping[str, Names] = {
    "qwen3_moe": Names(
        router="mlp.gate",
        gate="mlp.experts.{e}.gate_proj",
        up="mlp.experts.{e}.up_proj",
        down="mlp.experts.{e}.down_proj",
    ),
    "mixtral": Names(
        router="block_sparse_moe.gate",
        gate="block_sparse_moe.experts.{e}.w1",
        up="block_sparse_moe.experts.{e}.w3",
        down="block_sparse_moe.experts.{e}.w2",
    ),
}
STACKED_ROUTER, STACKED_GATE_UP, STACKED_DOWN = "mlp.gate", "mlp.experts.gate_up_proj", "mlp.experts.down_proj"


@dataclass(frozen=True, kw_only=True)
class TensorFolder:
    """Tensors of a folder by name. Files are opened once and read tensor by tensor."""

    folder: Path
    file_of: Mapping[str, str]
    opened: dict[str, Any] = field(default_factory=dict)

    def read(self, name: str, index: int | None = None) -> Tensor:
        """The tensor, or one slice of it along its first dimension. Raises ValueError if it is not there."""
        if name not in self.file_of:
            raise ValueError(f"{self.folder}: no tensor {name}")
        file = self.file_of[name]
        if file not in self.opened:
            self.opened[file] = safe_open(self.folder / file, framework="pt")
        handle = self.opened[file]
        return handle.get_tensor(name) if index is None else handle.get_slice(name)[index]


def open_folder(folder: Path) -> TensorFolder:
    """Raises ValueError if there are no safetensors, or files that the index names are missing."""
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        file_of = json.loads(index.read_text(encoding="utf-8"))["weight_map"]
        missing = sorted(file for file in set(file_of.values()) if not (folder / file).is_file())
        if missing:
            raise ValueError(f"{folder}: {len(missing)} files of {index.name} are missing, first {missing[0]}")
        return TensorFolder(folder=folder, file_of=file_of)
    single = folder / "model.safetensors"
    if not single.is_file():
        raise ValueError(f"{folder}: neither {single.name} nor {index.name}; other formats are not read")
    with safe_open(single, framework="pt") as file:
        return TensorFolder(folder=folder, file_of=dict.fromkeys(file.keys(), single.name))


def read_config(folder: Path, layers: int = 0) -> TargetConfig:
    """config.json as a TargetConfig, cut to `layers` (0: all). Raises ValueError on what is not supported."""
    raw = read_json(folder)
    family = raw.get("model_type")
    if family not in FAMILIES:
        raise ValueError(f"{folder}: model_type {family!r} is not supported: {', '.join(FAMILIES)}")
    refuse(folder, unsupported(raw))
    is_qwen = family == "qwen3_moe"
    total = raw["num_hidden_layers"]
    if not 0 <= layers <= total:
        raise ValueError(f"{folder} has {total} layers, not {layers}")
    return TargetConfig(
        vocab_size=raw["vocab_size"],
        num_layers=layers or total,
        hidden_size=raw["hidden_size"],
        num_heads=raw["num_attention_heads"],
        num_kv_heads=raw["num_key_value_heads"],
        head_dim=raw.get("head_dim") or raw["hidden_size"] // raw["num_attention_heads"],
        num_experts=raw.get("num_local_experts") or raw["num_experts"],
        top_k=raw["num_experts_per_tok"],
        expert_size=raw["moe_intermediate_size" if is_qwen else "intermediate_size"],
        qk_norm=is_qwen,
        rope_theta=rope_theta(raw),
        norm_eps=raw["rms_norm_eps"],
    )


class Settings(dict[str, Any]):
    """config.json: a setting that is needed and not there is an error that names it."""

    def __missing__(self, name: str) -> Any:
        raise ValueError(f"config.json has no {name}")


def read_json(folder: Path) -> dict[str, Any]:
    path = folder / "config.json"
    if not path.is_file():
        raise ValueError(f"{folder}: no config.json")
    return Settings(json.loads(path.read_text(encoding="utf-8")))


def unsupported(raw: Mapping[str, Any]) -> list[str]:
    """What config.json asks for and this model does not do."""
    is_qwen = raw["model_type"] == "qwen3_moe"
    has_window = raw.get("sliding_window") is not None and (not is_qwen or raw.get("use_sliding_window"))
    found = [
        (has_window, f"sliding_window={raw.get('sliding_window')}"),
        (is_qwen and not raw.get("norm_topk_prob", False), "norm_topk_prob=false"),
        (raw.get("decoder_sparse_step", 1) != 1, f"decoder_sparse_step={raw.get('decoder_sparse_step')}"),
        (raw.get("mlp_only_layers"), f"mlp_only_layers={raw.get('mlp_only_layers')}"),
    ]
    return [text for is_there, text in found if is_there] + unsupported_anywhere(raw)


def unsupported_anywhere(raw: Mapping[str, Any]) -> list[str]:
    """The same for what target and draft have in common."""
    ropes = [raw.get(name) or {} for name in ("rope_scaling", "rope_parameters")]
    kinds = [rope.get("rope_type", rope.get("type", "default")) for rope in ropes]
    found = [
        (raw.get("quantization_config"), "quantization_config"),
        (kinds != ["default"] * 2, f"rope scaling {' '.join(kind for kind in kinds if kind != 'default')}"),
        (any(rope.get("partial_rotary_factor", 1.0) != 1.0 for rope in [raw, *ropes]), "partial_rotary_factor"),
        (raw.get("attention_bias"), "attention_bias"),
        (raw.get("mlp_bias"), "mlp_bias"),
        (raw.get("hidden_act", "silu") != "silu", f"hidden_act={raw.get('hidden_act')}"),
    ]
    return [text for is_there, text in found if is_there]


def refuse(folder: Path, features: list[str]) -> None:
    if features:
        raise ValueError(f"{folder}: config.json asks for what this model does not do: {', '.join(features)}")


def rope_theta(raw: Mapping[str, Any]) -> float:
    """transformers 5 keeps it in rope_parameters, older versions at the top."""
    theta = (raw.get("rope_parameters") or {}).get("rope_theta", raw.get("rope_theta"))
    if theta is None:
        raise ValueError("config.json has no rope_theta")
    return float(theta)


def fill(folder: TensorFolder, config: TargetConfig, decoder: Decoder, group: Group) -> None:
    """Copies this rank's share into the decoder, one tensor at a time."""
    raw = read_json(folder.folder)
    put(decoder.embed_tokens.weight, folder.read("model.embed_tokens.weight"), "model.embed_tokens.weight")
    put(decoder.norm.weight, folder.read("model.norm.weight"), "model.norm.weight")
    # A tied head is stored once, as the embedding. Any other head that is not there is an error.
    is_embedding = raw.get("tie_word_embeddings", False) and "lm_head.weight" not in folder.file_of
    head = "model.embed_tokens.weight" if is_embedding else "lm_head.weight"
    put(decoder.lm_head.weight, folder.read(head), head)
    for index, layer in enumerate(decoder.layers):
        prefix = f"model.layers.{index}."
        fill_attention(layer, folder, prefix, config, group)
        if prefix + STACKED_GATE_UP in folder.file_of:
            _fill_experts(layer, folder, prefix + STACKED_ROUTER, _stacked(folder, prefix), group)
        else:
            names = FAMILIES[raw["model_type"]]
            _fill_experts(layer, folder, prefix + names.router, _one_by_one(folder, prefix, names), group)


def fill_attention(
    layer: DecoderLayer, folder: TensorFolder, prefix: str, config: TargetConfig, group: Group
) -> None:
    """Norms and attention of a layer; heads are shared out in order, so a share is a block of rows."""
    for norm in ("input_layernorm", "post_attention_layernorm"):
        name = f"{prefix}{norm}.weight"
        put(getattr(layer, norm).weight, folder.read(name), name)
    attention = layer.self_attn
    rows = [n * config.head_dim for n in (attention.num_heads, attention.num_kv_heads, attention.num_kv_heads)]
    for part, view in zip("qkv", attention.qkv_proj.weight.split(rows), strict=True):
        name = f"{prefix}self_attn.{part}_proj.weight"
        put(view, share(folder.read(name), 0, group), name)
    name = f"{prefix}self_attn.o_proj.weight"
    put(attention.o_proj.weight, share(folder.read(name), 1, group), name)
    for norm in ("q_norm", "k_norm") if config.qk_norm else ():
        name = f"{prefix}self_attn.{norm}.weight"
        put(getattr(attention, norm).weight, folder.read(name), name)


ExpertOf = Callable[[int], tuple[Tensor, Tensor, Tensor]]


def _fill_experts(layer: DecoderLayer, folder: TensorFolder, router: str, expert: ExpertOf, group: Group) -> None:
    put(layer.mlp.router.weight, folder.read(f"{router}.weight"), router)
    for e in range(layer.mlp.gate_up_EXIH.shape[0]):
        gate_IH, up_IH, down_HI = expert(e)
        put(layer.mlp.gate_up_EXIH[e, 0], share(gate_IH, 0, group), f"{router}: gate of expert {e}")
        put(layer.mlp.gate_up_EXIH[e, 1], share(up_IH, 0, group), f"{router}: up of expert {e}")
        put(layer.mlp.down_HEI[:, e], share(down_HI, 1, group), f"{router}: down of expert {e}")


def _one_by_one(folder: TensorFolder, prefix: str, names: Names) -> ExpertOf:
    def read(e: int) -> tuple[Tensor, Tensor, Tensor]:
        parts = (names.gate, names.up, names.down)
        gate_IH, up_IH, down_HI = (folder.read(f"{prefix}{part.format(e=e)}.weight") for part in parts)
        return gate_IH, up_IH, down_HI

    return read


def _stacked(folder: TensorFolder, prefix: str) -> ExpertOf:
    def read(e: int) -> tuple[Tensor, Tensor, Tensor]:
        gate_IH, up_IH = folder.read(prefix + STACKED_GATE_UP, e).chunk(2)
        return gate_IH, up_IH, folder.read(prefix + STACKED_DOWN, e)

    return read


def share(x: Tensor, dim: int, group: Group) -> Tensor:
    return x.chunk(group.world_size, dim)[group.rank]


def put(out: Tensor, x: Tensor, name: str) -> None:
    """Copies, after a look at the shape: a copy alone would stretch what is too small."""
    if out.shape != x.shape:
        raise ValueError(f"tensor {name}: expected {list(out.shape)}, found {list(x.shape)}")
    with torch.no_grad():
        out.copy_(x)
