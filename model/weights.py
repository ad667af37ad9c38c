"""Builds target and draft from wherever their weights are: files of ours, Hugging Face folders, presets.

A file of ours is safetensors with the configuration in the metadata; tensor names are those of the modules.
Files hold whole tensors; a rank takes its share while loading. Modules are laid out first, without memory, so
that what is needed is known before any of it is taken.
"""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch.overrides import TorchFunctionMode

from model import checkpoint, eagle3_checkpoint, presets
from model.config import Config, DraftConfig, TargetConfig
from model.decoder import Decoder
from model.eagle3 import Draft
from model.memory import MemoryNeed, check, free_bytes, need_of
from model.parallel import SINGLE, Group
from model.sharding import shard
from model.sources import Source, parse

FORMAT = "perfguard-model@1"


@dataclass(frozen=True, kw_only=True)
class Models:
    target: Decoder
    draft: Draft | None
    memory: MemoryNeed


@dataclass(frozen=True, kw_only=True)
class Weights:
    """A configuration, and what fills this rank's module of it."""

    config: Any
    fill: Callable[[Any, Group], None]


def save(module: Decoder | Draft, path: Path, dtype: torch.dtype = torch.bfloat16) -> None:
    """Writes every parameter, rounded to `dtype`, and the configuration."""
    tensors = {
        name: x.detach().to("cpu", dtype if x.is_floating_point() else x.dtype).contiguous()
        for name, x in module.state_dict().items()
    }
    about = {"format": FORMAT, "kind": _kind(module.config), "config": asdict(module.config)}
    # One key only: safetensors writes several in random order, and equal weights should be equal files.
    save_file(tensors, path, {"model": json.dumps(about, sort_keys=True)})


def load_models(
    target: str,
    draft: str | None,
    *,
    dtype: torch.dtype,
    device: torch.device,
    group: Group = SINGLE,
    num_slots: int,
    num_sequences: int = 1,
    uses_kernels: bool = False,
    num_distributions: int = 0,
) -> Models:
    """This rank's target, with the taps its draft asks for, and the whole draft; texts as in model.sources.

    The last four only say what memory will be needed, as in memory.need_of.

    Raises ValueError, also if they need more memory than is free.
    """
    for_target, for_draft = open_target(parse(target, "target")), open_draft(parse(draft, "draft")) if draft else None
    if for_draft is not None:
        for_target = replace(for_target, config=with_taps(for_target.config, for_draft.config))
    decoder = _on_meta(for_target.config, group)
    drafting = _on_meta(for_draft.config, group) if for_draft else None
    need = need_of(
        decoder,
        drafting,
        dtype=dtype,
        num_slots=num_slots,
        num_sequences=num_sequences,
        device_type=device.type,
        uses_kernels=uses_kernels,
        num_distributions=num_distributions,
    )
    num_layers = for_target.config.num_layers
    check(need, free_bytes(device, group), where=str(device), num_layers=num_layers, world_size=group.world_size)
    _fill(decoder, for_target, dtype, device, group)
    if for_draft is not None:
        _fill(drafting, for_draft, dtype, device, group)
        _share(decoder, drafting)
    return Models(target=decoder, draft=drafting, memory=need)


def load_target(path: Path, *, dtype: torch.dtype, device: torch.device, group: Group = SINGLE) -> Decoder:
    """The target, or this rank's share of it. Raises ValueError if the file is not a target."""
    weights = open_target(parse(str(path), "target"))
    return _fill(_on_meta(weights.config, group), weights, dtype, device, group)


def load_draft(path: Path, *, dtype: torch.dtype, device: torch.device) -> Draft:
    """The draft, whole on every rank. Raises ValueError if the file is not a draft."""
    weights = open_draft(parse(str(path), "draft"))
    return _fill(_on_meta(weights.config, SINGLE), weights, dtype, device, SINGLE)


def open_target(source: Source) -> Weights:
    """Reads the configuration only. Raises ValueError on one that this model cannot follow."""
    if source.kind == "preset":
        return _generated(presets.preset_of(source.place, source.layers).target, source.seed)
    if source.kind == "file":
        return _from_file(Path(source.place), "target")
    folder = checkpoint.open_folder(Path(source.place))
    config = checkpoint.read_config(Path(source.place), source.layers)
    return Weights(config=config, fill=partial(checkpoint.fill, folder, config))


