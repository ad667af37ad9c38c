"""The nouns of a search for the commit that changed performance: frozen records without behaviour.

Positions count commits: 0 is GOOD, N is BAD; candidate c in 1..N is the commit that turns position c-1 into c.
Slowdowns are natural logs, above 0 is slower than GOOD.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from perfguard.records import Outcome

LookFor = Literal["slower", "faster", "any"]
SearchOutcome = Literal["CULPRIT", "PHANTOM", "INCONCLUSIVE"]


@dataclass(frozen=True, kw_only=True)
class SearchSetup:
    """What is searched for, fixed before the first reading.

    `num_candidates`: N. `launch_sd`: standard deviation of the log of one launch, from calibration or this default.
    `smallest`: log of the smallest change looked for (the margin). `weights`: prior weight of each candidate (N
    numbers >= 0, not all 0), () for equal ones. `build_cost`: trials that one build costs as much time as, 0 where it
    is free. `slow_rate`
    in (0, 1): PHANTOM only after enough clean launches of BAD to exclude slow ones at this rate. The thresholds are
    probabilities: PHANTOM from `p_phantom` on; a culprit at no more than `p_none` for "nothing changed" and at least
    `p_culprit` for one candidate. `max_trials`: confirmations included. `seed` draws orders.
    """

    num_candidates: int
    launch_sd: float = 0.01
    smallest: float = 0.0198
    look_for: LookFor = "slower"
    weights: tuple[float, ...] = ()
    build_cost: float = 0.0
    slow_rate: float = 0.0
    p_phantom: float = 0.99
    p_none: float = 0.001
    p_culprit: float = 0.99
    p_range: float = 0.95
    max_trials: int = 400
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class Reading:
    """One measurement of a position against GOOD, in adjacent slots whose order was drawn.

    `log_slowdown`: log of position against GOOD, oriented so that above 0 is worse. `trials`: what it cost this
    search (0 where it was measured before). `relative_sd`: its standard deviation against that of a pair of launches.
    """

    position: int
    log_slowdown: float
    trials: int = 2
    relative_sd: float = 1.0


@dataclass(frozen=True, kw_only=True)
class Confirmation:
    """What the verdict procedure said of the position before a candidate (base) against the candidate (head).

    `log_slowdown` and `se`: its estimate, 0 where none is known.
    """

    outcome: Outcome
    trials: int = 0
    log_slowdown: float = 0.0
    se: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Posterior:
    """Probabilities after the readings: `p_none` + `p_gradual` + sum of `p_change` = 1.

    `p_change[c - 1]`: the change came with candidate c. `p_gradual`: it grew over many commits. `p_lottery`: given one
    candidate, that only some launches became slow, and `slow_rate` the rate of those. `log_slowdown`: expected size of
    the change given that there is one (of slow launches, where it is a lottery); `noise`: expected sd of one launch.
    """

    p_none: float
    p_gradual: float
    p_change: tuple[float, ...]
    p_lottery: float
    slow_rate: float
    log_slowdown: float
    noise: float


@dataclass(frozen=True, kw_only=True)
class SearchDecision:
    """What to do after these readings.

    "measure": `position` against GOOD. "confirm": position `before` (base) against `after` (head) by the verdict
    procedure with fresh builds. "done": `outcome` holds, and `culprit` where it is CULPRIT. `range`: candidates that
    hold `p_range` of the probability of a change, in order; where a change is confirmed between two positions with
    only unmeasurable ones between them (`is_confirmed`, INCONCLUSIVE), all candidates between; () for PHANTOM and for
    a gradual change. `is_gradual`: the change
    grew over many commits, none is blamed. `is_lottery`: some launches became slow, not all.
    `expected_trials_left`: of the search, without confirmation; a rough forecast.
    """

    state: Literal["measure", "confirm", "done"]
    posterior: Posterior
    position: int | None = None
    before: int | None = None
    after: int | None = None
    outcome: SearchOutcome | None = None
    culprit: int | None = None
    range: tuple[int, ...] = ()
    is_confirmed: bool = False
    is_gradual: bool = False
    is_lottery: bool = False
    num_trials: int = 0
    expected_trials_left: float = 0.0
    reason: str = ""


@dataclass(frozen=True, kw_only=True)
class SearchState:
    """All that `decide` looks at, in one record: what was read, what cannot be measured, what was confirmed."""

    readings: tuple[Reading, ...] = ()
    unmeasurable: frozenset[int] = frozenset()
    confirmations: Mapping[int, Confirmation] = field(default_factory=dict)
