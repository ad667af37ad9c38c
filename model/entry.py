"""The seam a runner drives: `build(spec)` gives a Session, one greedy sequence at a time.

Runners of newer harnesses drive old commits of this file, so its names and meanings change only together
with API_VERSION. It measures nothing and prints nothing.

Legend: T rows of a forward, H hidden, C taps side by side; leading 1: one sequence.
"""

import os
import platform
import resource
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal

import torch
from torch import Tensor

from model.attention import Window
from model.eagle3 import Draft
from model.layers import Rope, build_rope, causal_mask
from model.parallel import Group, join_group, leave_group, pick_device, read_group
from model.speculate import Drafter, Extension, accept_greedy
from model.weights import load_models

API_VERSION = 1

Mode = Literal["plain", "eagle3"]
DTYPES = {"float32": torch.float32, "float64": torch.float64, "bfloat16": torch.bfloat16}


@dataclass(frozen=True, kw_only=True)
class Spec:
    """What a runner may ask for. `target`, `draft`: file, folder or preset (model/sources.py); `draft` None:
    plain decoding only. `max_len`: slots of the KV caches.
    """

    target: str
    draft: str | None = None
    dtype: str = "float32"
    device: str = "cpu"
    max_len: int = 512
    num_draft_tokens: int = 3
    num_threads: int = 1
    seed: int = 0

    def __post_init__(self) -> None:
        if self.dtype not in DTYPES:
            raise ValueError(f"unknown dtype {self.dtype!r}: use one of {', '.join(DTYPES)}")
        if not 1 <= self.num_draft_tokens <= 4:
            raise ValueError(f"num_draft_tokens {self.num_draft_tokens} is not within 1..4")


def build(spec: Mapping[str, Any]) -> "Session":
    """Loads the weights and joins the process group the environment describes. Raises ValueError."""
    unknown = sorted(set(spec) - {field.name for field in fields(Spec)})
    if unknown:
        raise ValueError(f"unknown keys in spec: {', '.join(unknown)} (API_VERSION {API_VERSION})")
    checked = Spec(**spec)
    torch.set_num_threads(checked.num_threads)
    torch.manual_seed(checked.seed)
    device = pick_device(checked.device, read_group(os.environ))
    return Session(checked, join_group(device), device)


