"""Probabilities of the search, held against sums written out with scipy's own t and normal distributions."""

import math
from itertools import product

import numpy as np
import pytest
from scipy import stats

from perfguard.stats import culprit_model as model
from perfguard.stats.culprit_model import beliefs_of
from perfguard.stats.culprit_records import Reading, SearchSetup

SETUP = SearchSetup(num_candidates=4, launch_sd=0.01, smallest=0.02)


def density(off, scale, spoiled):
    core = stats.t.pdf(off / scale, df=8) / scale
    return (1 - spoiled) * core + spoiled * stats.norm.pdf(off, scale=0.12)


def noises():
    for (scale, a), (spoiled, b) in product(
        zip(model.SCALES, model.SCALE_WEIGHTS, strict=True),
        zip(model.SPOILED_SHARES, model.SPOILED_WEIGHTS, strict=True),
    ):
        yield math.sqrt(2) * 0.01 * scale, spoiled, a * b


def kinds(smallest=0.02):
    total = sum(model.SIZE_WEIGHTS)
    for size, weight in zip(model.SIZES, model.SIZE_WEIGHTS, strict=True):
        yield size * smallest, 1.0, (1 - model.LOTTERY_SHARE) * weight / total
    pairs = list(product(model.LOTTERY_SIZES, model.LOTTERY_RATES))
    for size, rate in pairs:
        yield size * smallest, rate, model.LOTTERY_SHARE / len(pairs)


def likelihood(readings, candidate):
    """Averaged over sizes, rates and noises; candidate None: nothing changed."""
    size, rate, prior = np.array(list(kinds())).T
    total = 0.0
    for scale, spoiled, weight in noises():
        value = np.full_like(size, weight)
        for reading in readings:
            own = scale * reading.relative_sd
            clean = density(reading.log_slowdown, own, spoiled)
            if candidate is not None and reading.position >= candidate:
                changed = density(reading.log_slowdown - size, np.sqrt(own**2 + (0.1 * size) ** 2), spoiled)
                value = value * ((1 - rate) * clean + rate * changed)
            else:
                value = value * clean
        total += float(prior @ value)
    return total


def test_the_prior_gives_half_to_nothing_changed_and_shares_the_rest_evenly():
    posterior = beliefs_of(SETUP, ()).posterior
    # Too few commits for a gradual change, whose share nobody gets.
    share = 1 - model.GRADUAL_SHARE
    assert posterior.p_none == pytest.approx(1 / (1 + share))
    assert posterior.p_change == pytest.approx([share / (1 + share) / 4] * 4)


@pytest.mark.parametrize(
    "readings",
    [
        (Reading(position=4, log_slowdown=0.05),),
        (Reading(position=4, log_slowdown=0.05), Reading(position=2, log_slowdown=-0.01)),
        (
            Reading(position=4, log_slowdown=0.031),
            Reading(position=3, log_slowdown=0.09),
            Reading(position=1, log_slowdown=0.002),
            Reading(position=3, log_slowdown=0.04, relative_sd=0.5),
        ),
    ],
)
def test_the_posterior_is_bayes_on_the_grid(readings):
    none = likelihood(readings, None)
    changes = [(1 - model.GRADUAL_SHARE) / 4 * likelihood(readings, c) for c in (1, 2, 3, 4)]
    total = none + sum(changes)
    posterior = beliefs_of(SETUP, readings).posterior
    assert posterior.p_none == pytest.approx(none / total, rel=1e-9)
    assert posterior.p_change == pytest.approx([change / total for change in changes], rel=1e-9)


def some_readings(seed, num=12, positions=40):
    print(f"seed {seed}")
    rng = np.random.default_rng(seed)
    return tuple(
        Reading(position=int(i), log_slowdown=0.05 * (i >= 17) + float(rng.normal(0, 0.014)))
        for i in rng.integers(1, positions + 1, num)
    )


@pytest.mark.parametrize("seed", range(5))
def test_probabilities_add_up_to_one(seed):
    posterior = beliefs_of(SearchSetup(num_candidates=40), some_readings(seed)).posterior
    assert posterior.p_none + posterior.p_gradual + sum(posterior.p_change) == pytest.approx(1)


@pytest.mark.parametrize("seed", range(3))
def test_looking_for_faster_is_looking_for_slower_in_the_mirror(seed):
    readings = some_readings(seed)
    mirrored = [Reading(position=r.position, log_slowdown=-r.log_slowdown) for r in readings]
    slower = beliefs_of(SearchSetup(num_candidates=40), readings).posterior
    faster = beliefs_of(SearchSetup(num_candidates=40, look_for="faster"), mirrored).posterior
    assert faster.p_change == pytest.approx(slower.p_change)
    assert faster.log_slowdown == pytest.approx(-slower.log_slowdown)


def test_looking_for_any_change_finds_both_directions_alike():
    setup, readings = SearchSetup(num_candidates=40, look_for="any"), some_readings(1)
    mirrored = [Reading(position=r.position, log_slowdown=-r.log_slowdown) for r in readings]
    up, down = beliefs_of(setup, readings).posterior, beliefs_of(setup, mirrored).posterior
    assert up.p_change == pytest.approx(down.p_change)
    assert up.log_slowdown == pytest.approx(-down.log_slowdown)
    assert up.log_slowdown > 0.03


def test_the_order_of_readings_does_not_matter_and_a_memo_changes_nothing():
    setup, readings = SearchSetup(num_candidates=40), some_readings(2)
    memo = {}
    for count in range(len(readings)):
        beliefs_of(setup, readings[:count], memo=memo)
    plain = beliefs_of(setup, readings).posterior
    assert beliefs_of(setup, readings, memo=memo).posterior == plain
    assert beliefs_of(setup, readings[::-1]).posterior.p_change == pytest.approx(plain.p_change)


def test_candidates_between_two_measured_positions_are_told_apart_by_their_prior_alone():
    readings = [Reading(position=10, log_slowdown=0.0), Reading(position=20, log_slowdown=0.05)]
    weights = tuple(float(1 + c % 3) for c in range(1, 41))
    p = beliefs_of(SearchSetup(num_candidates=40, weights=weights), readings).posterior.p_change
    assert [p[c - 1] / weights[c - 1] for c in range(11, 21)] == pytest.approx([p[10] / weights[10]] * 10)


def test_a_refuted_candidate_keeps_a_thousandth():
    setup, readings = SearchSetup(num_candidates=4), [Reading(position=4, log_slowdown=0.05)]
    before = beliefs_of(setup, readings).posterior.p_change
    after = beliefs_of(setup, readings, frozenset({2})).posterior.p_change
    assert after[1] / after[0] == pytest.approx(0.001 * before[1] / before[0])


def test_enormous_evidence_stays_finite():
    readings = [Reading(position=i % 40 + 1, log_slowdown=0.05 * (i % 40 >= 9)) for i in range(400)]
    posterior = beliefs_of(SearchSetup(num_candidates=40, launch_sd=1e-6), readings).posterior
    assert posterior.p_change[9] == pytest.approx(1)


def test_a_change_far_beyond_the_grid_is_found():
    readings = [Reading(position=i, log_slowdown=2.5 * (i >= 3)) for i in (4, 2, 3, 2, 3, 2, 3)]
    posterior = beliefs_of(SETUP, readings).posterior
    assert posterior.p_change[2] > 0.95


def test_the_contrast_is_largest_at_bad_while_nothing_is_known():
    contrast = beliefs_of(SearchSetup(num_candidates=64), ()).contrast
    assert int(contrast.argmax()) == 63
