"""The peers' rules are re-implemented: their tests against scipy's."""

import numpy as np
import pytest
import scipy.stats

from benchmarks.verdicts.peers import RULES, TRIALS_A_SIDE, changed_share
from benchmarks.verdicts.scenarios import drift, iid

RNG = np.random.default_rng(12)
BASE = RNG.lognormal(0.0, 0.02, (300, TRIALS_A_SIDE))
HEAD = RNG.lognormal(0.02, 0.03, (300, TRIALS_A_SIDE))


@pytest.mark.parametrize(("name", "p"), [
    ("pyperf compare_to", scipy.stats.ttest_ind(BASE, HEAD, axis=1).pvalue),
    ("Welch's t, 5 %", scipy.stats.ttest_ind(BASE, HEAD, axis=1, equal_var=False).pvalue),
    ("benchstat", scipy.stats.mannwhitneyu(BASE, HEAD, axis=1, method="exact").pvalue),
])  # fmt: skip
def test_a_rule_agrees_with_scipys_test(name, p):
    assert (RULES[name](BASE, HEAD) == (p <= 0.05)).all()
    assert 0 < (p <= 0.05).sum() < 300


def test_thresholds_are_those_of_the_tools():
    base = np.ones((1, TRIALS_A_SIDE)) + np.arange(TRIALS_A_SIDE) * 1e-4
    assert not RULES["asv"](base, base * 1.09)[0]
    assert RULES["asv"](base, base * 1.11)[0]
    assert not RULES["github-action-benchmark"](base, base * 1.99)[0]
    assert RULES["github-action-benchmark"](base, base * 2.01)[0]
    assert RULES["one run each, 5 %"](base, base * 0.94)[0]


def test_a_t_test_on_trials_in_turn_takes_drift_for_a_change():
    still = changed_share(RULES["pyperf compare_to"], iid, effect=0.0, sd=0.01, num=1000, seed=1)
    drifting = changed_share(RULES["pyperf compare_to"], drift, effect=0.0, sd=0.01, num=1000, seed=1)
    assert still == pytest.approx(0.05, abs=0.03)
    assert drifting > 0.5
