"""What a runner may ask for when it builds a session, and what cannot be. Must not load or start anything."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

DTYPES = {"float32": torch.float32, "float64": torch.float64, "bfloat16": torch.bfloat16}
CHOICES = {"kernels": ("auto", "torch", "triton"), "graphs": ("auto", "on", "off"), "dtype": tuple(DTYPES)}
MAX_BATCH = 32


@dataclass(frozen=True, kw_only=True)
class Spec:
    """What a runner may ask for. `target`, `draft`: file, folder or preset (model/sources.py); `draft` None: plain
    decoding only. `max_len`: slots of the KV caches.

    `temperature` 0: greedy. `accept_rates`: how often each drafted token is accepted, whatever the logits say; empty
    for real acceptance. `sampling_seed`: of the coins that either throws.
    `kernels` and `graphs`: "auto" is triton and on where there is a CUDA device (float64 has no kernels).
    """

    target: str
    draft: str | None = None
    dtype: str = "float32"
    device: str = "cpu"
    max_len: int = 512
    batch: int = 1
    num_draft_tokens: int = 3
    num_threads: int = 1
    seed: int = 0
    kernels: str = "auto"
    graphs: str = "auto"
    all_reduce: str = "nccl"
    pathologies: Sequence[str] = ()
    temperature: float = 0.0
    accept_rates: Sequence[float] = ()
    sampling_seed: int = 0

    def __post_init__(self) -> None:
        for name, known in CHOICES.items():
            if getattr(self, name) not in known:
                raise ValueError(f"unknown {name} {getattr(self, name)!r}: use one of {', '.join(known)}")
        for name, most in (("num_draft_tokens", 4), ("batch", MAX_BATCH)):
            if not 1 <= getattr(self, name) <= most:
                raise ValueError(f"{name} {getattr(self, name)} is not within 1..{most}")
        if not 0 <= self.temperature < float("inf"):
            raise ValueError(f"temperature {self.temperature} is not a number of at least 0")
        if self.graphs == "on" and self.device != "cuda":
            raise ValueError(f"graphs on: CUDA graphs need device cuda, not {self.device}")
        if self.kernels == "triton" and self.dtype == "float64":
            raise ValueError("kernels triton compute in float32 and bfloat16, not in float64: use torch")

    @property
    def uses_graphs(self) -> bool:
        return self.graphs == "on" or (self.graphs == "auto" and self.device == "cuda")

    @property
    def uses_kernels(self) -> bool:
        is_able = self.device == "cuda" and self.dtype != "float64"
        return self.kernels == "triton" or (self.kernels == "auto" and is_able)
