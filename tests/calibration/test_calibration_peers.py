"""The peers' rules are re-implemented: held to their real code's answers, to scipy, and to cases worked by hand."""

import numpy as np
import pytest
import scipy.stats

from benchmarks.verdicts.engine import draw_batch
from benchmarks.verdicts.peer_bootstrap import criterion
from benchmarks.verdicts.peer_history import bencher, change_points, conbench
from benchmarks.verdicts.peer_rules import (
    action_benchmark,
    asv,
    benchstat,
    google_benchmark,
    hyperfine,
    nvbench_legacy,
    nvbench_robust,
    pyperf,
    pyperf_critical,
    single_run,
    welch,
)
from benchmarks.verdicts.peers import PEERS, fresh_launches, num_changed, samples
from benchmarks.verdicts.scenarios import drift, iid
from benchmarks.verdicts.validate_peers import NUM_CASES, agreement, load
from perfguard.policy import Policy
from perfguard.stats.design import rules_of

SEED = 12
N = 10


def two_samples(num=300, n=N, m=N):
    rng = np.random.default_rng(SEED)
    return rng.lognormal(0.0, 0.02, (num, n)), rng.lognormal(0.02, 0.03, (num, m))


def steady(n=N):
    """One sample without ties that hardly varies."""
    return 1.0 + np.arange(n)[None, :] * 1e-5


@pytest.mark.parametrize("peer", sorted(load()))
def test_a_rule_answers_as_the_tools_own_code_did(peer):
    answers = load()[peer]["answers"]
    assert set(answers) == {"0", "1"}
    assert agreement(peer, answers) == NUM_CASES == len(answers)


def test_the_tools_that_install_were_asked():
    versions = {entry["version"].split()[0] for entry in load().values()}
    assert {"pyperf", "asv", "apache-otava", "cuda-bench", "conbench"} <= versions


@pytest.mark.parametrize(("rule", "p", "n", "m"), [
    (welch, lambda a, b: scipy.stats.ttest_ind(a, b, axis=1, equal_var=False).pvalue, 10, 10),
    (welch, lambda a, b: scipy.stats.ttest_ind(a, b, axis=1, equal_var=False).pvalue, 5, 30),
    (benchstat, lambda a, b: scipy.stats.mannwhitneyu(a, b, axis=1, method="exact").pvalue, 10, 10),
    (google_benchmark, lambda a, b: scipy.stats.mannwhitneyu(a, b, axis=1).pvalue, 10, 10),
    (pyperf, lambda a, b: scipy.stats.ttest_ind(a, b, axis=1).pvalue, 10, 10),
])  # fmt: skip
def test_a_rule_agrees_with_scipys_test(rule, p, n, m):
    base, head = two_samples(n=n, m=m)
    expected = p(base, head) <= 0.05
    assert (rule(base, head) == expected).all()
    assert 0 < expected.sum() < len(expected)


# From the two-sided 95 % column of a printed table of Student's t.
@pytest.mark.parametrize(
    ("df", "critical"),
    [(18, 2.101), (30, 2.042), (39, 2.042), (40, 2.021), (79, 2.000), (118, 1.984), (199, 1.984), (200, 1.960)],
)
def test_pyperf_reads_the_row_of_the_table_at_or_below(df, critical):
    assert pyperf_critical(df) == critical


def test_thresholds_are_those_of_the_tools():
    base = steady()
    assert not asv(base, base * 1.09)[0]
    assert asv(base, base * 1.11)[0]
    assert asv(base, base / 1.11)[0]
    # Medians far apart, but the samples are mixed: the U test says no.
    assert not asv(base, np.where(np.arange(N) < 4, 0.5, 1.2)[None, :] * base)[0]
    assert not action_benchmark(base, base * 1.99)[0]
    assert action_benchmark(base, base * 2.01)[0]
    assert single_run(base, base * 0.94)[0]
    assert not single_run(base, base * 0.96)[0]


def test_hyperfines_bar_is_one_propagated_deviation_of_single_runs():
    # Means 1 and 1.1, deviations 0.05 and 0.055: the bar is 1.1 * sqrt(2) * 0.05 = 0.0778, less than 0.1.
    base = np.array([[0.95, 1.0, 1.05]])
    assert hyperfine(base, 1.1 * base)[0]
    assert hyperfine(1.1 * base, base)[0]
    # At 1.07 the bar is 0.0757, more than 0.07.
    assert not hyperfine(base, 1.07 * base)[0]


def test_nvbench_compares_the_difference_with_the_smaller_noise():
    # Deviations of 1 % and 3 %: 0.9 % is the same, 1.1 % is not.
    quiet, loud = np.array([[0.99, 1.0, 1.01]]), np.array([[0.97, 1.0, 1.03]])
    assert not nvbench_legacy(quiet, 1.009 * loud)[0]
    assert nvbench_legacy(quiet, 1.011 * loud)[0]
    assert nvbench_legacy(1.011 * loud, quiet)[0]


