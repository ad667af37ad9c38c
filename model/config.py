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
    taps: tuple[int, ...] = ()  # what a draft checkpoint asks for; empty: the three of EAGLE-3

    def __post_init__(self) -> None:
        object.__setattr__(self, "taps", tuple(self.taps))  # JSON knows lists only
        if self.num_heads % self.num_kv_heads:
            raise ValueError(f"{self.num_heads} query heads do not share {self.num_kv_heads} KV heads evenly")
        if self.num_layers < 7:
            raise ValueError(f"{self.num_layers} layers: three distinct taps 2, L//2, L-3 need at least 7")
        if not 1 <= self.top_k <= self.num_experts:
            raise ValueError(f"top_k {self.top_k} is not within 1..{self.num_experts} experts")
        if list(self.taps) != sorted(set(self.taps)) or not all(0 <= tap < self.num_layers for tap in self.taps):
            raise ValueError(f"taps {list(self.taps)} do not ascend within the {self.num_layers} layers")

    @property
    def tap_layers(self) -> tuple[int, ...]:
        """Layers (0-based) whose INPUT the draft sees. EAGLE-3, eagle/model/modeling_llama_kv.py.

        Checkpoints that count outputs write the same taps as 1, L//2 - 1, L - 4.
        """
        return self.taps or (2, self.num_layers // 2, self.num_layers - 3)


@dataclass(frozen=True, kw_only=True)
class DraftConfig:
    """One EAGLE-3 layer and the variants that public checkpoints use. The defaults are the tiny preset.

    `draft_vocab_size` 0: the target's vocabulary, no d2t map. `taps`: layers of the target whose INPUT it
    sees, empty for the three of EAGLE-3. Without an own head or embedding it reads the target's.
    """

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
    draft_vocab_size: int = 0
    taps: tuple[int, ...] = ()
    has_own_head: bool = True
    has_own_embedding: bool = False
    norm_before_residual: bool = False  # the residual is the normed feature
    norm_output: bool = False  # the next step's feature is the normed one (EAGLE-3.1)
    fc_norm: bool = False  # each tap is normed on its own before fc (EAGLE-3.1)
    norm_before_fc: bool = False  # all taps are normed together before fc

    def __post_init__(self) -> None:
        object.__setattr__(self, "taps", tuple(self.taps))  # JSON knows lists only
        if self.num_heads % self.num_kv_heads:
            raise ValueError(f"{self.num_heads} query heads do not share {self.num_kv_heads} KV heads evenly")
        if self.hidden_size != self.target_hidden_size and not self.has_own_embedding:
            raise ValueError(
                f"draft width {self.hidden_size} differs from target width {self.target_hidden_size}: "
                "the draft reads the target's embedding table"
            )
        if not self.has_own_head and (self.has_own_vocabulary or self.hidden_size != self.target_hidden_size):
            raise ValueError("a draft without a head of its own needs the target's vocabulary and width")
        if self.fc_norm and self.norm_before_fc:
            raise ValueError("fc_norm and norm_before_fc exclude each other")
        if self.taps and len(self.taps) != self.num_taps:
            raise ValueError(f"taps {list(self.taps)} are not {self.num_taps}")

    @property
    def has_own_vocabulary(self) -> bool:
        """Drafted ids are then ids of a shorter list, which d2t maps to the target's."""
        return self.draft_vocab_size not in (0, self.vocab_size)

    @property
    def head_size(self) -> int:
        """Rows of the draft's head."""
        return self.draft_vocab_size or self.vocab_size


Config = TargetConfig | DraftConfig
