"""Every threshold of perfguard in one place, with its unit and its reason; those on the machine in gate_policy.py.

No other module holds a default.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from perfguard.gate_policy import GatePolicy, stored_gates

# A campaign that was touched within a day may still be measured or about to be resumed: `prune` leaves it alone,
# whatever it is asked.
PRUNE_MIN_AGE_S = 86_400.0

# What `--max-blocks` takes at most.
MOST_BLOCKS = 40


@dataclass(frozen=True, kw_only=True)
class Policy:
    """Thresholds of one comparison. Margins and floors are ratios: 0.02 is two percent."""

    # Largest slowdown called equivalent. Two percent is what a team usually agrees to look at; `calibrate`
    # recommends at least twice the launch noise of this machine.
    margin: float = 0.02
    # Reported false REGRESSION or IMPROVEMENT, both directions, both stages and all extensions together.
    alpha: float = 0.001
    # Share of alpha kept back for `extend`: extension k may use 2/3, 2/9, 2/27, ... of it. The largest share that
    # still lets three primary metrics look first after 2 + 3 blocks is 3.5 %; docs/method.md says what it costs.
    extension_share: float = 0.03
    # Slowdown credited to the accused side in the order test, as a share of the margin.
    floor_share: float = 0.25
    # In the order test, and where stage two gives up, a value further from the middle of its block than this many
    # typical block spreads counts as if it lay there; 0 leaves all as they are. At 2 a quiet machine pays nothing, and
    # with one trial in twenty 5 to 40 % slow a 5 % slowdown is reported in 93 % of cases instead of 88 %.
    clip_spreads: float = 2.0
    # Each look of the equivalence test; 0.0125 a look is 6 to 8 % over all looks at a true change of exactly the
    # margin (docs/calibration.md). A wrong EQUIVALENT is merely costly.
    tost_alpha: float = 0.0125
    # Blocks of four trials. Ten blocks are what a person waits for; `--max-blocks` changes it.
    max_blocks: int = 10
    max_confirm_blocks: int = 10
    # A spread needs two blocks; no equivalence from fewer.
    min_blocks: int = 2
    # EQUIVALENT only after enough clean launches to exclude slow launches of head at this rate; 0 asks for nothing.
    slow_rate: float = 0.0
    # Stop when the chance of any verdict at the end falls below this.
    futility: float = 0.05
    # Fresh builds of each arm in stage two, by pairs: every trial runs in a build of its own, so that what a rebuild
    # alone does is part of the noise the order test is exact for. 120 is what the longest stage two takes with its
    # spares: no block uses a build again. With 2 (for builds that are dear) one pair serves all blocks and is a
    # placebo: both builds of an arm must agree.
    confirm_builds: int = 120
    # Stage two runs unless a person says otherwise; without it a change ends as SUSPECT.
    is_confirmed: bool = True
    # Stage two keeps alpha by itself, for suspicions that may owe more to luck than their orders say: two modes of one
    # launch have one copy each, whose luck moves both trials of a mode. It takes four blocks then instead of three.
    confirms_alone: bool = False
    # The same once launches of fresh builds are seen to differ more than launches of one build do, by an F test at this
    # level: stage one, with one build of each arm, takes luck of a build for a change. 0 never asks.
    build_luck_alpha: float = 0.02
    # Pause before each trial, as a share of the measured part, against neighbours with a period near the
    # trial's; and its cap.
    pause_share: float = 0.2
    pause_max_s: float = 30.0
    # A launch that dies before its measured window is started again in its slot, order kept.
    max_retries: int = 2
    # More void blocks than this share of all blocks: the machine, not the code, decided.
    max_void_share: float = 1 / 3
    # Fisher's exact test of invalid and crashed trials by arm: below this the arm itself causes them.
    fisher_alpha: float = 0.01
    # Test of residuals against the predecessor's arm.
    carry_over_alpha: float = 0.001
    # Bisect: builds kept at once beside GOOD's; the one farthest from the next is removed first.
    kept_builds: int = 8
    # Bisect: launches of the search and its confirmations before it ends INCONCLUSIVE.
    max_bisect_trials: int = 400
    # Bisect: readings of one commit that give no value before it counts as not measurable.
    max_failed_readings: int = 2
    # First builds that --setup made are kept for later campaigns: at most so many gigabytes (0: none are), since a
    # build is a few, and for so long, since what a setup downloads changes from day to day and no key can see it.
    build_cache_gb: float = 20.0
    build_cache_hours: float = 24.0
    # Chance that a search by experiment names a wrong set of factors, all of its checks together; and that a sweep
    # drops a setting that is as fast as the best, all settings and looks together.
    search_alpha: float = 0.005
    sweep_alpha: float = 0.01
    # Rounds of a sweep: each measures every setting once. Two of six settings are told apart after 13 rounds at the
    # earliest, two of twelve after 16; a single loser among them after 5 and 4.
    max_rounds: int = 24
    # Wall-clock budget of one start, from its first launch on; 0 means none.
    budget_s: float = 0.0
    # What the state of the machine does to trials and to the verdict.
    gates: GatePolicy = field(default_factory=GatePolicy)
    # observe, lock or require. Locking needs rights that few have and changes what is measured: nobody gets it unasked.
    clocks: str = "observe"
    # SM clock to lock, in MHz; 0: what a calibration of this workload here found, else the cautious rule.
    sm_clock_mhz: int = 0


@dataclass(frozen=True, kw_only=True)
class Fitness:
    """When `doctor` calls a machine less fit. Nothing here decides a verdict."""

    # A card in one of these performance states works; above them link and clocks rest and are not judged.
    busy_pstate: int = 2
    # Below this utilisation a card counts as idle: drivers report a few percent for nothing.
    busy_percent: float = 5.0
    # An idle card holds a few MiB, some hundred on the largest, without any process.
    memory_allowance_bytes: int = 2**30
    # Room to the next temperature limit; a card that starts this close will meet it.
    hot_margin_c: float = 5.0
    # Load average as a share of the hardware threads: above it trials share their cores.
    load_share: float = 0.5
    # Share of time in which a task waited for processor, memory or disk.
    pressure_percent: float = 10.0
    # Share of the processors taken by other machines on the same hardware.
    steal_share: float = 0.01
    # Wall clock moved, or machine asleep; the time service slews by less.
    jump_s: float = 0.1
    # `git rev-parse --path-format`, which finds the repository, came with this version.
    oldest_git: tuple[int, int] = (2, 31)
    # Room for checkouts and builds: below the first it may end within a campaign, below the second at once.
    low_disk_bytes: int = 2 * 2**30
    too_low_disk_bytes: int = 200 * 2**20


def stored_policy(values: Mapping[str, Any]) -> Policy:
    """The policy of a stored campaign. One stored before extensions existed spent all of its alpha at once, one stored
    before values were clipped was judged by all as they are, and none asked whether fresh builds differ."""
    gates = stored_gates(values.get("gates", {}))
    return Policy(**{"extension_share": 0.0, "clip_spreads": 0.0, "build_luck_alpha": 0.0, **values, "gates": gates})
