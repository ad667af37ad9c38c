"""Puts a session's parts together: weights, caches, positions, the draft, and the forward pass they run in.

Must not decode anything.
"""

from collections.abc import Sequence
from typing import Protocol

import torch

from model.attention import KVCache
from model.choices import Choices, new_choices, num_kept
from model.decoder import Decoder
from model.fused import fused_draft, fused_forward, fused_fuse, lay_out_for_kernels
from model.kernels.ops import Ops
from model.kernels.plain import build_plain_ops
from model.layers import Rope, build_rope
from model.parallel import Group
from model.pathologies import Pathologies
from model.sequences import Sequences, new_sequences
from model.spec import DTYPES, Spec
from model.steps import Drafter, Steps, TargetForward, plain_draft, plain_forward
from model.weights import Models, load_models


class Parts(Protocol):
    """The part of entry.Session that is needed here."""

    group: Group
    device: torch.device
    pathologies: Pathologies
    target: Decoder
    caches: Sequence[KVCache]
    rope: Rope
    ops: Ops
    drafter: Drafter | None


def load(spec: Spec, group: Group, device: torch.device) -> Models:
    """Raises ValueError, also if there is not enough memory."""
    return load_models(
        spec.target,
        spec.draft,
        dtype=DTYPES[spec.dtype],
        device=device,
        group=group,
        num_slots=spec.max_len,
        num_sequences=spec.batch,
        uses_kernels=spec.uses_kernels,
        num_distributions=num_kept(spec.batch, spec.num_draft_tokens, spec.temperature, has_draft=bool(spec.draft)),
    )


def target_parts(
    spec: Spec, models: Models, device: torch.device, pathologies: Pathologies
) -> tuple[Decoder, list[KVCache], Rope]:
    dtype, target = DTYPES[spec.dtype], models.target
    if pathologies.wrong_tap_layers:
        target.tap_layers = tuple(layer - 1 for layer in target.tap_layers)
    for layer in target.layers:
        layer.mlp.copies_experts = pathologies.redundant_expert_copy
    caches = target.new_caches(spec.max_len, dtype=dtype, device=device, batch=spec.batch)
    return target, caches, _rope(spec, target.config.head_dim, target.config.rope_theta, device)


def load_ops(spec: Spec, models: Models, device: torch.device) -> Ops:
    """Kernels, with the weights laid out for them; PyTorch's where plain modules are to run.

    triton is imported here and not before, so that a machine without it runs everything else.
    """
    if not spec.uses_kernels:
        return build_plain_ops()
    from model.kernels.triton_ops import build_triton_ops, check_draft_widths, check_widths

    check_widths(models.target.config, models.target.layers[0].mlp.group.world_size)
    if models.draft is not None:
        check_draft_widths(models.draft.config)
    for layer in models.target.layers:
        lay_out_for_kernels(layer.mlp)
    return build_triton_ops(device)


def new_drafter(spec: Spec, models: Models, device: torch.device, ops: Ops) -> Drafter | None:
    draft = models.draft
    if draft is None:
        return None
    dtype = DTYPES[spec.dtype]
    embed_tokens = draft.embed_tokens or models.target.embed_tokens
    cache = draft.midlayer.self_attn.new_cache(spec.max_len, dtype=dtype, device=device, batch=spec.batch)
    rope = _rope(spec, draft.config.head_dim, draft.config.rope_theta, device)
    own = (draft, embed_tokens, cache, rope)
    return Drafter(
        draft=draft,
        embed_tokens=embed_tokens,
        cache=cache,
        rope=rope,
        fuse=fused_fuse(draft, ops) if spec.uses_kernels else draft.fuse,
        forward=fused_draft(*own, ops) if spec.uses_kernels else plain_draft(*own),
    )


def build_steps(spec: Spec, parts: Parts) -> Steps:
    config = parts.target.config
    sequences = new_sequences(
        batch=spec.batch,
        num_draft_tokens=spec.num_draft_tokens,
        taps_size=len(parts.target.tap_layers) * config.hidden_size,
        dtype=DTYPES[spec.dtype],
        device=parts.device,
    )
    return Steps(
        sequences=sequences,
        choices=_choices(spec, sequences, parts),
        target=_forward(spec, parts),
        drafter=parts.drafter,
        max_len=spec.max_len,
        marks=parts.group.marks,
        pathologies=parts.pathologies,
    )


def _choices(spec: Spec, sequences: Sequences, parts: Parts) -> Choices:
    draft = parts.drafter.draft if parts.drafter else None
    has_map = draft is not None and draft.config.has_own_vocabulary
    return new_choices(
        sequences,
        parts.ops,
        temperature=spec.temperature,
        seed=spec.sampling_seed,
        accept_rates=spec.accept_rates,
        vocab_size=parts.target.config.vocab_size,
        drafted_ids_D=draft.to_target(torch.arange(draft.config.head_size, device=parts.device)) if has_map else None,
        has_draft=draft is not None,
    )


def _forward(spec: Spec, parts: Parts) -> TargetForward:
    if spec.uses_kernels:
        return fused_forward(parts.target, parts.caches, parts.rope, parts.ops)
    return plain_forward(parts.target, parts.caches, parts.rope)


def _rope(spec: Spec, head_dim: int, theta: float, device: torch.device) -> Rope:
    return build_rope(
        num_positions=spec.max_len, head_dim=head_dim, theta=theta, dtype=DTYPES[spec.dtype], device=device
    )