def open_draft(source: Source) -> Weights:
    """Reads the configuration only. Raises ValueError on one that this model cannot follow."""
    if source.kind == "preset":
        return _generated(presets.preset_of(source.place).draft, source.seed)
    if source.kind == "file":
        return _from_file(Path(source.place), "draft")
    folder = checkpoint.open_folder(Path(source.place))
    config = eagle3_checkpoint.read_config(Path(source.place), folder, source.tap_ids)
    return Weights(config=config, fill=partial(eagle3_checkpoint.fill, folder, config))


def with_taps(target: TargetConfig, draft: DraftConfig) -> TargetConfig:
    """The target's configuration with the taps its draft asks for. Raises ValueError if the two do not fit."""
    for name, ours, theirs in (
        ("width", target.hidden_size, draft.target_hidden_size),
        ("vocabulary", target.vocab_size, draft.vocab_size),
    ):
        if ours != theirs:
            raise ValueError(f"the draft was made for a target of {name} {theirs}, this one has {ours}")
    target = replace(target, taps=draft.taps or target.taps)
    if len(target.tap_layers) != draft.num_taps:
        raise ValueError(f"the draft reads {draft.num_taps} taps, the target gives {list(target.tap_layers)}")
    return target


def _from_file(path: Path, kind: str) -> Weights:
    config = (TargetConfig if kind == "target" else DraftConfig)(**_read_config(path, kind))
    return Weights(config=config, fill=partial(_fill_from_file, path, config))


def _generated(config: Config, seed: int) -> Weights:
    def fill(module: Decoder | Draft, group: Group) -> None:
        presets.generate(module, _on_meta(config, SINGLE), config, seed, group)

    return Weights(config=config, fill=fill)


class WithoutInit(TorchFunctionMode):
    """Leaves out the modules' own initial values. On meta tensors they mean nothing, and the first of them makes
    torch import its compiler: 0.8 s a launch.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if getattr(func, "__module__", "") == "torch.nn.init":
            return (kwargs or {}).get("tensor", args[0] if args else None)
        return func(*args, **(kwargs or {}))


def _on_meta(config: Any, group: Group) -> Any:
    with torch.device("meta"), WithoutInit():
        return Decoder(config, group) if isinstance(config, TargetConfig) else Draft(config)


def _fill(module: Any, weights: Weights, dtype: torch.dtype, device: torch.device, group: Group) -> Any:
    """Takes the memory and fills it tensor by tensor, so that nothing is held twice."""
    module.to(dtype).to_empty(device=device).requires_grad_(False)
    weights.fill(module, group)
    return module


def _fill_from_file(path: Path, config: Config, module: Decoder | Draft, group: Group) -> None:
    state = module.state_dict()
    with safe_open(path, framework="pt") as file:
        found = set(file.keys())
        if found != state.keys():
            raise ValueError(f"{path}: tensors do not match the configuration: {sorted(found ^ state.keys())[:4]}")
        for name, out in state.items():
            out.copy_(shard(name, file.get_tensor(name), config, group))


def _share(target: Decoder, draft: Draft) -> None:
    """Head and embedding that are the target's are held once."""
    if draft.lm_head is None:
        draft.borrow_head(target.lm_head)
    if draft.embed_tokens is not None and torch.equal(draft.embed_tokens.weight, target.embed_tokens.weight):
        draft.embed_tokens = None


def _kind(config: Config) -> str:
    return "draft" if isinstance(config, DraftConfig) else "target"


def _read_config(path: Path, kind: str) -> dict[str, Any]:
    with safe_open(path, framework="pt") as file:
        about = json.loads((file.metadata() or {}).get("model", "{}"))
    if (about.get("format"), about.get("kind")) != (FORMAT, kind):
        found = f"{about.get('format')} {about.get('kind')}"
        raise ValueError(f"{path}: expected {FORMAT} {kind}, found {found}")
    return about["config"]
