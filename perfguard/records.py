"""The nouns of perfguard: frozen records without behaviour. Imports nothing but the standard library.

Units are in the names: `_s` seconds, `_bytes` bytes. "A" and "B" in an order stand for base and head.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal

Better = Literal["lower", "higher"]
Side = Literal["base", "head"]
TrialStatus = Literal["ok", "invalid", "crashed", "timed_out"]
Scope = Literal["full", "slice", "in-process", "attached", "resident"]


class Outcome(StrEnum):
    """What a comparison, or one metric of it, ends with."""

    REGRESSION = "REGRESSION"
    IMPROVEMENT = "IMPROVEMENT"
    EQUIVALENT = "EQUIVALENT"
    INCONCLUSIVE = "INCONCLUSIVE"
    SUSPECT = "SUSPECT"
    INVALID = "INVALID"


@dataclass(frozen=True, kw_only=True)
class Reason:
    """Why an outcome is what it is: a stable code for scripts and a sentence for people."""

    code: str
    text: str


@dataclass(frozen=True, kw_only=True)
class Metric:
    """What is measured. An exact metric is a count or digest compared by equality, never by a test."""

    name: str
    unit: str
    better: Better
    primary: bool = True
    exact: bool = False


@dataclass(frozen=True, kw_only=True)
class Workload:
    """One runner, its parameters, its modes and its metrics. `command` is set where the runner is "command"."""

    name: str
    runner: Literal["tp_moe", "fake", "engine", "command"]
    metrics: tuple[Metric, ...]
    params: Mapping[str, Any] = field(default_factory=dict)
    modes: tuple[str, ...] = ()
    world_size: int = 1
    command: tuple[str, ...] = ()
    read: str = "json"
    setup: str = ""
    timeout_s: float = 600.0
    ready_timeout_s: float = 300.0


@dataclass(frozen=True, kw_only=True)
class Revision:
    """A commit, and for WORKTREE (or a carried patch) the patch on top of it."""

    name: str
    commit: str
    tree: str
    subject: str = ""
    committed_at: str = ""
    patch: bytes = b""

    @property
    def is_dirty(self) -> bool:
        return bool(self.patch)


@dataclass(frozen=True, kw_only=True)
class Arm:
    """One side of a comparison: commit + patch + environment variables + workload parameters; `mode`: the one it runs,
    empty for all modes of the workload."""

    side: Side
    revision: Revision
    env: Mapping[str, str] = field(default_factory=dict)
    params: Mapping[str, Any] = field(default_factory=dict)
    python: str = ""
    mode: str = ""


@dataclass(frozen=True, kw_only=True)
class BlockPlan:
    """Four consecutive trials, drawn before they run; in a sweep a round, one trial of every setting by its letter.

    `order` holds A (base) and B (head) by slot, `builds` the build of the slot's arm (1, from 2 on fresh ones; see
    `stats.plan.builds_of`), `pauses` the pause before each slot as a fraction of its longest allowed pause, in [0, 1).
    """

    stage: int
    index: int
    order: str
    builds: str
    pauses: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class Extension:
    """A further pre-registered part of a comparison that was left undecided, stored before it runs.

    Number k (from 1) suspects in blocks of stage 2k + 1 and confirms in stage 2k + 2. `seed` draws its orders, since
    the campaign's were known when its first results were; `budget_s` 0 means none.
    """

    number: int
    created_at: str
    seed: int
    max_blocks: int
    max_confirm_blocks: int
    budget_s: float = 0.0


@dataclass(frozen=True, kw_only=True)
class BlockValues:
    """What a valid block measured: `values[metric]` holds four positive finite numbers in slot order."""

    stage: int
    index: int
    order: str
    builds: str
    values: Mapping[str, tuple[float, float, float, float]]


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One launch of fresh processes for one arm, as it is stored: also when it failed.

    `values` maps metric to value; `digests` maps what was produced (tokens of a mode) to its hash; `record`
    is the whole of what the runner and the harness observed (samples, counts, origin, environment, versions).
    """

    id: str
    stage: int
    block: int
    slot: int
    side: Side
    build: int
    attempt: int
    status: TrialStatus
    started_at: str
    wall_s: float
    measured_s: float
    values: Mapping[str, float]
    digests: Mapping[str, str] = field(default_factory=dict)
    reasons: tuple[Reason, ...] = ()
    record: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class MachineReading:
    """One reading of the machine's own history: what it could do at a time, apart from any comparison. `source`:
    the campaign that gave it, or "bench". `facts`: what was known of the machine then, as texts."""

    name: str
    unit: str
    value: float
    measured_at: str
    source: str
    facts: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class MetricResult:
    """The verdict on one metric. `slowdown` is head against base, oriented so that above 1 is worse.

    `ci_low`, `ci_high`: 95 % interval of the slowdown, descriptive. `p_order`: exact order test in the
    direction of the estimate. `mde`: smallest slowdown this many blocks detect. None where not computable.
    """

    metric: Metric
    outcome: Outcome
    slowdown: float | None = None
    ci_low: float | None = None
    ci_high: float | None = None
    base_median: float | None = None
    head_median: float | None = None
    p_order: float | None = None
    mde: float | None = None
    decided_at: int | None = None
    reasons: tuple[Reason, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Decision:
    """What the controller says after a block.

    `state`: "measure" (one more block of stage one), "confirm" (one more block of stage two), "done".
    `outcome` is final when done, else what it would be if measuring stopped now.
    """

    state: Literal["measure", "confirm", "done"]
    outcome: Outcome
    metrics: tuple[MetricResult, ...]
    reasons: tuple[Reason, ...] = ()
    blocks_needed: int | None = None


@dataclass(frozen=True, kw_only=True)
class Campaign:
    """Everything that was asked for, stored before it runs. A "control" is a planted slowdown, part of the "calibrate"
    campaign that its method names (of a "sweep" settings). `provenance`: the user's repository then; empty in old ones.
    """

    id: str
    kind: Literal["compare", "run", "recheck", "judge", "import", "calibrate", "control", "bisect", "sweep", "search"]
    created_at: str
    workload: Workload
    arms: tuple[Arm, ...]
    policy: Mapping[str, Any]
    seed: int
    repository: str
    scope: Scope = "full"
    machine: Mapping[str, Any] = field(default_factory=dict)
    method: Mapping[str, Any] = field(default_factory=dict)
    provenance: Mapping[str, Any] = field(default_factory=dict)


LookFor = Literal["slower", "faster", "any"]


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A commit that a bisect may blame.

    `code` names what the workload runs of it: equal for equal code. `is_whole` False: it lies on a branch beside
    earlier candidates, so that its speed does not tell them apart; it is never measured.
    """

    revision: Revision
    code: str
    parents: tuple[str, ...] = ()
    is_whole: bool = True


@dataclass(frozen=True, kw_only=True)
class Bisect:
    """What a bisect searches, stored before it runs. `candidates`: oldest first, after GOOD; the last is BAD.

    `num_commits` counts those with unchanged code too. `launch_sd`: expected noise of ln(value) between launches.
    `carried` is a patch on top of every commit, `bench` (none or one) a revision whose `bench_path` is put into every
    checkout. `merge`: the blamed merge whose branch is searched. `seeded_by`: id of the comparison of GOOD and BAD
    that the search starts from, `seed_outcome` how it ended for `metric`. `seeds`: what is known of positions before
    anything is measured, as (position, log slowdown, its standard deviation against that of a pair of launches).
    """

    candidates: tuple[Candidate, ...]
    num_commits: int
    metric: str
    look_for: LookFor = "slower"
    launch_sd: float = 0.01
    paths: tuple[str, ...] = ()
    carried: bytes = b""
    bench: tuple[Revision, ...] = ()
    bench_path: str = ""
    all_parents: bool = False
    merge: str = ""
    seeded_by: str = ""
    seed_outcome: str = ""
    seeds: tuple[tuple[int, float, float], ...] = ()


@dataclass(frozen=True, kw_only=True)
class PairPlan:
    """One reading of a bisect: two adjacent launches, drawn and stored before they run.

    `position` of the candidate, from 1. `order` holds A (GOOD, the anchor) and B (the candidate) by slot; `pauses` as
    in a BlockPlan. Its trials have stage 1 and its number as their block.
    """

    number: int
    position: int
    order: str
    pauses: tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class CandidateBuild:
    """What became of a candidate's first build. Position 0 is GOOD. `reasons` hold the end of what a failed one wrote.

    `note`: what was seen loaded; `is_proven` False: code changed, and nobody saw which code ran. `cost_trials`: what
    making it took, in launches.
    """

    position: int
    status: Literal["ok", "unbuildable", "invalid"]
    reasons: tuple[Reason, ...] = ()
    note: str = ""
    is_proven: bool = True
    cost_trials: float = 1.0
