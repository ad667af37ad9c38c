"""The seam a runner drives: `build(spec)` gives a Session, a batch of sequences decoded together.

Runners of newer harnesses drive old commits of this file, so its names and meanings change only together
with API_VERSION. It measures nothing and prints nothing.

Legend: B batch, T rows of a forward, C taps side by side, H hidden; leading 1: one sequence.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, Literal

import torch
from torch import Tensor

from model import describing, loading
from model import sequences as of
from model.attention import Window
from model.graphs import Graphs
from model.layers import causal_mask
from model.mailbox import Mailbox
from model.marks import Stamps
from model.parallel import Group, join_group, leave_group, pick_device, read_group
from model.pathologies import parse_pathologies
from model.probes import probe
from model.sampling import PREFILL
from model.spec import Spec

API_VERSION = 2

Mode = Literal["plain", "eagle3"]
ROWS_AT_ONCE = 64  # of next_logits, which takes no more memory than a short prompt


def build(spec: Mapping[str, Any]) -> "Session":
    """Loads the weights and joins the process group the environment describes. Raises ValueError."""
    unknown = sorted(set(spec) - {field.name for field in fields(Spec)})
    if unknown:
        raise ValueError(f"unknown keys in spec: {', '.join(unknown)} (API_VERSION {API_VERSION})")
    checked = Spec(**spec)
    parse_pathologies(checked.pathologies)
    torch.set_num_threads(checked.num_threads)
    torch.manual_seed(checked.seed)
    device = pick_device(checked.device, read_group(os.environ))
    return Session(checked, join_group(device, checked.all_reduce), device)


class Session:
    """One model and a batch of sequences. All ranks make the same calls and get the same answers.

    Plain:   prefill(prompts), then decode() again and again.
    EAGLE-3: prefill(prompts, mode="eagle3"), then draft(), verify(), accept() again and again.

    A step is enqueued and not waited for, the parts of a cycle together where they are one graph. read() waits for the
    oldest that has not been read; up to `run_ahead` steps may be enqueued beyond the one that is read next.
    """

    def __init__(self, spec: Spec, group: Group, device: torch.device) -> None:
        self.spec = spec
        self.group = group
        self.device = device
        self.pathologies = parse_pathologies(spec.pathologies)
        models = loading.load(spec, group, device)
        self.memory = models.memory
        self.target, self.caches, self.rope = loading.target_parts(spec, models, device, self.pathologies)
        self.ops = loading.load_ops(spec, models, device)
        self.drafter = loading.new_drafter(spec, models, device, self.ops)
        self.steps = loading.build_steps(spec, self)
        self.sequences = self.steps.sequences
        self.graphs = Graphs(self.sequences, group.marks) if spec.uses_graphs else None
        self.run_ahead = 1 if spec.uses_graphs and not self.pathologies.sync_every_step else 0
        self.mailbox = Mailbox()
        self.lengths: list[int] = [0] * spec.batch  # tokens in the target's cache, as far as was read
        self.phase = ""  # of a cycle: "draft", "verify" or "accept" comes next; "" if the draft saw nothing
        self.num_prefills = {"plain": 0, "eagle3": 0}
        self.with_marks = False
        self.peak_bytes = 0
        self.stamps: dict[str, Stamps] = {}

    @property
    def _is_one_graph(self) -> bool:
        """Whether a whole cycle is enqueued by accept()."""
        is_divided = self.with_marks or self.pathologies.verify_outside_graph
        return self.graphs is not None and self.run_ahead > 0 and not is_divided

    @property
    def num_drafted(self) -> int:
        """Tokens that a cycle drafts for each sequence."""
        return self.spec.num_draft_tokens

    @torch.inference_mode()
    def prefill(self, prompts: Sequence[Sequence[int]], mode: Mode = "plain", marks: bool = False) -> list[int]:
        """Forgets everything, takes one prompt a sequence in, returns the first new token of each.

        Only mode "eagle3" collects taps, and gives the draft all rows but the last K+1. `marks`: steps that follow
        take time stamps. Raises ValueError: no draft, another number of prompts, or one that is too long.
        """
        if mode not in ("plain", "eagle3") or (mode == "eagle3" and self.drafter is None):
            raise ValueError(f"mode {mode!r}: use plain, or eagle3 with a draft in the spec")
        if len(prompts) != self.spec.batch:
            raise ValueError(f"{len(prompts)} prompts for a batch of {self.spec.batch}")
        self.mailbox.clear()
        self.stamps, self.with_marks = {}, marks
        self.lengths, self.phase = [0] * self.spec.batch, "draft" if mode == "eagle3" else ""
        # By mode, so that coins depend neither on the order of modes nor on steps that nobody waited for.
        self.sequences.clock.fill_(PREFILL * self.num_prefills[mode])
        self.num_prefills[mode] += 1
        newest = [self._prefill(index, prompt, mode) for index, prompt in enumerate(prompts)]
        self.lengths = [len(prompt) for prompt in prompts]
        return [int(token) for token in newest]

    def decode(self) -> None:
        """One plain step: every sequence gets one token. The draft does not see it."""
        self._reserve(1)
        self.phase = ""
        self._run("decode", 1)
        self.mailbox.post(self.sequences.outcome_BX, 1)

    def draft(self) -> None:
        """K drafted tokens a sequence: the draft takes in the accepted rows, then makes K-1 steps on its own."""
        self._expect("draft", 'nothing to draft from: start with prefill(prompts, mode="eagle3")')
        self._reserve(self.spec.num_draft_tokens + 1)
        if not self._is_one_graph:
            self._run("draft", self.spec.num_draft_tokens + 1)
        self.phase = "verify"

    def verify(self) -> None:
        """The target's choice after the newest token and after each drafted one."""
        self._expect("verify", "nothing to verify: call draft first")
        if not self._is_one_graph:
            self._run("verify", self.spec.num_draft_tokens + 1)
        self.phase = "accept"

    def accept(self) -> None:
        """Ends the cycle: rejected tokens leave the caches because the lengths skip them."""
        self._expect("accept", "nothing to accept: call verify first")
        self._run("cycle" if self._is_one_graph else "accept", 0)
        self.mailbox.post(self.sequences.outcome_BX, self.spec.num_draft_tokens + 1)
        self.phase = "draft"

    def read(self) -> list[list[int]]:
        """Tokens that the oldest step or cycle not yet read emitted, by sequence; none for one that is full.

        Waits for that step alone. Raises RuntimeError if every step has been read.
        """
        emitted = self.mailbox.take()
        self.lengths = [length + len(tokens) for length, tokens in zip(self.lengths, emitted, strict=True)]
        return emitted

    def synchronize(self) -> None:
        """Waits for the device."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def marks(self) -> dict[str, float]:
        """Seconds by part of the step or cycle that ran last, as stamped on the device; waits for it.

        {} unless prefill asked for marks. Also `all_reduce_s` on several ranks, and `distinct_experts`: how many
        experts of a layer were read, mean over the layers.
        """
        self.synchronize()
        found: dict[str, float] = {}
        for stamps in self.stamps.values():
            for name, value in stamps.seconds().items():
                found[name] = found.get(name, 0.0) + value
        return found

    def probe(self) -> dict[str, Any]:
        """What the device and its links can do now, apart from the model; docs/protocol.md says what."""
        self.peak_bytes = self.peak_memory_bytes()
        found = probe(self.group, self.device, self.target.config.hidden_size, self.spec)
        if self.device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(self.device)  # what the probe took is not the model's
        return found

    @torch.inference_mode()
    def next_logits(self, tokens: Sequence[int], ids: Sequence[int]) -> list[float]:
        """Logits of `ids` after `tokens`, and last the largest of all, by plain modules. Prefill has to come next.

        Raises ValueError if there are more tokens than slots.
        """
        if not 0 < len(tokens) <= self.spec.max_len:
            raise ValueError(f"{len(tokens)} tokens are not within 1..{self.spec.max_len}, the slots there are")
        caches = [cache.of(0) for cache in self.caches]
        for start in range(0, len(tokens), ROWS_AT_ONCE):
            tokens_1T = torch.tensor([tokens[start : start + ROWS_AT_ONCE]], dtype=torch.int64, device=self.device)
            mask = causal_mask(tokens_1T.shape[1], start, self.device)
            x_1TH = self.target(tokens_1T, Window(start=start, rope=self.rope, mask=mask), caches)
        logits_V = self.target.logits(x_1TH[:, -1])[0]
        return [*logits_V[list(ids)].tolist(), float(logits_V.max())]

    def step_bytes(self, num_rows: int, distinct_experts: float, context: int) -> float:
        """Bytes that this rank has to move for one target forward: docs/model.md has the formula."""
        return describing.step_bytes(self, num_rows, distinct_experts, context)

    def peak_memory_bytes(self) -> int:
        """CUDA: most memory that tensors held. CPU: most memory the process held."""
        return max(self.peak_bytes, describing.peak_memory_bytes(self.device))

    def describe(self) -> dict[str, Any]:
        """What runs here, JSON-ready: configuration, ranks and versions."""
        return describing.describe(self, API_VERSION)

    def close(self) -> None:
        """Frees the graphs, then ends the process group if this session created it: NCCL waits for graphs for ever."""
        if self.graphs is not None:
            self.synchronize()
            self.graphs.release()
        leave_group(self.group)

    def _prefill(self, index: int, prompt: Sequence[int], mode: Mode) -> Tensor:
        if not prompt:
            raise ValueError("empty prompt: there is no token to continue")
        if len(prompt) > self.spec.max_len:
            raise ValueError(f"0 tokens and {len(prompt)} new rows do not fit max_len {self.spec.max_len}")
        tokens_1T = torch.tensor([list(prompt)], dtype=torch.int64, device=self.device)
        window = Window(start=0, rope=self.rope, mask=causal_mask(len(prompt), 0, self.device))
        taps: list[Tensor] | None = [] if mode == "eagle3" else None
        x_1TH = self.target(tokens_1T, window, [cache.of(index) for cache in self.caches], taps)
        newest = self.steps.choices.first(self.target.logits(x_1TH[:, -1])[0], index)
        taps_1TC = None if taps is None else torch.cat(taps, dim=-1)
        of.begin(self.sequences, index, tokens_1T, taps_1TC, newest)
        early = len(prompt) - self.sequences.num_rows
        if taps_1TC is not None and early > 0:
            self.drafter.take_in(index, tokens_1T[:, 1 : early + 1], taps_1TC[:, :early])
        return newest

    @torch.inference_mode()
    def _run(self, name: str, num_rows: int) -> None:
        """As a graph over all slots, or as it stands over those that can be in use."""
        step = getattr(self.steps, name)
        is_outside = name == "verify" and self.pathologies.verify_outside_graph
        if self.graphs is not None and not is_outside:
            stamps = self.graphs.run(name, lambda: step(self.spec.max_len), with_marks=self.with_marks)
        elif self.with_marks:
            with self.group.marks.taken() as stamps:
                step(self._num_slots(num_rows))
        else:
            stamps = step(self._num_slots(num_rows))
        if stamps is not None:
            self.stamps[name] = stamps
        if self.pathologies.sync_every_step:
            self.synchronize()

    def _num_slots(self, num_rows: int) -> int:
        return min(self.spec.max_len, max(self.lengths) + self.mailbox.most_unread() + num_rows)

    def _reserve(self, num_rows: int) -> None:
        if min(self.lengths) + num_rows > self.spec.max_len:
            raise ValueError(
                f"{min(self.lengths)} tokens and {num_rows} new rows do not fit max_len {self.spec.max_len}"
            )
        if len(self.mailbox) > self.run_ahead:
            raise RuntimeError(f"{len(self.mailbox)} steps have not been read; at most {self.run_ahead} may wait")

    def _expect(self, phase: str, otherwise: str) -> None:
        if self.phase != phase:
            raise RuntimeError(otherwise)
