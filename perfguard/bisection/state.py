"""What is stored of a bisect -> where the search stands. Pure, so that `replay` derives every answer again.

Which commit is worth a measurement is decided by stats/culprit.py; this module only hands it what was observed.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import log, log1p, sqrt
from statistics import median
from typing import Any, Literal

from perfguard.bisection.machine import machine_stops
from perfguard.conditions.trial_gates import is_voided_by_gate
from perfguard.judging import last_attempts
from perfguard.policy import Policy, stored_policy
from perfguard.records import Bisect, Campaign, CandidateBuild, Metric, Outcome, PairPlan, Reason, Trial
from perfguard.stats.culprit import decide
from perfguard.stats.culprit_records import Confirmation, Reading, SearchDecision, SearchSetup, SearchState
from perfguard.stats.effects import log_ratio

# Launches of a pair, and the stage they are stored with.
PAIR, STAGE = 2, 1
# z of a two-sided 95 % interval.
Z_95 = 1.959964
# Median of the absolute value of a standard normal number.
NORMAL_MEDIAN = 0.6745
# So much more than expected is chance in less than one of a hundred, from so many launches on; the search itself allows
# for noise that was guessed wrong by less.
FAR_MORE, LEAST_ANCHORS = 2.5, 6


@dataclass(frozen=True, kw_only=True)
class Stored:
    """All that is known of one search. `confirmations`: finished comparisons (perfguard/comparison@1) by the position
    of their head.
    """

    campaign: Campaign
    search: Bisect
    pairs: Sequence[PairPlan] = ()
    trials: Sequence[Trial] = ()
    builds: Sequence[CandidateBuild] = ()
    confirmations: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def policy(self) -> Policy:
        return stored_policy(self.campaign.policy)

    @property
    def metric(self) -> Metric:
        return next(m for m in self.campaign.workload.metrics if m.name == self.search.metric)

    @property
    def last(self) -> int:
        """Position of BAD."""
        return len(self.search.candidates)


@dataclass(frozen=True, kw_only=True)
class Standing:
    """Where a search stands. `state`: what to do next; "done" also where it is `invalid` or was never needed.

    `decision` is None where nothing was searched: the code is the same at both ends, or the search is invalid.
    """

    state: Literal["measure", "confirm", "done"]
    decision: SearchDecision | None = None
    invalid: tuple[Reason, ...] = ()
    is_known_phantom: bool = False


def standing(stored: Stored) -> Standing:
    """What all that is stored says, and what to do next."""
    invalid = invalid_reasons(stored)
    if invalid:
        return Standing(state="done", invalid=invalid)
    if not stored.search.candidates:
        return Standing(state="done", is_known_phantom=True)
    decision = decide(setup_of(stored), search_state(stored))
    if stored.search.seed_outcome == Outcome.EQUIVALENT:
        return Standing(state="done", decision=decision, is_known_phantom=True)
    return Standing(state=decision.state, decision=decision)


def lost_confirmation(stored: Stored, num_invalid: Mapping[int, int]) -> Standing | None:
    """Where the search stood before its confirmation ended INVALID, if that may be done again: once.

    `num_invalid`: how many confirmations of a position ended so.
    """
    kept = {after: one for after, one in stored.confirmations.items() if one["outcome"] != Outcome.INVALID}
    lost = stored.confirmations.keys() - kept.keys()
    if not lost or any(num_invalid.get(after, 0) > 1 for after in lost):
        return None
    at = standing(replace(stored, confirmations=kept))
    return at if at.state == "confirm" else None


def setup_of(stored: Stored) -> SearchSetup:
    """What is searched for; the margin is the smallest change worth finding."""
    first = next((build for build in stored.builds if build.position == 0), None)
    policy = stored.policy
    return SearchSetup(
        num_candidates=stored.last,
        launch_sd=launch_sd(stored),
        smallest=log1p(policy.margin),
        look_for=stored.search.look_for,
        build_cost=0.0 if first is None else first.cost_trials,
        slow_rate=policy.slow_rate,
        max_trials=policy.max_bisect_trials,
        seed=stored.campaign.seed,
    )


def launch_sd(stored: Stored) -> float:
    """The noise that was expected, unless launches of GOOD show far more: then what they show.

    From neighbours in time, so that drift is no noise, and by the median, so that outliers are none.
    """
    logs = [log(value) for value in anchor_values(stored)]
    if len(logs) < LEAST_ANCHORS:
        return stored.search.launch_sd
    seen = median(abs(after - before) for before, after in pairwise(logs)) / (NORMAL_MEDIAN * sqrt(2))
    return seen if seen > FAR_MORE * stored.search.launch_sd else stored.search.launch_sd


def search_state(stored: Stored) -> SearchState:
    seeds = tuple(
        Reading(position=position, log_slowdown=value, trials=0, relative_sd=relative_sd)
        for position, value, relative_sd in stored.search.seeds
    )
    return SearchState(
        readings=(*seeds, *readings(stored)),
        unmeasurable=unmeasurable(stored),
        confirmations={after: confirmation(stored, found) for after, found in stored.confirmations.items()},
    )


def readings(stored: Stored) -> tuple[Reading, ...]:
    """Pairs of which both launches gave a value, in the order they were drawn."""
    found = ((pair, values_of(stored, pair)) for pair in stored.pairs)
    return tuple(
        Reading(position=pair.position, log_slowdown=log_ratio(stored.metric, *values))
        for pair, values in found
        if values is not None
    )


def values_of(stored: Stored, pair: PairPlan) -> tuple[float, float] | None:
    """(GOOD, candidate), or None where a launch is missing or gave none."""
    by_side = {trial.side: trial for trial in _ran(stored, pair) if trial.status == "ok"}
    if len(by_side) < PAIR:
        return None
    name = stored.metric.name
    return by_side["base"].values[name], by_side["head"].values[name]


def _ran(stored: Stored, pair: PairPlan) -> list[Trial]:
    counted = last_attempts(stored.trials)
    keys = ((STAGE, pair.number, slot) for slot in range(PAIR))
    return [counted[key] for key in keys if key in counted]


def ends_read(stored: Stored) -> list[Trial]:
    """Launches of GOOD and BAD beside each other that gave values."""
    of_bad = (pair for pair in stored.pairs if pair.position == stored.last and values_of(stored, pair) is not None)
    return [trial for pair in of_bad for trial in _ran(stored, pair)]


def open_pair(stored: Stored) -> PairPlan | None:
    """A pair that was drawn and not measured to its end: an interruption came between."""
    for pair in stored.pairs:
        ran = _ran(stored, pair)
        if len(ran) < PAIR and all(trial.status == "ok" for trial in ran):
            return pair
    return None


def failed_pairs(stored: Stored) -> list[tuple[PairPlan, Trial]]:
    """Pairs with the launch that ended them without a value."""
    return [(pair, trial) for pair in stored.pairs for trial in _ran(stored, pair)[-1:] if trial.status != "ok"]


def unmeasurable(stored: Stored) -> frozenset[int]:
    """Positions that are never chosen: not built, beside earlier ones in history, or never with a value."""
    beside = {k for k, candidate in enumerate(stored.search.candidates, start=1) if not candidate.is_whole}
    unbuildable = {build.position for build in stored.builds if build.status == "unbuildable"}
    return frozenset(beside | unbuildable | set(failing(stored)))


def failing(stored: Stored) -> dict[int, Trial]:
    """Positions whose launches fail though they were built -> the last failed launch. What a gate on the machine voided
    is no commit's fault: it is drawn again.
    """
    failed = [(p, t) for p, t in failed_pairs(stored) if t.side == "head" and not is_voided_by_gate(t)]
    counts = Counter(pair.position for pair, _ in failed)
    read = {reading.position for reading in readings(stored)}
    most = stored.policy.max_failed_readings
    return {
        pair.position: trial for pair, trial in failed if counts[pair.position] >= most and pair.position not in read
    }


def invalid_reasons(stored: Stored) -> tuple[Reason, ...]:
    """Why no answer can be given: an end that cannot be measured, code that is not the commit's, lost readings."""
    ends = {0: "GOOD", stored.last: "BAD"}
    found = [
        Reason(code=reason.code, text=f"{ends.get(build.position, 'a candidate')}: {reason.text}")
        for build in stored.builds
        if build.status == "invalid" or (build.status == "unbuildable" and build.position in ends)
        for reason in build.reasons
    ]
    if stored.last in failing(stored):
        found += [Reason(code=r.code, text=f"BAD: {r.text}") for r in failing(stored)[stored.last].reasons]
    found += machine_stops(stored.campaign, stored.trials)
    found += _lost_readings(stored)
    for comparison in stored.confirmations.values():
        if comparison["outcome"] == Outcome.INVALID:
            found += [Reason(code=r["code"], text=f"confirmation: {r['text']}") for r in comparison["reasons"]]
    return tuple(dict.fromkeys(found))


