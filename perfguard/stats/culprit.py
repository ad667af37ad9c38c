"""Search for the commit that changed performance, under noise, with "nothing changed" as an answer.

Pure: all readings so far -> which commit to measure next, which to confirm, or done. Called on every prefix of a
stored search it replays the search. No I/O, no clock, no git. The probabilities come from `culprit_model.py`.
"""

import hashlib
from dataclasses import replace
from math import exp

import numpy as np

from perfguard.errors import UsageError
from perfguard.records import Outcome
from perfguard.stats.culprit_model import TINY, Beliefs, Floats, Memo, Numbers, beliefs_of, log_odds
from perfguard.stats.culprit_records import Posterior, SearchDecision, SearchSetup, SearchState
from perfguard.stats.lottery import launches_to_exclude

# A missing build weighs at most this many trials when the next commit is chosen: more buys hardly fewer builds for
# many more trials (docs/decisions/0004-bisect.md).
MOST_BUILD_WEIGHT = 1.0


def decide(setup: SearchSetup, state: SearchState, memo: Memo | None = None) -> SearchDecision:
    """The next step after everything known so far. `state.confirmations` are keyed by the `after` they confirmed.

    `memo`: an empty dict, handed in again with every call of one search, makes a long search fast; no result changes.
    Raises UsageError where BAD cannot be measured or the setup makes no sense.
    """
    _check(setup, state)
    beliefs = beliefs_of(setup, state.readings, _refuted(state), memo)
    posterior = beliefs.posterior
    found = SearchDecision(
        state="measure",
        posterior=posterior,
        range=_likeliest(beliefs.by_candidate, setup.p_range),
        is_lottery=posterior.p_lottery > 0.5 and posterior.p_none < 0.5,
        num_trials=_num_trials(state),
    )
    return _end(setup, state, found, beliefs.by_candidate) or _next(setup, state, found, beliefs)


def _check(setup: SearchSetup, state: SearchState) -> None:
    num = setup.num_candidates
    if num < 1:
        raise UsageError("there is no commit between GOOD and BAD to search", "name a GOOD that is older than BAD")
    is_sane = not setup.weights or (len(setup.weights) == num and min(setup.weights) >= 0 < sum(setup.weights))
    if not is_sane:
        raise UsageError(f"{len(setup.weights)} weights for {num} candidates, or none above 0", "leave them out")
    if num in state.unmeasurable or 0 in state.unmeasurable:
        raise UsageError("GOOD or BAD itself cannot be measured", "name a neighbour of it that builds and runs")
    if any(not 0 < reading.position <= num for reading in state.readings):
        raise UsageError("a reading lies outside GOOD..BAD", "compare the readings with the commits searched")


def _num_trials(state: SearchState) -> int:
    return sum(r.trials for r in state.readings) + sum(c.trials for c in state.confirmations.values())


def before(state: SearchState, after: int) -> int:
    """The measurable position next below `after`: its parent, unless that cannot be measured."""
    position = after - 1
    while position in state.unmeasurable:
        position -= 1
    return position


def _refuted(state: SearchState) -> frozenset[int]:
    """Candidates between two positions that the verdict procedure found equal."""
    equal = (after for after, found in state.confirmations.items() if found.outcome is Outcome.EQUIVALENT)
    return frozenset(c for after in equal for c in range(before(state, after) + 1, after + 1))


def _is_wanted(posterior: Posterior, outcome: Outcome) -> bool:
    """The verdict is a change in the direction that the search found."""
    is_up = posterior.log_slowdown > 0
    return outcome is (Outcome.REGRESSION if is_up else Outcome.IMPROVEMENT)


def _likeliest(p_N: Floats, share: float) -> tuple[int, ...]:
    """The fewest candidates that hold this share of the probability of a change, in order."""
    order = np.argsort(-p_N, kind="stable")
    count = int(np.searchsorted(np.cumsum(p_N[order]), share * p_N.sum() * (1 - 1e-12))) + 1
    return tuple(sorted(int(c) + 1 for c in order[:count]))


def _end(setup: SearchSetup, state: SearchState, found: SearchDecision, p_N: Floats) -> SearchDecision | None:
    """Done, or a candidate to confirm; None while the search goes on."""
    posterior = found.posterior
    if posterior.p_none >= setup.p_phantom and _is_clean_enough(setup, state):
        reason = f"nothing changed with probability {posterior.p_none:.3f}"
        return replace(found, state="done", outcome="PHANTOM", range=(), reason=reason)
    after = _named(setup, state, posterior, p_N)
    if after is not None:
        return _confirm(setup, state, found, after)
    if posterior.p_none <= setup.p_none and posterior.p_gradual >= setup.p_culprit:
        reason = "the change grew over many commits; no single one is to blame"
        return replace(found, state="done", outcome="INCONCLUSIVE", range=(), is_gradual=True, reason=reason)
    if found.num_trials >= setup.max_trials:
        reason = f"not decided after {found.num_trials} trials"
        return replace(found, state="done", outcome="INCONCLUSIVE", reason=reason)
    return None


