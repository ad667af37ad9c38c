"""Gives a session of API_VERSION 1 the face of version 2, so that commits of both are driven by one loop.

Version 1 knows one sequence, answers every call at once and hands tokens through the host. Must not measure.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from runners.contract import UnbuildableError

# What build(spec) knew then; whatever came later has to be left at these values.
KEYS = ("target", "draft", "dtype", "device", "max_len", "num_draft_tokens", "num_threads", "seed")
LATER = {
    "batch": 1,
    "kernels": "auto",
    "graphs": "auto",
    "all_reduce": "nccl",
    "pathologies": [],
    "temperature": 0.0,
    "accept_rates": [],
    "sampling_seed": 0,
}


class SessionOf1(Protocol):
    """What model.entry.build(spec) returned at API_VERSION 1."""

    def prefill(self, prompt: list[int], mode: str = "plain") -> int: ...
    def decode(self, token: int) -> int: ...
    def draft(self) -> list[int]: ...
    def verify(self, drafted: list[int]) -> list[int]: ...
    def accept(self, drafted: list[int], verified: list[int]) -> list[int]: ...
    def synchronize(self) -> None: ...
    def marks(self) -> dict[str, float]: ...
    def peak_memory_bytes(self) -> int: ...
    def describe(self) -> dict[str, Any]: ...
    def close(self) -> None: ...


def spec_of_1(spec: dict[str, Any]) -> dict[str, Any]:
    """Raises UnbuildableError if something is asked for that version 1 does not have."""
    for key, value in spec.items():
        if key not in KEYS and value != LATER.get(key):
            raise UnbuildableError(f"model.entry speaks API_VERSION 1, which has no {key}={value!r}")
        if key in ("target", "draft") and value and not Path(value).is_file():
            raise UnbuildableError(f"model.entry speaks API_VERSION 1, which reads files only: {key}={value!r}")
    return {key: spec[key] for key in KEYS if key in spec}


class Version1:
    """See runners.contract.Session for what each method means."""

    run_ahead = 0

    def __init__(self, inner: SessionOf1) -> None:
        self.inner = inner
        self.newest = 0
        self.drafted: list[int] = []
        self.verified: list[int] = []
        self.emitted: list[int] = []

    @property
    def num_drafted(self) -> int:
        return len(self.drafted)

    def prefill(self, prompts: Sequence[list[int]], mode: str = "plain", marks: bool = False) -> list[int]:
        (prompt,) = prompts
        self.newest = self.inner.prefill(prompt, mode=mode)
        return [self.newest]

    def decode(self) -> None:
        self.newest = self.inner.decode(self.newest)
        self.emitted = [self.newest]

    def draft(self) -> None:
        self.drafted = self.inner.draft()

    def verify(self) -> None:
        self.verified = self.inner.verify(self.drafted)

    def accept(self) -> None:
        self.emitted = self.inner.accept(self.drafted, self.verified)

    def read(self) -> list[list[int]]:
        return [self.emitted]

    def synchronize(self) -> None:
        self.inner.synchronize()

    def marks(self) -> dict[str, float]:
        return self.inner.marks()

    def probe(self) -> dict[str, Any]:
        return {}

    def step_bytes(self, num_rows: int, distinct_experts: float, context: int) -> float:
        return 0.0

    def peak_memory_bytes(self) -> int:
        return self.inner.peak_memory_bytes()

    def describe(self) -> dict[str, Any]:
        return self.inner.describe()

    def close(self) -> None:
        self.inner.close()