class Session:
    """One model and one sequence. All ranks make the same calls and get the same answers.

    Plain:   prefill(prompt), then decode(token) again and again.
    EAGLE-3: prefill(prompt, mode="eagle3"), then draft, verify, accept again and again.
    """

    def __init__(self, spec: Spec, group: Group, device: torch.device) -> None:
        self.spec = spec
        self.group = group
        self.device = device
        dtype = DTYPES[spec.dtype]
        models = load_models(
            spec.target, spec.draft, dtype=dtype, device=device, group=group, num_slots=spec.max_len
        )
        self.target, self.memory = models.target, models.memory
        self.caches = self.target.new_caches(spec.max_len, dtype=dtype, device=device)
        self.rope = self._rope(self.target.config.head_dim, self.target.config.rope_theta)
        self.drafter = self._new_drafter(models.draft) if models.draft else None
        self.length = 0  # tokens in the target's KV cache; the newest token is not in it yet
        self.newest = -1
        self.extension: Extension | None = None
        self.verified_taps_1TC: Tensor | None = None

    @torch.inference_mode()
    def prefill(self, prompt: Sequence[int], mode: Mode = "plain") -> int:
        """Forgets everything, takes the prompt in, returns the first new token.

        Only mode "eagle3" collects taps for the draft. Raises ValueError: no draft, or prompt too long.
        """
        if mode not in ("plain", "eagle3") or (mode == "eagle3" and self.drafter is None):
            raise ValueError(f"mode {mode!r}: use plain, or eagle3 with a draft in the spec")
        if not prompt:
            raise ValueError("empty prompt: there is no token to continue")
        self.length, self.extension, self.verified_taps_1TC = 0, None, None
        tokens_1T = self._tensor(prompt)
        x_1TH, taps_1TC = self._forward(tokens_1T, collect_taps=mode == "eagle3")
        self.newest = int(self.target.logits(x_1TH[:, -1:]).argmax(-1))
        if taps_1TC is not None:
            next_tokens_1T = self._tensor([*prompt[1:], self.newest])
            self.extension = Extension(
                start=0, taps_1TC=taps_1TC, next_tokens_1T=next_tokens_1T, read_row=len(prompt) - 1
            )
        self.length = len(prompt)
        return self.newest

    @torch.inference_mode()
    def decode(self, token: int) -> int:
        """One plain step: takes `token` in, returns the next. The draft does not see it."""
        x_11H, _ = self._forward(self._tensor([token]), collect_taps=False)
        self.length += 1
        self.extension = None
        self.newest = int(self.target.logits(x_11H).argmax(-1))
        return self.newest

    @torch.inference_mode()
    def draft(self) -> list[int]:
        """K drafted tokens: the draft takes in the accepted rows, then makes K-1 steps on its own."""
        if self.drafter is None or self.extension is None:
            raise RuntimeError('nothing to draft from: start with prefill(prompt, mode="eagle3")')
        self._reserve(self.spec.num_draft_tokens + 1)
        feature_11H = self.drafter.extend(self.extension)
        return self.drafter.propose(feature_11H, self.length - 1, self.spec.num_draft_tokens).tolist()

    @torch.inference_mode()
    def verify(self, drafted: Sequence[int]) -> list[int]:
        """The target's choice after the newest token and after each drafted one: K+1 tokens."""
        x_1TH, self.verified_taps_1TC = self._forward(self._tensor([self.newest, *drafted]), collect_taps=True)
        return self.target.logits(x_1TH).argmax(-1)[0].tolist()

    @torch.inference_mode()
    def accept(self, drafted: Sequence[int], verified: Sequence[int]) -> list[int]:
        """The tokens this cycle emits; rejected ones leave the caches because `length` skips them."""
        if self.verified_taps_1TC is None:
            raise RuntimeError("nothing to accept: call verify first")
        emitted = accept_greedy(drafted, verified)
        self.extension = Extension(
            start=self.length,
            taps_1TC=self.verified_taps_1TC,
            next_tokens_1T=self._tensor(verified),
            read_row=len(emitted) - 1,
        )
        self.verified_taps_1TC = None
        self.length += len(emitted)
        self.newest = emitted[-1]
        return emitted

    def synchronize(self) -> None:
        """Waits for the device."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def marks(self) -> dict[str, float]:
        """Device time stamps taken inside graphs, seconds. This version has no graphs."""
        return {}

    def peak_memory_bytes(self) -> int:
        """CUDA: most memory that tensors held. CPU: most memory the process held."""
        if self.device.type == "cuda":
            return torch.cuda.max_memory_allocated(self.device)
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024  # Linux counts KiB

    def describe(self) -> dict[str, Any]:
        """What runs here, JSON-ready: configuration, ranks and versions."""
        on_cuda = self.device.type == "cuda"
        return {
            "api_version": API_VERSION,
            "spec": asdict(self.spec),
            "target": asdict(self.target.config),
            "tap_layers": list(self.target.config.tap_layers),
            "draft": asdict(self.drafter.draft.config) if self.drafter else None,
            "memory": self.memory.as_json(),
            "world_size": self.group.world_size,
            "rank": self.group.rank,
            "num_threads": torch.get_num_threads(),
            "device": torch.cuda.get_device_name(self.device) if on_cuda else platform.machine(),
            "versions": {
                "python": platform.python_version(),
                "torch": str(torch.__version__),
                "cuda": torch.version.cuda if on_cuda else None,
                "nccl": ".".join(map(str, torch.cuda.nccl.version())) if on_cuda else None,
            },
        }

    def close(self) -> None:
        """Ends the process group if this session created it."""
        leave_group(self.group)

    def _forward(self, tokens_1T: Tensor, collect_taps: bool) -> tuple[Tensor, Tensor | None]:
        num_rows = tokens_1T.shape[1]
        self._reserve(num_rows)
        mask_TS = causal_mask(num_rows, self.length, self.device)
        window = Window(start=self.length, rope=self.rope, mask_TS=mask_TS)
        taps: list[Tensor] | None = [] if collect_taps else None
        x_1TH = self.target(tokens_1T, window, self.caches, taps)
        return x_1TH, None if taps is None else torch.cat(taps, dim=-1)

    def _reserve(self, num_rows: int) -> None:
        if self.length + num_rows > self.spec.max_len:
            raise ValueError(
                f"{self.length} tokens and {num_rows} new rows do not fit max_len {self.spec.max_len}"
            )

    def _tensor(self, tokens: Sequence[int]) -> Tensor:
        return torch.tensor([list(tokens)], dtype=torch.int64, device=self.device)

    def _rope(self, head_dim: int, theta: float) -> Rope:
        return build_rope(
            num_positions=self.spec.max_len,
            head_dim=head_dim,
            theta=theta,
            dtype=DTYPES[self.spec.dtype],
            device=self.device,
        )

    def _new_drafter(self, draft: Draft) -> Drafter:
        new_cache = draft.midlayer.self_attn.new_cache
        return Drafter(
            draft=draft,
            embed_tokens=draft.embed_tokens or self.target.embed_tokens,
            cache=new_cache(self.spec.max_len, dtype=DTYPES[self.spec.dtype], device=self.device),
            rope=self._rope(draft.config.head_dim, draft.config.rope_theta),
        )