def _is_clean_enough(setup: SearchSetup, state: SearchState) -> bool:
    num_bad = sum(reading.position == setup.num_candidates for reading in state.readings)
    return num_bad >= launches_to_exclude(setup.slow_rate)


def _named(setup: SearchSetup, state: SearchState, posterior: Posterior, p_N: Floats) -> int | None:
    """End of the group of indistinguishable candidates that holds almost all probability, if one does."""
    if posterior.p_none > setup.p_none:
        return None
    ends, starts = _groups(setup, state)
    sums = np.add.reduceat(p_N, starts)
    best = int(sums.argmax())
    return int(ends[best]) if sums[best] >= setup.p_culprit else None


def _groups(setup: SearchSetup, state: SearchState) -> tuple[Numbers, Numbers]:
    """Measurable positions above GOOD, and index into `p_change` of the first candidate of the group each one ends."""
    ends = np.array([i for i in range(1, setup.num_candidates + 1) if i not in state.unmeasurable])
    return ends, np.concatenate([[0], ends[:-1]])


def _confirm(setup: SearchSetup, state: SearchState, found: SearchDecision, after: int) -> SearchDecision:
    parent = before(state, after)
    group = tuple(range(parent + 1, after + 1))
    named = replace(found, before=parent, after=after, range=group)
    confirmation = state.confirmations.get(after)
    if confirmation is None:
        return replace(named, state="confirm")
    done = replace(named, state="done", outcome="INCONCLUSIVE")
    if not _is_wanted(found.posterior, confirmation.outcome):
        return replace(done, reason=f"its comparison with its parent ended {confirmation.outcome}")
    if len(group) > 1:
        reason = "confirmed, but the commits between cannot be measured"
        return replace(done, is_confirmed=True, reason=reason)
    return replace(done, outcome="CULPRIT", culprit=after, is_confirmed=True, reason="confirmed against its parent")


def _next(setup: SearchSetup, state: SearchState, found: SearchDecision, beliefs: Beliefs) -> SearchDecision:
    left = _expected_left(setup, found.posterior, beliefs.by_candidate)
    return replace(found, position=_choose(setup, state, beliefs.contrast), expected_trials_left=left)


def _choose(setup: SearchSetup, state: SearchState, contrast_N: Floats) -> int:
    """The measurable position at which the hypotheses disagree most: where the posterior splits in half, with "none"
    lying after BAD; per trial of its price where a build costs time."""
    ends, _ = _groups(setup, state)
    built = {reading.position for reading in state.readings}
    weight = min(setup.build_cost, MOST_BUILD_WEIGHT)
    prices = 2.0 + weight * np.array([end not in built for end in ends])
    return int(ends[(contrast_N[ends - 1] / prices).argmax()])


def _expected_left(setup: SearchSetup, posterior: Posterior, p_N: Floats) -> float:
    """Trials until PHANTOM or a named candidate, each weighed by its probability; a rough forecast.

    To PHANTOM: the log odds still missing, at snr / 2 a reading against the smallest change. To a candidate: the
    noisy-search bound (Burnashev), entropy / capacity + ln(1 / (1 - p_culprit)) / (snr / 2), and a third more.
    """
    to_phantom = max(0.0, log_odds(setup.p_phantom) - log_odds(posterior.p_none)) / _gain(posterior, setup.smallest)
    p_change = p_N / max(float(p_N.sum()), TINY)
    entropy = float(-(p_change * np.log2(np.maximum(p_change, 1e-300))).sum())
    size = max(abs(posterior.log_slowdown), setup.smallest)
    shown = 1.0 - posterior.p_lottery * (1.0 - posterior.slow_rate)
    gain = _gain(posterior, size) * shown
    missing = max(0.0, log_odds(setup.p_culprit) - log_odds(float(p_change.max())))
    to_culprit = 1.33 * (entropy / (shown * (1.0 - exp(-0.36 * _gain(posterior, size)))) + missing / gain)
    readings = posterior.p_none * to_phantom + (1.0 - posterior.p_none) * to_culprit
    return 2.0 * readings


def _gain(posterior: Posterior, size: float) -> float:
    """snr / 2: nats that one reading yields, on average, for a change of this size against none."""
    return size**2 / (4.0 * posterior.noise**2)


def is_anchor_first(setup: SearchSetup, index: int) -> bool:
    """The coin of reading number `index` (from 0): GOOD runs in the first of the two adjacent slots, or the other."""
    digest = hashlib.sha512(f"perfguard bisect {setup.seed} {index}".encode()).digest()
    return bool(digest[0] & 1)
