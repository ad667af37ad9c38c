"""Extensions of an undecided comparison: what they may spend, and what of the past they may use."""

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stats_cases import LATENCY, measured, noisy, split_block

from benchmarks.verdicts.extensions import extended, ten_blocks_each
from benchmarks.verdicts.scenarios import GUARANTEED
from perfguard.policy import Policy, stored_policy
from perfguard.records import Extension, Metric, Outcome
from perfguard.stats.design import choose_design
from perfguard.stats.extension import extension_alpha, extension_policy, report_bound
from perfguard.stats.sequential import decide

OTHER = Metric(name="other", unit="s", better="lower")
REPORTS = (Outcome.REGRESSION, Outcome.IMPROVEMENT)
SEED = 20_262


def extension(number=1, max_blocks=10, **changes):
    sizes = {"max_blocks": max_blocks, "max_confirm_blocks": max(2, max_blocks)}
    return Extension(**{"number": number, "created_at": "", "seed": 5, **sizes, **changes})


def in_stage(stage, *blocks):
    return [replace(block, stage=stage, index=index) for index, block in enumerate(blocks)]


def run_part(draws, blocks, *, extensions, seed, policy=None, metrics=(LATENCY,)):
    """Goes on from `blocks` as the harness does; the blocks and every decision on the way."""
    policy, blocks, decisions = policy or Policy(), list(blocks), []
    while not decisions or decisions[-1].state != "done":
        if decisions:
            stage = 2 * len(extensions) + (1 if decisions[-1].state == "measure" else 2)
            blocks.append(measured(seed, stage, len(blocks), draws))
        decisions.append(decide(policy, metrics, blocks, extensions=extensions))
    return blocks, decisions


# --- what may be spent


def test_the_shares_of_all_extensions_add_up_to_what_was_kept_back():
    policy = Policy(alpha=0.001, extension_share=0.03)
    # 3 % of 0.001 is 3e-5, of which the first takes two thirds and each next one a third of the one before.
    assert extension_alpha(policy, 1) == pytest.approx(2e-5)
    assert extension_alpha(policy, 2) == pytest.approx(2e-5 / 3)
    assert sum(extension_alpha(policy, number) for number in range(1, 60)) == pytest.approx(3e-5)


@pytest.mark.parametrize("num_primaries", [1, 2, 5])
@pytest.mark.parametrize("alpha", [0.05, 0.001, 1e-5])
@pytest.mark.parametrize("extension_share", [0.03, 0.1, 0.9])
def test_the_original_and_twelve_extensions_together_stay_within_alpha(alpha, num_primaries, extension_share):
    policy = Policy(alpha=alpha, extension_share=extension_share)
    rng = random.Random(SEED)
    many = [extension(number, rng.choice([2, 5, 10, 40])) for number in range(1, 13)]
    for num in range(13):
        assert report_bound(policy, num_primaries, many[:num]) <= alpha * (1 + 1e-12)
    # The bound is used, not merely kept: an original of ten blocks spends all it may.
    assert report_bound(policy, num_primaries, []) >= 0.4 * alpha * (1 - extension_share)


@pytest.mark.parametrize("num_primaries", [1, 2, 3])
def test_what_is_kept_back_moves_no_first_look_of_the_original(num_primaries):
    kept, spent = (choose_design(Policy(extension_share=share), num_primaries) for share in (0.03, 0.0))
    assert (min(kept.looks), min(kept.confirm_looks)) == (min(spent.looks), min(spent.confirm_looks)) == (2, 3)


def test_the_first_extension_looks_first_after_three_and_four_blocks():
    # 2 / 6^7 = 7.1e-6 is within its 2e-5; 2 / 6^6 = 4.3e-5 is not.
    design = choose_design(extension_policy(Policy(), extension()), 1)
    assert (min(design.looks), min(design.confirm_looks)) == (3, 4)


def test_an_extension_confirms_though_the_original_did_not():
    policy = extension_policy(Policy(is_confirmed=False), extension(max_blocks=7))
    assert (policy.is_confirmed, policy.max_blocks, policy.max_confirm_blocks) == (True, 7, 7)


def test_a_comparison_stored_before_extensions_existed_kept_nothing_back():
    assert stored_policy({"alpha": 0.001}).extension_share == 0.0
    assert stored_policy({"alpha": 0.001, "extension_share": 0.03}).extension_share == 0.03


# --- what of the past may be used

# Head slower by 10 % or not at all, without noise that could hide it.
SLOW = split_block((1.0, 1.001), (1.1, 1.101))
SAME = split_block((1.0, 1.001), (1.0, 1.001))
# Base and head far apart from trial to trial, on average alike: nothing can be said.
WILD = split_block((1.0, 1.3), (1.0, 1.3))


def test_an_extension_goes_on_where_the_original_was_left():
    blocks = in_stage(1, *[WILD] * 3)
    assert decide(Policy(max_blocks=3), [LATENCY], blocks).state == "done"
    decision = decide(Policy(max_blocks=3), [LATENCY], blocks, extensions=[extension()])
    assert (decision.state, decision.outcome) == ("measure", Outcome.INCONCLUSIVE)


def test_earlier_orders_make_nobody_suspect():
    """Four clear blocks would be beyond luck, but two of them are the original's."""
    policy, before = Policy(is_confirmed=False), in_stage(1, SLOW, SLOW)
    assert decide(policy, [LATENCY], before).outcome is Outcome.SUSPECT
    states = [
        decide(policy, [LATENCY], [*before, *in_stage(3, *[SLOW] * num)], extensions=[extension()]).state
        for num in range(4)
    ]
    assert states == ["measure", "measure", "measure", "confirm"]


