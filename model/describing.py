"""What a session says of itself: configuration, ranks, versions, memory, and the bytes that a step has to move.

Must not change anything.
"""

import platform
import resource
from dataclasses import asdict
from typing import Any, Protocol

import torch

from model.config import TargetConfig
from model.decoder import Decoder
from model.memory import MemoryNeed
from model.parallel import Group
from model.steps import Drafter


class Told(Protocol):
    """The part of entry.Session that is told of."""

    spec: Any
    group: Group
    device: torch.device
    target: Decoder
    drafter: Drafter | None
    run_ahead: int
    memory: MemoryNeed


def describe(session: Told, api_version: int) -> dict[str, Any]:
    on_cuda = session.device.type == "cuda"
    spec = asdict(session.spec)
    return {
        "api_version": api_version,
        "spec": spec | {name: list(spec[name]) for name in ("pathologies", "accept_rates")},
        "target": asdict(session.target.config),
        "tap_layers": list(session.target.tap_layers),
        "draft": asdict(session.drafter.draft.config) if session.drafter else None,
        "memory": session.memory.as_json(),
        "world_size": session.group.world_size,
        "rank": session.group.rank,
        "num_threads": torch.get_num_threads(),
        "device": torch.cuda.get_device_name(session.device) if on_cuda else platform.machine(),
        "kernels": "triton" if session.spec.uses_kernels else "torch",
        "graphs": session.spec.uses_graphs,
        "run_ahead": session.run_ahead,
        "versions": {
            "python": platform.python_version(),
            "torch": str(torch.__version__),
            "cuda": torch.version.cuda if on_cuda else None,
            "nccl": ".".join(map(str, torch.cuda.nccl.version())) if on_cuda else None,
        },
    }


def peak_memory_bytes(device: torch.device) -> int:
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024  # Linux counts KiB


def step_bytes(session: Told, num_rows: int, distinct_experts: float, context: int) -> float:
    """Least bytes of one target forward on this rank: each weight it needs once, and the keys and values.

    `num_rows` rows in all sequences together, `context` slots attended to in all of them together. Activations,
    logits and the rows of the embedding that are looked up count as nothing.
    """
    config = session.target.config
    element = session.target.lm_head.weight.element_size()
    weights = layer_weights(config, session.group.world_size, distinct_experts) * config.num_layers
    kv_width = 2 * config.num_kv_heads // session.group.world_size * config.head_dim
    kv = (context + num_rows) * kv_width * config.num_layers
    return element * (weights + config.vocab_size * config.hidden_size + kv)


def layer_weights(config: TargetConfig, world_size: int, distinct_experts: float) -> float:
    """Numbers of weights that one rank reads in one layer; norms are left out."""
    heads = (2 * config.num_heads + 2 * config.num_kv_heads) // world_size  # q and o, k and v
    attention = heads * config.head_dim * config.hidden_size
    router = config.num_experts * config.hidden_size
    expert = 3 * config.expert_size // world_size * config.hidden_size
    shared = 3 * config.shared_size // world_size * config.hidden_size
    return attention + router + shared + distinct_experts * expert