def _lost_readings(stored: Stored) -> list[Reason]:
    """Failures of candidates that count as unmeasurable are their own affair; others are the machine's or GOOD's."""
    own = set(failing(stored))
    failed = [(pair, trial) for pair, trial in failed_pairs(stored) if pair.position not in own]
    num_all = len(failed) + len(readings(stored))
    if len(failed) < 3 or len(failed) <= stored.policy.max_void_share * num_all:
        return []
    _, last = failed[-1]
    where = "GOOD" if last.side == "base" else "a candidate"
    text = f"{len(failed)} of {num_all} readings gave no value"
    return [Reason(code="void", text=text), *(Reason(code=r.code, text=f"{where}: {r.text}") for r in last.reasons)]


def confirmation(stored: Stored, comparison: Mapping[str, Any]) -> Confirmation:
    """A finished comparison as the search takes it in."""
    metric = next(m for m in comparison["metrics"] if m["name"] == stored.search.metric)
    low, high, middle = (metric[key] for key in ("ci_low", "ci_high", "slowdown"))
    return Confirmation(
        outcome=Outcome(comparison["outcome"]),
        trials=comparison["trials"]["ok"],
        log_slowdown=log(middle) if middle else 0.0,
        se=log(high / low) / (2 * Z_95) if low and high else 0.0,
    )


def reached(stored: Stored, values: Sequence[float]) -> bool | None:
    """Does a launch of GOOD come up to the claimed number, or beyond it? None: nothing was claimed or measured.

    The tolerance is that of `recheck`: the margin or three standard deviations of launch noise.
    """
    claimed = stored.campaign.method.get("claimed")
    if claimed is None or not values:
        return None
    tolerance = max(log1p(stored.policy.margin), 3.0 * stored.search.launch_sd)
    return any(log_ratio(stored.metric, float(claimed), value) <= tolerance for value in values)


def anchor_values(stored: Stored) -> list[float]:
    """What each launch of GOOD gave, without those that were measured again."""
    name, counted = stored.metric.name, last_attempts(stored.trials)
    ran = [t for t in stored.trials if counted[t.stage, t.block, t.slot] is t]
    return [t.values[name] for t in ran if (t.side, t.stage, t.status) == ("base", STAGE, "ok")]