@given(st.lists(st.sampled_from([SLOW, SAME, WILD]), min_size=1, max_size=2), st.integers(3, 6))
@settings(max_examples=30, deadline=None)
def test_a_change_in_the_extension_is_found_or_not_whatever_came_before(earlier, num_blocks):
    policy = Policy(max_blocks=2, max_confirm_blocks=2, is_confirmed=False)
    before = in_stage(1, *earlier)
    if decide(policy, [LATENCY], before).outcome is Outcome.EQUIVALENT:
        return  # frozen
    blocks = [*before, *in_stage(3, *[SLOW] * num_blocks)]
    assert decide(policy, [LATENCY], blocks, extensions=[extension()]).state == "confirm"


def test_equivalence_counts_the_blocks_of_the_original():
    # sd 0.95 % from two blocks: t(0.0125, 5) * sd / sqrt(2) is 2.1 %, beyond the margin of 2 %. From four blocks,
    # sd 0.90 % and t(0.0125, 11) * sd / 2 are 1.2 %.
    noise = split_block((1.0, 1.015), (1.0, 1.015))
    policy, before = Policy(max_blocks=2), in_stage(1, noise, noise)
    assert decide(policy, [LATENCY], before).outcome is Outcome.INCONCLUSIVE
    blocks = [*before, *in_stage(3, noise, noise)]
    ended = decide(policy, [LATENCY], blocks, extensions=[extension(max_blocks=2)])
    assert (ended.outcome, ended.metrics[0].decided_at) == (Outcome.EQUIVALENT, 4)


def test_a_metric_that_was_decided_stays_frozen_in_an_extension():
    draws = {"latency": lambda rng, arm, stage: 1.0, "other": noisy(0.04)}
    policy = Policy(max_blocks=4)
    blocks = [measured(3, 1, k, draws) for k in range(4)]
    before = decide(policy, [LATENCY, OTHER], blocks)
    assert [r.outcome for r in before.metrics] == [Outcome.EQUIVALENT, Outcome.INCONCLUSIVE]
    slower = {"latency": lambda rng, arm, stage: 9.0 if arm == "B" else 1.0, "other": noisy(0.04)}
    more = [*blocks, *(measured(3, 3, k, slower) for k in range(3))]
    after = decide(policy, [LATENCY, OTHER], more, extensions=[extension()])
    assert after.metrics[0] == before.metrics[0]
    assert after.state == "measure"


def test_a_suspicion_outlasts_an_extension_that_was_stopped_and_not_one_that_came_to_its_end():
    policy = Policy(is_confirmed=False)
    before = in_stage(1, SLOW, SLOW)
    stopped = decide(policy, [LATENCY], before, extensions=[extension()])
    assert stopped.outcome is Outcome.SUSPECT
    assert [r.code for r in stopped.reasons] == ["NOT_CONFIRMED"]
    ended = decide(policy, [LATENCY], [*before, *in_stage(3, WILD, WILD)], extensions=[extension(max_blocks=2)])
    assert (ended.state, ended.outcome) == ("done", Outcome.INCONCLUSIVE)


def test_an_original_stopped_by_its_budget_is_closed_by_its_extension():
    blocks = in_stage(1, WILD)
    assert decide(Policy(), [LATENCY], blocks).state == "measure"
    more = [*blocks, *in_stage(3, SLOW, SLOW, SLOW), *in_stage(4, *[SLOW] * 4)]
    decision = decide(Policy(), [LATENCY], more, extensions=[extension()])
    assert (decision.state, decision.outcome) == ("done", Outcome.REGRESSION)
    assert decision.metrics[0].decided_at == 8


@pytest.mark.parametrize("seed", range(3))
def test_an_extended_comparison_replays_on_every_prefix(seed):
    draws = {"latency": noisy(0.02, 1.03), "other": noisy(0.02)}
    metrics, policy = [LATENCY, OTHER], Policy(max_blocks=4, max_confirm_blocks=4)
    registered, blocks, history = [], [], []
    for number in range(3):
        registered = [extension(k, 6) for k in range(1, number + 1)]
        start = len(blocks)
        blocks, decisions = run_part(draws, blocks, extensions=registered, seed=seed, policy=policy, metrics=metrics)
        history += [(start + k, registered, decision) for k, decision in enumerate(decisions)]
        if decisions[-1].outcome not in (Outcome.INCONCLUSIVE, Outcome.SUSPECT):
            break
    for num, known, decision in history:
        assert decide(policy, metrics, blocks[:num], extensions=known) == decision


# --- a small simulation, everybody extending whenever they may


@pytest.mark.parametrize("name", ["iid", "sticky clocks", "periodic neighbour"])
def test_false_reports_stay_within_alpha_over_the_original_and_its_extensions(name):
    # A margin of nearly nothing takes away what usually protects; half of a large alpha is kept back.
    policy = Policy(
        alpha=0.05, extension_share=0.5, margin=1e-9, futility=0.0, tost_alpha=1e-12, max_blocks=6, max_confirm_blocks=6
    )
    num, extensions = 120, ten_blocks_each(2)
    print(f"seed {SEED}")
    results = extended(policy, extensions, GUARANTEED[name], effect=0.0, sd=0.01, num=num, seed=SEED)
    false = sum(one[-1].outcome in REPORTS for one in results)
    assert false <= num * 0.05 + 4 * (num * 0.05) ** 0.5
    # Nobody was decided early, so that the extensions were really tried.
    assert sum(len(one) for one in results) > 2.8 * num


def test_an_extension_finds_changes_that_the_original_left_undecided():
    ends = extended(Policy(), ten_blocks_each(1), GUARANTEED["iid"], effect=0.05, sd=0.03, num=120, seed=SEED)
    first, last = (sum(one[k].outcome is Outcome.REGRESSION for one in ends) for k in (0, -1))
    assert last > first + 6
    assert last >= 0.8 * 120
