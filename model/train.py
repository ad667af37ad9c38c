"""Trains the target, then its draft, and writes both with held-out prompts and what was reached.

    python -m model.train --out DIR

The number of steps is fixed, so a run is reproducible on one machine. The same command again continues from
the checkpoints under DIR/checkpoints. Weights are stored in bf16 and trained in fp32.
"""

import argparse
import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from model.config import DraftConfig, TargetConfig
from model.decoder import Decoder
from model.eagle3 import Draft
from model.evaluate import held_out_facts
from model.layers import Rope, build_rope
from model.losses import BALANCE_WEIGHT, draft_loss, target_loss
from model.text import generate, prompts
from model.weights import load_target, save

NUM_PROMPTS = 32
Network = TypeVar("Network", Decoder, Draft)


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Everything that decides the weights. One step takes `batch` windows of `length` tokens."""

    seed: int = 1
    held_out_seed: int = 2
    text_bytes: int = 4_000_000
    batch: int = 8
    length: int = 192
    unroll: int = 4
    target_steps: int = 1000
    target_lr: float = 3e-3
    draft_steps: int = 1500
    draft_lr: float = 2e-3
    warmup_steps: int = 60


@dataclass(frozen=True, kw_only=True)
class Phase:
    """One network's training. `loss_at(step)` draws that step's batch, so a phase can start anywhere."""

    name: str
    module: nn.Module
    loss_at: Callable[[int], Tensor]
    num_steps: int
    lr: float
    checkpoint: Path


def train(recipe: Recipe, out: Path, device: torch.device) -> None:
    """Writes target.safetensors, draft.safetensors and prompts.json into `out`."""
    started = time.monotonic()
    (out / "checkpoints").mkdir(parents=True, exist_ok=True)
    text = as_tensor(generate(recipe.seed, recipe.text_bytes), device)
    rope = build_training_rope(recipe, TargetConfig(), device)

    target = initialise(Decoder(TargetConfig()), recipe.seed).to(device)
    target_losses = fit(target_phase(recipe, target, text, rope, out), recipe)
    save(target, out / "target.safetensors")

    # The draft learns from the target as it is stored: rounded to bf16.
    teacher = load_target(out / "target.safetensors", dtype=torch.float32, device=device)
    draft = initialise(Draft(DraftConfig()), recipe.seed + 1).to(device)
    draft_losses = fit(draft_phase(recipe, teacher, draft, text, rope, out), recipe)
    save(draft, out / "draft.safetensors")

    losses = {"target_loss_by_step": target_losses, "draft_loss_by_step": draft_losses}
    write_facts(recipe, out, teacher, rope, losses | {"wall_s": time.monotonic() - started})


def write_facts(recipe: Recipe, out: Path, target: Decoder, rope: Rope, facts: Mapping[str, Any]) -> None:
    """Held-out prompts, and beside them what was trained how, with what result on held-out text."""
    device = rope.cos_PD.device
    held_out = generate(recipe.held_out_seed, 32 * (recipe.length + 1))
    windows_BT = as_tensor(held_out, device).view(32, -1).long()
    held_out_prompts = prompts(recipe.held_out_seed, NUM_PROMPTS)
    training = {
        "recipe": asdict(recipe),
        "torch": str(torch.__version__),
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu",
        **facts,
        **held_out_facts(out, target, rope, windows_BT, held_out_prompts, device.type),
    }
    document = {"prompts": held_out_prompts, "training": training}
    (out / "prompts.json").write_text(json.dumps(document, indent=1) + "\n")


def target_phase(recipe: Recipe, target: Decoder, text: Tensor, rope: Rope, out: Path) -> Phase:
    def loss_at(step: int) -> Tensor:
        loss, balance = target_loss(target, batch_at(text, step, recipe, recipe.length + 1), rope)
        return loss + BALANCE_WEIGHT * balance

    return Phase(
        name="target",
        module=target,
        loss_at=loss_at,
        num_steps=recipe.target_steps,
        lr=recipe.target_lr,
        checkpoint=out / "checkpoints" / "target.pt",
    )


def draft_phase(
    recipe: Recipe, teacher: Decoder, draft: Draft, text: Tensor, rope: Rope, out: Path
) -> Phase:
    def loss_at(step: int) -> Tensor:
        tokens_BT = batch_at(text, recipe.target_steps + step, recipe, recipe.length + recipe.unroll)
        return draft_loss(teacher, draft, tokens_BT, (rope, rope), recipe.unroll)

    return Phase(
        name="draft",
        module=draft,
        loss_at=loss_at,
        num_steps=recipe.draft_steps,
        lr=recipe.draft_lr,
        checkpoint=out / "checkpoints" / "draft.pt",
    )


def fit(phase: Phase, recipe: Recipe, stop_at: int | None = None) -> dict[int, float]:
    """Trains from the phase's checkpoint, if there is one, to `stop_at` or the end; returns losses by step."""
    optimizer = build_optimizer(phase.module, phase.lr)
    first, losses = restore(phase, optimizer, recipe)
    last = phase.num_steps if stop_at is None else stop_at
    for step in range(first, last):
        for settings in optimizer.param_groups:
            settings["lr"] = learning_rate(step, phase.num_steps, phase.lr, recipe.warmup_steps)
        loss = phase.loss_at(step)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(phase.module.parameters(), 1.0)
        optimizer.step()
        if (step + 1) % 50 == 0 or step + 1 == last:
            losses[step + 1] = loss.item()
            print(f"{phase.name} step {step + 1}/{phase.num_steps} loss {losses[step + 1]:.4f}", flush=True)
        if (step + 1) % 500 == 0 or step + 1 == last:
            store(phase, optimizer, recipe, step + 1, losses)
    return losses


