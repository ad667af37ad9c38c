"""Cells of the simulation: what is simulated, how often so far, and with what outcome. Stored after every chunk.

A cell belongs to one state of the decision code: when `perfguard/stats` or the scenarios change, it starts anew.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.verdicts.engine import simulate
from benchmarks.verdicts.scenarios import SCENARIOS
from perfguard.policy import Policy
from perfguard.records import Outcome
from perfguard.stats.design import rules_of

ROOT = Path(__file__).resolve().parents[2]
CHUNK = 1000


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One scenario. `effect`: true slowdown of head (0.03 is three percent); `sd`: noise of a launch."""

    scenario: str
    effect: float
    sd: float
    primaries: int = 1

    @property
    def key(self) -> str:
        return f"{self.scenario} | {self.effect:g} | {self.sd:g} | {self.primaries}"


@dataclass(frozen=True, kw_only=True)
class Tally:
    """Outcomes of the comparisons simulated so far, and their trials in all."""

    num: int
    outcomes: Mapping[str, int]
    trials: int

    def percent(self, *outcomes: Outcome) -> float:
        return 100 * sum(self.outcomes.get(outcome, 0) for outcome in outcomes) / self.num

    @property
    def mean_trials(self) -> float:
        return self.trials / self.num


EMPTY = Tally(num=0, outcomes={}, trials=0)


def fingerprint() -> str:
    """Of everything that makes a cell's numbers."""
    files = [*sorted((ROOT / "perfguard/stats").glob("*.py")), ROOT / "perfguard/policy.py"]
    files += [ROOT / "benchmarks/verdicts" / name for name in ("scenarios.py", "engine.py")]
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:16]


def load(path: Path) -> dict[str, Tally]:
    """Stored tallies; none if they belong to another state of the code."""
    if not path.exists():
        return {}
    stored = json.loads(path.read_text(encoding="utf-8"))
    if stored["fingerprint"] != fingerprint():
        return {}
    return {key: Tally(**tally) for key, tally in stored["cells"].items()}


def save(path: Path, tallies: Mapping[str, Tally]) -> None:
    stored = {"fingerprint": fingerprint(), "cells": {key: asdict(tally) for key, tally in tallies.items()}}
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps(stored, indent=1, sort_keys=True), encoding="utf-8")
    temporary.replace(path)


def add_chunk(cell: Cell, tally: Tally) -> Tally:
    """CHUNK further comparisons, from a seed that names the cell and the chunk."""
    seed = int.from_bytes(hashlib.sha256(f"{cell.key} {tally.num}".encode()).digest()[:8], "big")
    rules = rules_of(Policy(), cell.primaries)
    results = simulate(rules, SCENARIOS[cell.scenario], effect=cell.effect, sd=cell.sd, num=CHUNK, seed=seed)
    outcomes = Counter(tally.outcomes) + Counter(str(result.outcome) for result in results)
    trials = tally.trials + sum(result.trials for result in results)
    return Tally(num=tally.num + CHUNK, outcomes=dict(outcomes), trials=trials)