def test_nvbench_robust_wants_a_gap_above_the_third_quartile():
    # Of five values the fourth is the third quartile: (75 * 4 + 50) // 100 = 3 from zero. The outlier does not count.
    base = np.array([[1.0, 1.001, 1.002, 1.01, 1.5]])
    assert not nvbench_robust(base, base * 1.0149)[0]
    assert nvbench_robust(base, base * 1.0152)[0]
    assert nvbench_robust(base * 1.0152, base)[0]


def test_criterion_wants_significance_and_more_than_its_noise_threshold():
    rng = np.random.default_rng(SEED)
    base, other = rng.normal(1.0, 0.01, (1, 100)), rng.normal(1.0, 0.01, (1, 100))
    # The means' standard error is 0.14 %: 0.6 % is significant yet within the threshold of 1 %, 2 % is beyond.
    assert welch(base, 1.006 * other)[0]
    assert not criterion(base, 1.006 * other)[0]
    assert criterion(base, 1.02 * other)[0]
    assert criterion(base, other / 1.02)[0]
    # Beyond the threshold by its estimate, but not significant among a few wild values.
    assert not criterion(np.array([[1.0, 2.0, 0.5, 1.4]]), np.array([[1.1, 2.1, 0.6, 1.6]]))[0]


def test_bencher_draws_a_prediction_limit_above_only():
    # Mean 2, deviation (divided by n) sqrt(2/3), n = 3: 2 + 6.9646 * 0.8165 * sqrt(4/3) = 8.566.
    history = np.array([[1.0, 2.0, 3.0]])
    assert not bencher(history, np.array([[8.55]]))[0]
    assert bencher(history, np.array([[8.58]]))[0]
    assert not bencher(history, np.array([[-100.0]]))[0]


def test_conbench_leaves_out_what_jumps_and_jumps_back():
    rng = np.random.default_rng(SEED)
    calm = rng.normal(1.0, 0.01, (1, 79))
    spiked = calm.copy()
    spiked[0, 40] = 2.0
    # 8 % are eight deviations of the calm history, and of the spiked one without its spike.
    assert conbench(calm, np.array([[1.08]]))[0]
    assert conbench(spiked, np.array([[1.08]]))[0]
    assert not conbench(calm, np.array([[1.03]]))[0]
    # A step that stays is kept, and widens the deviation.
    stepped = calm + np.where(np.arange(79) < 40, 0.0, 0.5)
    assert not conbench(stepped, np.array([[stepped[0, 40:].mean() + 0.08]]))[0]


def test_otava_finds_a_step_where_it_is_and_none_in_calm():
    rng = np.random.default_rng(SEED)
    calm = rng.normal(1.0, 0.001, 40)
    assert change_points(calm) == []
    assert change_points(calm + np.where(np.arange(40) < 20, 0.0, 0.05)) == [20]


def test_all_tools_meet_the_noise_that_our_own_comparison_meets():
    rng = np.random.default_rng(SEED)
    batch = draw_batch(50, rules_of(Policy(), 1), 0.01, rng, Policy().confirm_builds)
    ours = drift(batch, rng).reshape(50, -1)
    base, head = samples(PEERS["benchstat U test"], drift, effect=0.05, sd=0.01, num=50, seed=SEED)
    assert np.log(base) == pytest.approx(ours[:, :10])
    assert np.log(head) == pytest.approx(ours[:, 10:20] + np.log(1.05))


def test_asv_runs_its_rounds_in_turn_and_reverses_the_order():
    def clock(batch, rng):
        return np.broadcast_to(np.arange(batch.is_head.shape[1] * 4.0).reshape(1, -1, 4), batch.is_head.shape)

    base, head = samples(PEERS["asv continuous"], clock, effect=0.0, sd=0.0, num=1, seed=SEED)
    assert np.log(base[0]).round(6).tolist() == [0.0] * 5 + [3.0] * 5
    assert np.log(head[0]).round(6).tolist() == [1.0] * 5 + [2.0] * 5


def test_fresh_launches_are_those_a_tool_has_to_wait_for():
    launches = {name: fresh_launches(peer) for name, peer in PEERS.items()}
    assert launches["bencher t"] == launches["conbench z"] == 1
    assert launches["google/benchmark U test"] == 2
    assert launches["benchstat U test"] == 20


def changed_share(peer, noise):
    return num_changed(PEERS[peer], noise, effect=0.0, sd=0.01, num=1000, seed=SEED) / 1000


def test_a_t_test_on_trials_in_turn_takes_drift_for_a_change():
    assert changed_share("Welch's t, 10 a side", iid) == pytest.approx(0.05, abs=0.03)
    assert changed_share("Welch's t, 10 a side", drift) > 0.5


def test_repeats_in_one_process_are_taken_for_independent_launches():
    assert changed_share("google/benchmark U test", iid) > 0.7
    assert changed_share("pyperf compare_to", iid) > 0.15