def store(
    phase: Phase, optimizer: torch.optim.Optimizer, recipe: Recipe, step: int, losses: dict[int, float]
) -> None:
    state = {
        "recipe": asdict(recipe),
        "step": step,
        "losses": losses,
        "module": phase.module.state_dict(),
        "optimizer": optimizer.state_dict(),
    }
    temporary = phase.checkpoint.with_suffix(".part")
    torch.save(state, temporary)
    temporary.replace(phase.checkpoint)


def restore(
    phase: Phase, optimizer: torch.optim.Optimizer, recipe: Recipe
) -> tuple[int, dict[int, float]]:
    """Loads the checkpoint; returns the step to go on with and the losses so far.

    Raises ValueError if the checkpoint belongs to another recipe.
    """
    if not phase.checkpoint.exists():
        return 0, {}
    state = torch.load(phase.checkpoint, map_location=next(phase.module.parameters()).device)
    if state["recipe"] != asdict(recipe):
        raise ValueError(f"{phase.checkpoint} was made with {state['recipe']}: delete it or use that recipe")
    phase.module.load_state_dict(state["module"])
    optimizer.load_state_dict(state["optimizer"])
    return state["step"], state["losses"]


def build_optimizer(module: nn.Module, lr: float) -> torch.optim.Optimizer:
    """AdamW; weight decay on matrices only."""
    matrices = [x for x in module.parameters() if x.dim() >= 2]
    vectors = [x for x in module.parameters() if x.dim() < 2]
    settings = [{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0.0}]
    return torch.optim.AdamW(settings, lr=lr, betas=(0.9, 0.95), fused=True)


def learning_rate(step: int, num_steps: int, peak: float, warmup_steps: int) -> float:
    """Linear warm-up, then half a cosine down to 5 % of the peak."""
    if step < warmup_steps:
        return peak * (step + 1) / warmup_steps
    progress = (step - warmup_steps) / max(1, num_steps - warmup_steps)
    return peak * (0.05 + 0.95 * (1 + math.cos(math.pi * progress)) / 2)


def batch_at(text: Tensor, step: int, recipe: Recipe, num_tokens: int) -> Tensor:
    """tokens_BT: windows of the text at places drawn from (seed, step) alone."""
    random = torch.Generator().manual_seed(recipe.seed * 1_000_003 + step)
    starts = torch.randint(len(text) - num_tokens, (recipe.batch, 1), generator=random)
    places = starts + torch.arange(num_tokens)
    return text[places.to(text.device)].long()


def as_tensor(text: bytes, device: torch.device) -> Tensor:
    return torch.frombuffer(bytearray(text), dtype=torch.uint8).to(device)


def build_training_rope(recipe: Recipe, config: TargetConfig, device: torch.device) -> Rope:
    return build_rope(
        num_positions=recipe.length + recipe.unroll,
        head_dim=config.head_dim,
        theta=config.rope_theta,
        dtype=torch.float32,
        device=device,
    )


def initialise(module: Network, seed: int) -> Network:
    """Normal weights of standard deviation 1/sqrt(inputs); those that write into the residual stream smaller.

    Norms stay at one. The embedding has unit variance, so the stream starts at the scale norms expect.
    """
    generator = torch.Generator().manual_seed(seed)
    num_branches = 2 * getattr(module.config, "num_layers", 1)
    for name, x in module.named_parameters():
        if x.dim() < 2:
            continue
        std = 1.0 if name.startswith("embed_tokens") else x.shape[-1] ** -0.5
        if name.endswith(("o_proj.weight", "down_proj.weight", "down_HEI")):
            std *= num_branches**-0.5
        with torch.no_grad():
            x.copy_(torch.randn(x.shape, generator=generator) * std)
    return module


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    summary = "Trains the tiny target and its EAGLE-3 draft; the same command again continues."
    parser = argparse.ArgumentParser(prog="python -m model.train", description=summary)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--threads", type=int, default=1, help="CPU threads")
    for name, value in asdict(Recipe()).items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=type(value), default=value)
    return parser.parse_args(arguments)


def main() -> None:
    options = vars(parse())
    out, device, threads = (options.pop(name) for name in ("out", "device", "threads"))
    torch.set_num_threads(threads)
    train(Recipe(**options), out, torch.device(device))


if __name__ == "__main__":
    main()
