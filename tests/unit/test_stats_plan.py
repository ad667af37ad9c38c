from collections import Counter

import pytest

from perfguard.experiment import with_spares
from perfguard.policy import Policy
from perfguard.stats.plan import ORDERS, build_order, builds_of, builds_text, order_of_modes, plan_block

# The longest stage two with its spares.
MOST_BUILDS = 120


def test_a_plan_is_the_same_for_ever():
    # A stored seed must give the orders that were run, in every later version.
    first = plan_block(0, 1, 0, 8)
    assert (first.order, first.builds) == ("ABBA", "1111")
    assert first.pauses == (0.9346496954441981, 0.0017597567262501723, 0.04443179800033048, 0.5587371207555709)
    second = plan_block(7, 2, 3, 2)
    assert (second.order, second.builds) == ("ABBA", "2323")
    assert order_of_modes(7, "t1", ("plain", "eagle3", "x")) == ("x", "eagle3", "plain")


def test_the_orders_are_the_six_with_two_trials_of_each_arm():
    assert set(ORDERS) == {"AABB", "ABAB", "ABBA", "BAAB", "BABA", "BBAA"}


def test_orders_and_builds_are_uniform_and_pauses_lie_in_their_range():
    plans = [plan_block(seed, 2, index, 2) for seed in range(300) for index in range(10)]
    counts = Counter(plan.order for plan in plans)
    # 3000 draws of a sixth: 500 with a standard deviation of 20; five of them are allowed.
    assert all(abs(counts[order] - 500) < 100 for order in ORDERS)
    firsts = Counter((plan.builds[plan.order.index("A")], plan.builds[plan.order.index("B")]) for plan in plans)
    assert all(abs(firsts[a, b] - 750) < 120 for a in "23" for b in "23")
    pauses = [pause for plan in plans for pause in plan.pauses]
    assert min(pauses) >= 0
    assert max(pauses) < 1
    assert abs(sum(pauses) / len(pauses) - 0.5) < 0.02


def test_blocks_differ_by_seed_stage_and_index():
    keys = [(seed, stage, index) for seed in range(5) for stage in (1, 2) for index in range(5)]
    assert len({plan_block(*key, 8).pauses for key in keys}) == len(keys)


def builds_by_arm(plan):
    slots = list(zip(builds_of(plan.builds), plan.order, strict=True))
    return [sorted(build for build, arm in slots if arm == wanted) for wanted in "AB"]


def test_stage_one_runs_first_builds_and_stage_two_a_fresh_pair_once_an_arm():
    for index in range(50):
        assert plan_block(3, 1, index, 8).builds == "1111"
        assert builds_by_arm(plan_block(3, 2, index, 2)) == [[2, 3]] * 2


def test_with_eight_fresh_builds_the_first_four_blocks_have_their_own():
    pairs = [builds_by_arm(plan_block(3, 2, index, 8))[0] for index in range(5)]
    assert pairs == [[2, 3], [4, 5], [6, 7], [8, 9], [2, 3]]


@pytest.mark.parametrize("max_confirm_blocks", [Policy().max_confirm_blocks, 40])
@pytest.mark.parametrize("stage", [2, 4])
def test_with_enough_builds_every_confirming_block_and_every_spare_one_has_a_pair_of_its_own(stage, max_confirm_blocks):
    indices = range(with_spares(max_confirm_blocks))
    plans = [plan_block(3, stage, index, MOST_BUILDS) for index in indices]
    assert [builds_by_arm(plan) for plan in plans] == [[[2 + 2 * index, 3 + 2 * index]] * 2 for index in indices]


def test_more_builds_change_neither_orders_nor_which_of_a_pair_runs_first():
    # The first four blocks are those of eight builds, to the letter.
    for index in range(4):
        assert plan_block(7, 2, index, MOST_BUILDS) == plan_block(7, 2, index, 8)
    fifth, before = plan_block(7, 2, 4, MOST_BUILDS), plan_block(7, 2, 4, 8)
    assert (fifth.order, fifth.pauses) == (before.order, before.pauses)
    assert [build - 8 for build in builds_of(fifth.builds)] == list(builds_of(before.builds))


@pytest.mark.parametrize(("text", "numbers"), [
    ("1111", (1, 1, 1, 1)),
    ("8998", (8, 9, 9, 8)),
    ("10 11 11 10", (10, 11, 11, 10)),
    ("9 10 9 10", (9, 10, 9, 10)),
    ("120 121 120 121", (120, 121, 120, 121)),
])  # fmt: skip
def test_builds_are_stored_as_digits_and_beyond_nine_with_spaces(text, numbers):
    assert builds_text(numbers) == text
    assert builds_of(text) == numbers


def test_fresh_builds_are_made_in_every_order_equally_often_and_in_that_of_their_seed_for_ever():
    single = Counter("".join(arm for arm, _ in build_order(seed, 1, [1])) for seed in range(1000))
    # 1000 draws of a half: 500 with a standard deviation of 16; five of them are allowed.
    assert set(single) == {"AB", "BA"}
    assert abs(single["AB"] - 500) < 80
    pairs = Counter("".join(arm for arm, _ in build_order(seed, 2, [2, 3])) for seed in range(3000))
    assert all(abs(pairs[order] - 500) < 100 for order in ORDERS)
    assert build_order(5, 2, [4, 5]) == (("B", 4), ("B", 5), ("A", 4), ("A", 5))
    assert len({build_order(seed, 2, [n, n + 1])[0] for seed in range(9) for n in (2, 4)}) == 4


def test_modes_come_in_every_order_equally_often():
    counts = Counter(order_of_modes(1, f"trial {k}", ("plain", "eagle3", "other")) for k in range(1200))
    # 1200 draws of a sixth: 200 with a standard deviation of 13.
    assert len(counts) == 6
    assert all(abs(count - 200) < 65 for count in counts.values())
