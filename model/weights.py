"""Weight files: safetensors with the configuration in the metadata; tensor names are those of the modules.

Files hold whole tensors; a rank cuts its share out while loading. Must not draw random weights: `train` does.
"""

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from model.config import Config, DraftConfig, TargetConfig
from model.decoder import Decoder
from model.eagle3 import Draft
from model.parallel import SINGLE, Group

FORMAT = "perfguard-model@1"


def save(module: Decoder | Draft, path: Path, dtype: torch.dtype = torch.bfloat16) -> None:
    """Writes every parameter, rounded to `dtype`, and the configuration."""
    tensors = {name: x.detach().to("cpu", dtype).contiguous() for name, x in module.state_dict().items()}
    about = {"format": FORMAT, "kind": _kind(module.config), "config": asdict(module.config)}
    # One key only: safetensors writes several in random order, and equal weights should be equal files.
    save_file(tensors, path, {"model": json.dumps(about, sort_keys=True)})


def load_target(path: Path, *, dtype: torch.dtype, device: torch.device, group: Group = SINGLE) -> Decoder:
    """The target, or this rank's share of it. Raises ValueError if the file is not a target."""
    config = TargetConfig(**_read_config(path, "target"))
    with torch.device("meta"):
        decoder = Decoder(config, group)
    _fill(decoder, path, dtype, device, lambda name, x: shard(name, x, config, group))
    return decoder


def load_draft(path: Path, *, dtype: torch.dtype, device: torch.device) -> Draft:
    """The draft, whole on every rank. Raises ValueError if the file is not a draft."""
    config = DraftConfig(**_read_config(path, "draft"))
    with torch.device("meta"):
        draft = Draft(config)
    _fill(draft, path, dtype, device, lambda _, x: x)
    return draft


def shard(name: str, x: Tensor, config: TargetConfig, group: Group) -> Tensor:
    """This rank's share of a tensor: heads of q, k and v each, and the inner width of every expert."""
    if group.world_size == 1:
        return x

    def part(y: Tensor, dim: int) -> Tensor:
        return y.chunk(group.world_size, dim)[group.rank]

    if name.endswith("qkv_proj.weight"):
        rows = [heads * config.head_dim for heads in (config.num_heads, *[config.num_kv_heads] * 2)]
        return torch.cat([part(y, 0) for y in x.split(rows)])
    if name.endswith("shared_expert.gate_up_proj.weight"):
        return torch.cat([part(y, 0) for y in x.chunk(2)])
    if name.endswith(("o_proj.weight", "shared_expert.down_proj.weight")):
        return part(x, 1)
    if name.endswith(("gate_up_EXIH", "down_HEI")):
        return part(x, 2)
    return x


def _fill(
    module: nn.Module,
    path: Path,
    dtype: torch.dtype,
    device: torch.device,
    cut: Callable[[str, Tensor], Tensor],
) -> None:
    with safe_open(path, framework="pt") as file:
        tensors = {name: cut(name, file.get_tensor(name)) for name in file.keys()}  # noqa: SIM118
    placed = {name: x.to(device, dtype).contiguous() for name, x in tensors.items()}
    module.load_state_dict(placed, assign=True)
    module.requires_grad_(False)


def _kind(config: Config) -> str:
    return "draft" if isinstance(config, DraftConfig) else "target"


def _read_config(path: Path, kind: str) -> dict[str, Any]:
    with safe_open(path, framework="pt") as file:
        about = json.loads((file.metadata() or {}).get("model", "{}"))
    if (about.get("format"), about.get("kind")) != (FORMAT, kind):
        found = f"{about.get('format')} {about.get('kind')}"
        raise ValueError(f"{path}: expected {FORMAT} {kind}, found {found}")
    return about["config"]
