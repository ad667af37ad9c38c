"""Shapes of the target and of its draft: frozen records that travel as JSON inside the weight files.

Must not import torch, so that a configuration can be read where no model is built.
"""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class TargetConfig:
    """A decoder with Mixture-of-Experts in every layer. The defaults are the tiny preset."""

    vocab_size: int = 256
    num_layers: int = 8
    hidden_size: int = 128
    num_heads: int = 4
    num_kv_heads: int = 2
    head_dim: int = 32
    num_experts: int = 8
    top_k: int = 2
    expert_size: int = 64
    shared_size: int = 0  # inner width of the expert that every token passes; 0 means there is none
    qk_norm: bool = False
    rope_theta: float = 10_000.0
    norm_eps: float = 1e-6

    def __post_init__(self) -> None:
        if self.num_heads % self.num_kv_heads:
            raise ValueError(f"{self.num_heads} query heads do not share {self.num_kv_heads} KV heads evenly")
        if self.num_layers < 6:
            raise ValueError(f"{self.num_layers} layers: three distinct taps 2, L//2, L-3 need at least 6")
        if not 1 <= self.top_k <= self.num_experts:
            raise ValueError(f"top_k {self.top_k} is not within 1..{self.num_experts} experts")

    @property
    def tap_layers(self) -> tuple[int, int, int]:
        """Layers (0-based) whose INPUT the draft sees. EAGLE-3, eagle/model/modeling_llama_kv.py.

        Checkpoints that count outputs write the same taps as 1, L//2 - 1, L - 4.
        """
        return (2, self.num_layers // 2, self.num_layers - 3)


@dataclass(frozen=True, kw_only=True)
class DraftConfig:
    """One EAGLE-3 layer. Its vocabulary is the target's (no d2t map), its embedding the target's table."""

    vocab_size: int = 256
    num_taps: int = 3
    target_hidden_size: int = 128
    hidden_size: int = 128
    num_heads: int = 4
    num_kv_heads: int = 2
    head_dim: int = 32
    inner_size: int = 384
    rope_theta: float = 10_000.0
    norm_eps: float = 1e-6

    def __post_init__(self) -> None:
        if self.num_heads % self.num_kv_heads:
            raise ValueError(f"{self.num_heads} query heads do not share {self.num_kv_heads} KV heads evenly")
        if self.hidden_size != self.target_hidden_size:
            raise ValueError(
                f"draft width {self.hidden_size} differs from target width {self.target_hidden_size}: "
                "the draft reads the target's embedding table"
            )


Config = TargetConfig | DraftConfig
