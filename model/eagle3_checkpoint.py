"""Public EAGLE-3 draft checkpoints, both in the form of EAGLE and SGLang and in that of speculators and vLLM.

The forms differ in tensor names (midlayer. or layers.0.), in where the layer's shape stands (at the top or in
transformer_layer_config) and in how tap ids count. A tensor that is not used is an error: a draft with a part
left out would draft badly and say nothing.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from model.checkpoint import Settings, TensorFolder, put, read_json, refuse, rope_theta, unsupported_anywhere
from model.config import DraftConfig
from model.eagle3 import Draft
from model.parallel import Group

# Architecture -> what its tap ids count: outputs of layers (SGLang, SpecForge) or inputs (vLLM, speculators).
ARCHITECTURES: Mapping[str, str] = {
    "LlamaForCausalLMEagle3": "output",
    "Eagle3LlamaForCausalLM": "entering",
    "Eagle3Speculator": "entering",
}
IDS = ("eagle_aux_hidden_state_layer_ids", "aux_hidden_state_layer_ids")
VARIANTS = ("norm_before_residual", "norm_output", "fc_norm", "norm_before_fc")


def read_config(path: Path, folder: TensorFolder, tap_ids: str = "") -> DraftConfig:
    """config.json as a DraftConfig. `tap_ids`: how ids count, if not as usual for the architecture.

    Raises ValueError on what is not supported.
    """
    top = read_json(path)
    raw = Settings({**top, **top.get("transformer_layer_config", {})})
    architecture = next(iter(top.get("architectures") or ()), None)
    if architecture not in ARCHITECTURES:
        raise ValueError(f"{path}: architecture {architecture!r} is not supported: {', '.join(ARCHITECTURES)}")
    refuse(path, _unsupported(top, raw))
    target_size = top.get("target_hidden_size") or raw["hidden_size"]
    has_own_head = "lm_head.weight" in folder.file_of
    return DraftConfig(
        vocab_size=raw["vocab_size"],
        num_taps=_num_taps(folder, target_size),
        target_hidden_size=target_size,
        hidden_size=raw["hidden_size"],
        num_heads=raw["num_attention_heads"],
        num_kv_heads=raw["num_key_value_heads"],
        head_dim=raw.get("head_dim") or raw["hidden_size"] // raw["num_attention_heads"],
        inner_size=raw["intermediate_size"],
        rope_theta=rope_theta(raw),
        norm_eps=raw["rms_norm_eps"],
        draft_vocab_size=top.get("draft_vocab_size") or 0,
        taps=_entering(top, tap_ids or ARCHITECTURES[architecture]),
        has_own_head=has_own_head,
        has_own_embedding="embed_tokens.weight" in folder.file_of,
        **{name: bool(_setting(top, name)) for name in VARIANTS},
    )


def _unsupported(top: Mapping[str, Any], raw: Mapping[str, Any]) -> list[str]:
    uses_taps = _setting(top, "use_aux_hidden_state")
    found = [
        (raw.get("num_hidden_layers", 1) != 1, f"num_hidden_layers={raw.get('num_hidden_layers')}"),
        (uses_taps is False, "use_aux_hidden_state=false"),
    ]
    return [text for is_there, text in found if is_there] + unsupported_anywhere(raw)


def _setting(top: Mapping[str, Any], name: str) -> Any:
    return top.get(name, (top.get("eagle_config") or {}).get(name))


def _entering(top: Mapping[str, Any], tap_ids: str) -> tuple[int, ...]:
    """Layers whose input is tapped; () where the checkpoint leaves them to the default."""
    found: Sequence[int] = next((ids for name in IDS if (ids := _setting(top, name))), ())
    return tuple(id_ + (tap_ids == "output") for id_ in found)


def _num_taps(folder: TensorFolder, target_size: int) -> int:
    columns = folder.read("fc.weight").shape[1]
    if columns % target_size:
        raise ValueError(f"{folder.folder}: fc reads {columns} channels, no multiple of the target's {target_size}")
    return columns // target_size


def fill(folder: TensorFolder, config: DraftConfig, draft: Draft, group: Group) -> None:
    """Copies the whole draft, on every rank. Raises ValueError if a tensor is missing or would be left over."""
    left = set(folder.file_of)
    layer = "midlayer." if any(name.startswith("midlayer.") for name in left) else "layers.0."
    for name, out in draft.state_dict().items():
        sources = _merged(name.replace("midlayer.", layer))
        left -= set(sources)
        put(out, torch.cat([folder.read(source) for source in sources]), name)
    _check_vocabulary(folder, config, left)
    if left - {"d2t", "t2d"}:
        raise ValueError(f"{folder.folder}: tensors that this draft does not use: {', '.join(sorted(left))}")


def _merged(name: str) -> list[str]:
    """The tensors of a checkpoint that are one tensor here, in their order."""
    for merged, parts in (("qkv_proj", ("q_proj", "k_proj", "v_proj")), ("gate_up_proj", ("gate_proj", "up_proj"))):
        if f".{merged}." in name:
            return [name.replace(merged, part) for part in parts]
    return [name]


def _check_vocabulary(folder: TensorFolder, config: DraftConfig, left: set[str]) -> None:
    """d2t and t2d have to say the same; without a vocabulary of its own, that ids stay as they are."""
    if "d2t" in left and folder.read("d2t").any():
        raise ValueError(f"{folder.folder}: d2t moves ids, but draft_vocab_size is that of the target")
    if "t2d" in left and config.has_own_vocabulary:
        d2t = folder.read("d2t")
        members = torch.zeros(config.vocab_size, dtype=torch.bool)
        members[d2t + torch.arange(len(d2t))] = True
        if not torch.equal(members, folder.read("t2d").bool()):
            raise ValueError(f"{folder.folder}: d2t and t2d name different tokens")
