from itertools import product

import numpy as np
import pytest
from stats_cases import LATENCY, ORDERS, measured, noisy, run

from perfguard.policy import Policy
from perfguard.records import Metric, Outcome
from perfguard.stats.effects import series_of_logs
from perfguard.stats.multiplicity import adjusted_p
from perfguard.stats.sequential import decide

MEMORY = Metric(name="memory", unit="bytes", better="lower", primary=False)
TTFT = Metric(name="ttft", unit="s", better="lower", primary=False)
STEPS = Metric(name="steps", unit="steps", better="lower", primary=False, exact=True)


def over(values, orders):
    return series_of_logs(np.array(values, dtype=float), np.array([[a == "B" for a in o] for o in orders]))


def test_one_metric_alone_is_a_two_sided_order_test():
    # Both blocks separated: two of 36 orders are as extreme, this one and its mirror image.
    one = over([[0.0, 1.0, 1.1, 0.1], [0.0, 1.0, 1.1, 0.1]], ["ABBA", "ABBA"])
    assert adjusted_p([one], seed=0) == ((pytest.approx(2 / 36), 1),)


def test_a_second_metric_that_shows_nothing_costs_the_first_little():
    orders = ["ABBA", "BAAB", "ABAB", "AABB"]
    values = [[v * (a == "B") for v, a in zip([1.0, 1.1, 0.9, 1.0], o, strict=True)] for o in orders]
    clear, noise = over(values, orders), over(np.random.default_rng(3).normal(size=(4, 4)), orders)
    (first, direction), (second, _) = adjusted_p([clear, noise], seed=0)
    assert direction == 1
    # Only the order that ran, its mirror image and what ties with them: 2 of 1,296 at least.
    assert 2 / 1296 <= first < 0.01
    assert second >= first


@pytest.mark.parametrize("seed", [1, 2])
def test_any_false_finding_among_many_metrics_is_as_rare_as_promised(seed):
    # Six correlated metrics on fixed trials, every order equally likely: P(smallest adjusted p <= a) <= a.
    rng = np.random.default_rng(seed)
    shared = rng.normal(size=(2, 4))
    metrics = [shared + 0.5 * rng.normal(size=(2, 4)) for _ in range(6)]
    smallest = [
        min(p for p, _ in adjusted_p([over(m, orders) for m in metrics], seed=0))
        for orders in product(ORDERS, repeat=2)
    ]
    for level in set(smallest):
        assert sum(p <= level + 1e-12 for p in smallest) / 36 <= level + 1e-12


def test_metrics_without_variation_find_nothing():
    still = over([[1.0] * 4] * 3, ["ABBA"] * 3)
    assert adjusted_p([still, still], seed=0) == ((1.0, 1), (1.0, 1))
    assert adjusted_p([], seed=0) == ()


def test_beyond_six_blocks_orders_are_drawn_from_the_seed():
    rng = np.random.default_rng(1)
    orders = [ORDERS[k % 6] for k in range(8)]
    one = over(rng.normal(size=(8, 4)), orders)
    assert adjusted_p([one], seed=5) == adjusted_p([one], seed=5)
    assert adjusted_p([one], seed=5)[0][0] >= 1 / 100_001


def test_a_secondary_metric_is_suspected_at_most_and_only_when_all_is_done():
    draws = {"latency": noisy(0.012), "memory": noisy(0.001, 1.3)}
    blocks, decisions = run(draws, metrics=[LATENCY, MEMORY], seed=7)
    assert len(blocks) == 3
    assert [d.metrics[1].outcome for d in decisions] == [*[Outcome.INCONCLUSIVE] * 3, Outcome.SUSPECT]
    # Three blocks are no look of stage one: the test rests on the first two, 2 of 36 orders.
    (reason,) = decisions[-1].metrics[1].reasons
    assert (reason.code, reason.text[:28]) == ("SECONDARY", "p = 0.056 after 2 blocks amo")
    assert decisions[-1].metrics[1].slowdown == pytest.approx(1.3, rel=0.01)
    assert decisions[-1].outcome is Outcome.EQUIVALENT


def test_a_noisy_secondary_metric_is_not_suspected():
    draws = {"latency": noisy(0.001), "memory": noisy(0.2)}
    finals = [run(draws, metrics=[LATENCY, MEMORY], seed=seed)[1][-1].metrics[1] for seed in range(40)]
    assert all(abs(result.slowdown - 1) > 0.0001 for result in finals)
    # 2 of 36 orders by luck: 2 of 40, with a standard deviation of 1.5.
    assert sum(result.outcome is Outcome.SUSPECT for result in finals) <= 8


def test_a_secondary_metric_within_the_margin_is_equivalent():
    _, decisions = run({"latency": noisy(0.001), "memory": noisy(0.001, 1.01)}, metrics=[LATENCY, MEMORY])
    assert decisions[-1].metrics[1].outcome is Outcome.EQUIVALENT


def test_an_exact_secondary_metric_is_compared_by_equality():
    same = {"latency": noisy(0.001), "steps": lambda rng, arm, stage: 0.0}
    _, decisions = run(same, metrics=[LATENCY, STEPS])
    assert decisions[-1].metrics[1].outcome is Outcome.EQUIVALENT
    more = {"latency": noisy(0.001), "steps": lambda rng, arm, stage: 7.0 if arm == "A" else 8.0}
    _, decisions = run(more, metrics=[LATENCY, STEPS])
    assert decisions[-1].metrics[1].outcome is Outcome.SUSPECT
    assert decisions[-1].metrics[1].reasons[0].code == "EXACT_CHANGED"
    assert decisions[-1].outcome is Outcome.EQUIVALENT


def test_a_metric_that_some_blocks_lack_is_left_undecided():
    blocks = [measured(1, 1, k, {"latency": noisy(0.001)}) for k in range(2)]
    decision = decide(Policy(), [LATENCY, TTFT], blocks)
    assert decision.metrics[1].outcome is Outcome.INCONCLUSIVE
    assert decision.metrics[1].slowdown is None
