"""Several settings measured in rounds: which are as fast as the best, which are slower? Pure: no I/O, no clock.

A round measures every live setting once, in random order. A setting is dropped only by an exact test on those orders;
a dropped one is never best. Knows nothing of processes, names or units: columns of log times, larger is worse.

Shapes: R rounds, K settings. NaN: not measured, because the setting had left before.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from math import log1p, sqrt

import numpy as np

from perfguard.policy import Policy
from perfguard.records import Metric
from perfguard.stats.effects import Floats, oriented_logs
from perfguard.stats.equivalence import t_quantile
from perfguard.stats.order_test import MAX_LISTED_SUMS, TOLERANCE, tail_share

# Of a setting's share of alpha: for the test against all others together, which finds single losers early. The rest
# is for the tests against each other one.
SHARE_OF_ALL = 0.25
# After its first look (half of the share) the test against all others looks again after so many more rounds.
LATER_LOOKS_OF_ALL = (1, 2, 3, 5)
STEP = 2
MIN_ROUNDS = 3
CI_LEVEL = 0.95


@dataclass(frozen=True, kw_only=True)
class SweepRules:
    """Alpha by number of rounds of one test: of a setting against all (`of_all`), and against one other (`of_pair`).

    `margin` is a log. With K settings K (sum of_all + (K - 1) sum of_pair) <= alpha.
    """

    num_settings: int
    of_all: Mapping[int, float]
    of_pair: Mapping[int, float]
    margin: float
    tost_alpha: float
    max_rounds: int


@dataclass(frozen=True, kw_only=True)
class Drop:
    """Setting `setting` was found slower after `rounds` rounds: than `than`, or than some other one (None)."""

    setting: int
    rounds: int
    p: float
    than: int | None = None


@dataclass(frozen=True, kw_only=True)
class Standing:
    """Where a sweep stands. `live`: not told from the best, fastest first. `done`: "" while more rounds are wanted."""

    live: tuple[int, ...]
    drops: tuple[Drop, ...] = ()
    done: str = ""


@dataclass(frozen=True, kw_only=True)
class Slowdown:
    """Log slowdown against the best over the rounds that measured both, with its 95 % interval (None: one round)."""

    log: float
    low: float | None = None
    high: float | None = None
    rounds: int = field(default=0)


def sweep_rules(policy: Policy, num_settings: int) -> SweepRules:
    """Looks for this many settings (at least 2): the chance that a sweep drops any setting that is as fast as the
    best is at most `policy.sweep_alpha`, over all settings, tests and looks (Bonferroni)."""
    share = policy.sweep_alpha / num_settings
    of_all = SHARE_OF_ALL * share if num_settings > 2 else 0.0
    return SweepRules(
        num_settings=num_settings,
        of_all=_spend_on_all(of_all, num_settings, policy.max_rounds),
        of_pair=_spend((share - of_all) / (num_settings - 1), 2, range(1, policy.max_rounds + 1), policy.max_rounds),
        margin=log1p(policy.margin),
        tost_alpha=policy.tost_alpha,
        max_rounds=policy.max_rounds,
    )


def _spend_on_all(alpha: float, num_settings: int, max_rounds: int) -> dict[int, float]:
    listable = [r for r in range(1, max_rounds + 1) if num_settings ** ((r + 1) // 2) <= MAX_LISTED_SUMS]
    return _spend(alpha, num_settings, listable, max_rounds)


def _spend(alpha: float, choices: int, rounds: Sequence[int], max_rounds: int) -> dict[int, float]:
    """{first look: choices^-first, each later look: half of what is left, the last one all}; empty where no look can
    reach its share."""
    first = next((r for r in rounds if choices**-r <= alpha / 2), None)
    if first is None:
        return {max_rounds: alpha} if max_rounds in rounds and choices**-max_rounds <= alpha else {}
    gaps = LATER_LOOKS_OF_ALL if choices > 2 else range(STEP, max_rounds, STEP)
    later = [first + gap for gap in gaps if first + gap in rounds]
    spent = {first: float(choices) ** -first}
    rest = alpha - spent[first]
    for place, look in enumerate(later, start=1):
        spent[look] = rest * 0.5 ** min(place, len(later) - 1)
    return spent


def logs_of(metric: Metric, rounds: Sequence[Sequence[float | None]]) -> Floats:
    """(R, K) oriented logs of positive values; None, not measured, is NaN."""
    values_RK = np.array([[np.nan if v is None else v for v in row] for row in rounds], dtype=float)
    return oriented_logs(metric, values_RK) if len(rounds) else np.empty((0, 0))


def after_round(rules: SweepRules, before: Standing, logs_RK: Floats) -> Standing:
    """One more complete round: the last row. Every row holds all that were live before it, so that an earlier drop
    stays whatever comes later."""
    found = _drops(rules, logs_RK, before.live)
    live = [k for k in before.live if k not in {drop.setting for drop in found}]
    done = _done(rules, logs_RK, live)
    return Standing(live=_ranked(logs_RK, live), drops=(*before.drops, *found), done=done)


def without(before: Standing, settings: Collection[int]) -> Standing:
    """Settings that did not run leave, which has nothing to do with their values."""
    live = tuple(k for k in before.live if k not in settings)
    return Standing(live=live, drops=before.drops, done=before.done or _last_one(live))


def _last_one(live: Sequence[int]) -> str:
    return "" if len(live) > 1 else "one setting is left" if live else "no setting is left"


def standing(rules: SweepRules, logs_RK: Floats) -> Standing:
    """Where a sweep of settings that all run stands after these rounds; what follows its end is not looked at."""
    now = Standing(live=tuple(range(rules.num_settings)))
    for r in range(1, len(logs_RK) + 1):
        now = now if now.done else after_round(rules, now, logs_RK[:r])
    return now


def _drops(rules: SweepRules, logs_RK: Floats, live: Sequence[int]) -> list[Drop]:
    rounds, found = len(logs_RK), list[Drop]()
    # Since somebody left, those that stay are a choice made by values: only pairs are tested on.
    is_whole = len(live) == int((~np.isnan(logs_RK[0])).sum())
    of_all, of_pair = rules.of_all.get(rounds, 0.0), rules.of_pair.get(rounds, 0.0)
    for k in live:
        others = [j for j in live if j != k]
        drop = None
        if of_all and is_whole and others:
            drop = _found(k, rounds, p_against_all(logs_RK[:, sorted(live)], sorted(live).index(k)), of_all, None)
        if drop is None and of_pair and others:
            p, than = min((p_against(logs_RK, k, j), j) for j in others)
            drop = _found(k, rounds, p, of_pair, than)
        if drop is not None:
            found.append(drop)
    return found


def _found(setting: int, rounds: int, p: float, alpha: float, than: int | None) -> Drop | None:
    return Drop(setting=setting, rounds=rounds, p=p, than=than) if p <= alpha * (1 + 1e-9) else None


def p_against_all(logs_RK: Floats, setting: int) -> float:
    """Exact p value of "no other is faster than `setting`" where all K were measured in every round.

    Were it as fast as the fastest and the order random, its label could as well have stood on any of the K values of
    each round: the share of the K^R choices whose sum is at least its own. Slower others only raise that share, since
    a choice adds their slowdown to the sum and never takes any away.
    """
    return _share(logs_RK, logs_RK[:, setting])


def p_against(logs_RK: Floats, setting: int, other: int) -> float:
    """Exact p value of "`setting` is not slower than `other`": the two values of each round change places at will."""
    pair_R2 = logs_RK[:, [setting, other]]
    return _share(pair_R2, pair_R2[:, 0])


def _share(choices: Floats, own: Floats) -> float:
    centred = choices - choices.mean(axis=1, keepdims=True)
    observed = float((own - choices.mean(axis=1)).sum())
    scale = float(np.abs(centred).max(axis=1).sum())
    return tail_share(centred, observed - TOLERANCE * scale, seed=0)


def _done(rules: SweepRules, logs_RK: Floats, live: Sequence[int]) -> str:
    if last := _last_one(live):
        return last
    if len(logs_RK) >= MIN_ROUNDS and _are_equal(rules, logs_RK, live):
        return "those left are equal within the margin"
    return "all rounds are measured" if len(logs_RK) >= rules.max_rounds else ""


def _are_equal(rules: SweepRules, logs_RK: Floats, live: Sequence[int]) -> bool:
    """Every one left is within the margin of the fastest of them (t bound, Bonferroni). It only ends measuring."""
    best, *others = _ranked(logs_RK, live)
    quantile = t_quantile(rules.tost_alpha / len(others), len(logs_RK) - 1)
    return all(_bound(logs_RK, k, best, quantile) < rules.margin for k in others)


def _bound(logs_RK: Floats, setting: int, best: int, quantile: float) -> float:
    mean, se, _ = _mean_and_se(logs_RK, setting, best)
    return mean + quantile * se


def _mean_and_se(logs_RK: Floats, setting: int, best: int) -> tuple[float, float, int]:
    """Paired by round; the standard error is NaN from a single round."""
    paired = logs_RK[:, setting] - logs_RK[:, best]
    paired = paired[~np.isnan(paired)]
    se = float(paired.std(ddof=1)) / sqrt(len(paired)) if len(paired) > 1 else float("nan")
    return float(paired.mean()), se, len(paired)


def _ranked(logs_RK: Floats, settings: Sequence[int]) -> tuple[int, ...]:
    """Fastest first, by the mean over the rounds that all of them ran in: all so far. Ties: in the order given."""
    if not len(logs_RK):
        return tuple(settings)
    return tuple(sorted(settings, key=lambda k: float(logs_RK[:, k].mean())))


def slowdown(logs_RK: Floats, setting: int, best: int) -> Slowdown | None:
    """`setting` against `best` in logs, descriptive; None where no round measured both."""
    if not len(logs_RK) or np.isnan(logs_RK[:, setting] - logs_RK[:, best]).all():
        return None
    mean, se, rounds = _mean_and_se(logs_RK, setting, best)
    if rounds < 2:
        return Slowdown(log=mean, rounds=rounds)
    half = t_quantile((1 - CI_LEVEL) / 2, rounds - 1) * se
    return Slowdown(log=mean, low=mean - half, high=mean + half, rounds=rounds)
