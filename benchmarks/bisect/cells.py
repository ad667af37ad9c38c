"""Cells of the simulation of searches: what is simulated, how often so far, with what end. Stored after every chunk.

A cell belongs to one state of the code that decides; when that changes, it starts anew.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from benchmarks.bisect.engine import Searched, World, search
from benchmarks.bisect.histories import History, Machine, machines, plain, with_lottery
from benchmarks.bisect.peers import TOOLS, Named
from perfguard.stats.culprit_records import SearchSetup

ROOT = Path(__file__).resolve().parents[2]
CHUNK = 100
OURS = "perfguard"
RAMP = 0.06


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One tool on one kind of history. `effect`: slowdown by the culprit (0: nothing changed); `sd`: of a launch.

    `kind`: "step"; "ramp", the same small step in every commit; "stairs", eight equal ones; "lottery", a quarter of
    the launches from the culprit on.
    """

    num: int
    effect: float
    tool: str = OURS
    scenario: str = "iid"
    sd: float = 0.01
    kind: str = "step"
    assumed_sd: float = 0.01

    @property
    def key(self) -> str:
        return " | ".join(
            str(x) for x in (self.tool, self.scenario, self.num, self.effect, self.sd, self.kind, self.assumed_sd)
        )


@dataclass(frozen=True, kw_only=True)
class Tally:
    """Sums over the searches simulated so far. `named`: searches that wanted to confirm some wrong commit first."""

    num: int = 0
    right: int = 0
    false: int = 0
    phantom: int = 0
    gradual: int = 0
    in_range: int = 0
    named_wrong: int = 0
    before: int = 0
    trials: int = 0
    builds: int = 0

    def percent(self, what: str) -> float:
        return 100 * float(getattr(self, what)) / self.num

    def mean(self, what: str) -> float:
        return float(getattr(self, what)) / self.num


def fingerprint() -> str:
    """Of everything that makes a cell's numbers, but for the verdict procedure, which has a record of its own."""
    files = [*sorted((ROOT / "perfguard/stats").glob("culprit*.py"))]
    files += [ROOT / "benchmarks/bisect" / name for name in ("histories.py", "engine.py", "peers.py")]
    files += [ROOT / "benchmarks/verdicts/scenarios.py"]
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
    """CHUNK further searches, from a seed that names the machine, the history and the chunk, not the tool."""
    key = f"{cell.scenario} {cell.num} {cell.effect} {cell.sd} {cell.kind} {tally.num}"
    seed = int.from_bytes(hashlib.sha256(key.encode()).digest()[:8], "big")
    rng = np.random.default_rng(seed)
    for index, machine in enumerate(machines(cell.scenario, cell.sd, cell.num, CHUNK, rng)):
        culprit = int(rng.integers(1, cell.num + 1))
        history = history_of(cell, culprit, rng)
        truth = culprit if cell.effect else None
        tally = _with_one(cell, tally, history, machine, truth, np.random.default_rng([seed, index]))
    return tally


def history_of(cell: Cell, culprit: int, rng: np.random.Generator) -> History:
    if cell.kind == "ramp":
        return plain(cell.num, dict.fromkeys(range(1, cell.num + 1), cell.effect / cell.num))
    if cell.kind == "stairs":
        return plain(cell.num, {int(c) + 1: cell.effect / 8 for c in rng.choice(cell.num, 8, replace=False)})
    if cell.kind == "lottery":
        return with_lottery(cell.num, culprit, 0.25, cell.effect)
    return plain(cell.num, {culprit: cell.effect} if cell.effect else {})


def _with_one(
    cell: Cell, tally: Tally, history: History, machine: Machine, truth: int | None, rng: np.random.Generator
) -> Tally:
    if cell.tool != OURS:
        return _with_peer(tally, TOOLS[cell.tool](lambda i: machine.run(history, i), cell.num), truth)
    setup = SearchSetup(num_candidates=cell.num, launch_sd=cell.assumed_sd, seed=int(rng.integers(2**31)))
    world = World(history=history, machine=machine, scenario=cell.scenario, sd=cell.sd, rng=rng)
    return _with_ours(tally, search(setup, world), truth if cell.kind in ("step", "lottery") else None)


def _with_ours(tally: Tally, found: Searched, truth: int | None) -> Tally:
    decision = found.decision
    is_right = decision.culprit == truth if truth else decision.outcome == "PHANTOM"
    return _plus(
        tally,
        right=is_right,
        false=decision.culprit is not None and decision.culprit != truth,
        phantom=decision.outcome == "PHANTOM",
        gradual=decision.is_gradual,
        in_range=truth in decision.range,
        named_wrong=found.named is not None and found.named != truth,
        before=found.trials_before,
        trials=found.trials,
        builds=found.builds,
    )


def _with_peer(tally: Tally, found: Named, truth: int | None) -> Tally:
    expected = {truth} if truth else set()
    return _plus(
        tally,
        right=found.culprits == expected and not found.has_given_up,
        false=bool(found.culprits - expected),
        phantom=not found.culprits and not found.has_given_up,
        before=found.trials,
        trials=found.trials,
        builds=found.builds,
    )


def _plus(tally: Tally, **more: int) -> Tally:
    sums = {name: value + int(more.get(name, 0)) for name, value in asdict(tally).items()}
    return Tally(**{**sums, "num": tally.num + 1})
