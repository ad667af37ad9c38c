"""Cells of the simulation: what is simulated, how often so far, and with what outcome. Stored after every chunk.

A cell of ours belongs to one state of the decision code: when a module that the simulated comparisons run through, a
threshold that it reads, or the scenarios change, it starts anew. A cell of a peer belongs to one state of the peers'
rules and the scenarios.
"""

import ast
import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from benchmarks.verdicts.catalogue import SCENARIOS
from benchmarks.verdicts.engine import Simulated, simulate, simulate_several
from benchmarks.verdicts.lotteries import Case, Ended, simulate_lottery
from benchmarks.verdicts.peers import PEERS, num_changed
from perfguard.policy import Policy
from perfguard.records import Outcome
from perfguard.stats.design import rules_of

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
CHUNK = 1000
# Both metrics of a comparison with two primaries have the cell's effect; this is how alike their noise is.
CORRELATION = 0.5
HELD_BLOCKS = 10
NOISE_FILES = ("scenarios.py", "engine.py", "lotteries.py", "resampled.py", "catalogue.py", "tp2_launches.csv")


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
class LotteryCell:
    """Head's launches slow at a rate. `is_held`: not ended before ten blocks, 40 trials."""

    case: Case
    is_held: bool

    @property
    def key(self) -> str:
        held = "held" if self.is_held else "usual"
        return f"lottery | {self.case.rate:g} | {self.case.size:g} | {self.case.sd:g} | {held}"


@dataclass(frozen=True, kw_only=True)
class PeerCell:
    """One scenario as another tool's rule sees it."""

    peer: str
    scenario: str
    effect: float
    sd: float

    @property
    def key(self) -> str:
        return f"{self.peer} | {self.scenario} | {self.effect:g} | {self.sd:g}"


@dataclass(frozen=True, kw_only=True)
class Tally:
    """Outcomes of the comparisons simulated so far, their trials in all and the trials' squares in all."""

    num: int
    outcomes: Mapping[str, int]
    trials: int = 0
    squares: int = 0

    def count(self, *outcomes: str) -> int:
        return sum(self.outcomes.get(outcome, 0) for outcome in outcomes)

    def percent(self, *outcomes: str) -> float:
        return 100 * self.count(*outcomes) / self.num

    @property
    def mean_trials(self) -> float:
        return self.trials / self.num

    @property
    def trials_error(self) -> float:
        """Standard error of the mean number of trials."""
        variance = max(0.0, self.squares / self.num - self.mean_trials**2)
        return float((variance / self.num) ** 0.5)


AnyCell = Cell | LotteryCell | PeerCell
EMPTY = Tally(num=0, outcomes={})
CHANGED = "changed"
# Counted beside the outcomes of a lottery: modes were reported, or a change was.
NAMED = "named"
REPORTS = (Outcome.REGRESSION, Outcome.IMPROVEMENT)


@dataclass(frozen=True, kw_only=True)
class Results:
    """All that was simulated, by the key of its cell, and how fast (`speed.py`)."""

    ours: dict[str, Tally] = field(default_factory=dict)
    peers: dict[str, Tally] = field(default_factory=dict)
    speed: dict[str, float] = field(default_factory=dict)


def fingerprint(texts: Iterable[str]) -> str:
    """Of the noises and these further texts."""
    noises = [(HERE / name).read_text(encoding="utf-8") for name in NOISE_FILES if (HERE / name).exists()]
    return hashlib.sha256("\0".join([*noises, *texts]).encode()).hexdigest()[:16]


def fingerprints() -> dict[str, str]:
    decision = [path.read_text(encoding="utf-8") for path in decision_files()]
    thresholds = [f"{name}={value}" for name, value in asdict(Policy()).items() if f".{name}" in "".join(decision)]
    rules = [HERE / f"{name}.py" for name in ("peers", "peer_rules", "peer_bootstrap", "peer_history")]
    return {
        "ours": fingerprint([*decision, *thresholds]),
        "peers": fingerprint(path.read_text(encoding="utf-8") for path in rules),
    }


def decision_files() -> list[Path]:
    """The modules of perfguard/stats that the engine runs through: those it imports, and what they import."""
    found: set[Path] = set()
    waiting = [HERE / "engine.py"]
    while waiting:
        new = {path for path in _imported_stats(waiting.pop()) if path not in found}
        found |= new
        waiting += new
    return sorted(found)


def _imported_stats(path: Path) -> Iterable[Path]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    names = [node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module]
    return [ROOT / f"{name.replace('.', '/')}.py" for name in names if name.startswith("perfguard.stats.")]


def load(path: Path) -> Results:
    """Stored tallies; none where they belong to another state of the code."""
    if not path.exists():
        return Results()
    stored, now = json.loads(path.read_text(encoding="utf-8")), fingerprints()
    parts = {
        name: {key: Tally(**tally) for key, tally in stored.get(name, {}).items()}
        for name in ("ours", "peers")
        if stored.get("fingerprints", {}).get(name) == now[name]
    }
    return Results(**parts, speed=stored["speed"] if "ours" in parts else {})


def save(path: Path, results: Results) -> None:
    temporary = path.with_suffix(".tmp")
    content = {"fingerprints": fingerprints(), **asdict(results)}
    temporary.write_text(json.dumps(content, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    temporary.replace(path)


def add(tally: Tally, more: Tally) -> Tally:
    return Tally(
        num=tally.num + more.num,
        outcomes=dict(Counter(tally.outcomes) + Counter(more.outcomes)),
        trials=tally.trials + more.trials,
        squares=tally.squares + more.squares,
    )


def chunk(cell: AnyCell, start: int, num: int) -> Tally:
    """`num` further comparisons of a cell that holds `start`. A peer meets the seeds of our cell of one metric."""
    if isinstance(cell, PeerCell):
        seed = _seed(Cell(scenario=cell.scenario, effect=cell.effect, sd=cell.sd).key, start)
        noise = SCENARIOS[cell.scenario]
        changed = num_changed(PEERS[cell.peer], noise, effect=cell.effect, sd=cell.sd, num=num, seed=seed)
        return Tally(num=num, outcomes={CHANGED: changed})
    if isinstance(cell, LotteryCell):
        rules = replace(rules_of(Policy(), 1), min_blocks=HELD_BLOCKS if cell.is_held else Policy().min_blocks)
        ended = simulate_lottery(rules, cell.case, num=num, seed=_seed(cell.key, start))
        return _tally(ended, {NAMED: sum(end.is_named for end in ended)})
    return _tally(_simulated(cell, start, num), {})


def _simulated(cell: Cell, start: int, num: int) -> list[Simulated]:
    rules, noise, seed = rules_of(Policy(), cell.primaries), SCENARIOS[cell.scenario], _seed(cell.key, start)
    if cell.primaries == 1:
        return simulate(rules, noise, effect=cell.effect, sd=cell.sd, num=num, seed=seed)
    effects = [cell.effect] * cell.primaries
    return simulate_several(rules, noise, effects=effects, correlation=CORRELATION, sd=cell.sd, num=num, seed=seed)


def _tally(ended: Sequence[Simulated | Ended], more: Mapping[str, int]) -> Tally:
    return Tally(
        num=len(ended),
        outcomes=dict(Counter(str(end.outcome) for end in ended)) | {k: n for k, n in more.items() if n},
        trials=sum(end.trials for end in ended),
        squares=sum(end.trials**2 for end in ended),
    )


def _seed(key: str, start: int) -> int:
    return int.from_bytes(hashlib.sha256(f"{key} {start}".encode()).digest()[:8], "big")
