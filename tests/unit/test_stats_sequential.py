import pytest
from stats_cases import LATENCY, block, measured, mirrored, noisy, run, split_block

from perfguard.errors import UsageError
from perfguard.policy import Policy
from perfguard.records import Metric, Outcome
from perfguard.stats.sequential import decide, overall

THROUGHPUT = Metric(name="latency", unit="token/s", better="higher")
MEMORY = Metric(name="memory", unit="bytes", better="lower", primary=False)
OTHER = Metric(name="other", unit="s", better="lower")
EXCHANGED = {Outcome.REGRESSION: Outcome.IMPROVEMENT, Outcome.IMPROVEMENT: Outcome.REGRESSION}


def codes(reasons):
    return [reason.code for reason in reasons]


def test_nothing_measured_yet_is_undecided():
    decision = decide(Policy(), [LATENCY], [])
    assert (decision.state, decision.outcome) == ("measure", Outcome.INCONCLUSIVE)
    assert decision.metrics[0].slowdown is None


def test_a_metric_must_be_primary():
    with pytest.raises(UsageError, match="no metric is primary"):
        decide(Policy(), [MEMORY], [])


def test_identical_values_end_equivalent_after_the_fewest_blocks():
    blocks = [split_block((2.0, 2.0), (2.0, 2.0)) for _ in range(2)]
    decision = decide(Policy(), [LATENCY], blocks)
    assert (decision.state, decision.outcome) == ("done", Outcome.EQUIVALENT)
    result = decision.metrics[0]
    assert (result.slowdown, result.ci_low, result.ci_high, result.p_order) == (1.0, 1.0, 1.0, 1.0)
    assert (result.base_median, result.head_median, result.decided_at) == (2.0, 2.0, 2)


def test_constant_arms_five_percent_apart_are_reported_after_five_blocks():
    draws = {"latency": lambda rng, arm, stage: 1.05 if arm == "B" else 1.0}
    blocks, decisions = run(draws)
    assert [d.state for d in decisions] == ["measure", "measure", "confirm", "confirm", "confirm", "done"]
    assert decisions[-1].outcome is Outcome.REGRESSION
    assert [b.stage for b in blocks] == [1, 1, 2, 2, 2]
    result = decisions[-1].metrics[0]
    assert result.slowdown == pytest.approx(1.05)
    assert result.p_order == pytest.approx(1 / 216)
    assert result.decided_at == 5
    assert codes(result.reasons) == ["ODDS", "CONFIRMED", "PLACEBO_PASSED"]
    assert "3 blocks: luck in 1 of 216" in result.reasons[1].text


@pytest.mark.parametrize(("metric", "slowdown", "expected"), [
    (LATENCY, 1.05, Outcome.REGRESSION),
    (LATENCY, 1 / 1.05, Outcome.IMPROVEMENT),
    (THROUGHPUT, 1.05, Outcome.IMPROVEMENT),
    (THROUGHPUT, 1 / 1.05, Outcome.REGRESSION),
])  # fmt: skip
def test_direction_follows_what_is_better(metric, slowdown, expected):
    _, decisions = run({"latency": noisy(0.003, slowdown)}, metrics=[metric])
    assert decisions[-1].outcome is expected


def test_a_suspicion_carries_odds_anybody_can_check():
    _, decisions = run({"latency": noisy(0.002, 1.05)}, policy=Policy(is_confirmed=False))
    final = decisions[-1]
    assert (final.state, final.outcome) == ("done", Outcome.SUSPECT)
    odds = next(r for r in final.reasons if r.code == "ODDS")
    assert odds.text == "all head trials were the slowest in 2 blocks: luck in 1 of 36, whatever the noise"
    assert "NO_CONFIRM" in codes(final.reasons)


def test_odds_of_a_mixed_picture_are_counted_over_all_orders():
    # Head 0.95, 1.30 | base 1.00, 1.05 in one block of four makes the first look fail; the second one passes.
    blocks = [split_block((1.0, 1.01), (1.2, 1.22)) for _ in range(3)] + [split_block((1.0, 1.21), (1.2, 1.22))]
    decision = decide(Policy(is_confirmed=False), [LATENCY], blocks[2:] + blocks[:2])
    odds = next(r for r in decision.reasons if r.code == "ODDS")
    assert odds.text.startswith("of 1,296 orders")


def test_a_change_that_fresh_builds_do_not_show_is_refuted():
    draws = {"latency": lambda rng, arm, stage: noisy(0.003, 1.05 if stage == 1 else 1.0)(rng, arm, stage)}
    _, decisions = run(draws)
    assert decisions[-1].outcome is Outcome.EQUIVALENT
    assert {"NOT_CONFIRMED", "SLOW_RATE"} <= set(codes(decisions[-1].reasons))


def test_a_change_that_turns_round_in_fresh_blocks_stays_a_suspicion():
    draws = {"latency": lambda rng, arm, stage: noisy(0.003, 1.05 if stage == 1 else 0.95)(rng, arm, stage)}
    _, decisions = run(draws)
    assert decisions[-1].outcome is Outcome.SUSPECT
    assert "NOT_CONFIRMED" in codes(decisions[-1].reasons)


def with_lucky_build(blocks, arm, build, factor):
    """The same blocks, trials of one build of one arm made slower."""
    changed = []
    for b in blocks:
        slots = zip(b.values["latency"], b.order, b.builds, strict=True)
        values = [v * (factor if (a, n) == (arm, build) else 1) for v, a, n in slots]
        changed.append(block(b.order, values, stage=b.stage, builds=b.builds))
    return changed


def slow_builds(builds, num_builds):
    """Launches without any change but that these builds of head are 8 % slow."""
    blocks = [measured(3, 1 if k < 2 else 2, k, {"latency": noisy(0.002)}, num_builds) for k in range(12)]
    for build in builds:
        blocks = with_lucky_build(blocks, "B", build, 1.08)
    return blocks


def test_what_only_the_first_build_of_head_showed_is_refuted_by_fresh_builds():
    decision = decide(Policy(), [LATENCY], slow_builds("1", 8))
    assert (decision.state, decision.outcome) == ("done", Outcome.EQUIVALENT)
    assert "NOT_CONFIRMED" in codes(decision.reasons)


def test_a_slow_build_among_one_pair_fails_the_placebo():
    decision = decide(Policy(confirm_builds=2), [LATENCY], slow_builds("12", 2))
    assert (decision.state, decision.outcome) == ("done", Outcome.SUSPECT)
    text = next(r.text for r in decision.reasons if r.code == "PLACEBO")
    assert text.startswith("two builds of head alone differ by 8.0 %")


def test_a_confirmed_change_says_on_how_many_fresh_builds_it_rests():
    blocks = [measured(3, 1 if k < 2 else 2, k, {"latency": noisy(0.002, 1.08)}, 8) for k in range(5)]
    decision = decide(Policy(), [LATENCY], blocks)
    assert decision.outcome is Outcome.REGRESSION
    # Three blocks, each with a pair of its own.
    assert next(r.text for r in decision.reasons if r.code == "FRESH_BUILDS").startswith("confirmed on 6 fresh builds")


def test_the_reported_size_comes_from_fresh_blocks_alone():
    draws = {"latency": lambda rng, arm, stage: 1.0 if arm == "A" else 1.10 if stage == 1 else 1.04}
    _, decisions = run(draws)
    assert decisions[-1].metrics[0].slowdown == pytest.approx(1.04)


def test_decided_metrics_are_frozen_while_others_go_on():
    # `latency` never varies, `other` is too noisy to end early; later slow launches of `latency` change nothing.
    late = {"latency": lambda rng, arm, stage: 1.0, "other": noisy(0.02)}
    blocks = [measured(5, 1, k, late) for k in range(4)]
    before = decide(Policy(), [LATENCY, OTHER], blocks)
    assert before.state == "measure"
    assert before.metrics[0].decided_at == 2
    worse = split_block((1.0, 1.0), (9.0, 9.0))
    blocks.append(block(worse.order, worse.values["latency"]))
    blocks[-1] = type(worse)(
        stage=1, index=4, order=worse.order, builds="1111", values={**worse.values, "other": (1.0, 1.0, 1.0, 1.0)}
    )
    after = decide(Policy(), [LATENCY, OTHER], blocks)
    assert after.metrics[0] == before.metrics[0]


def test_confirmation_waits_until_every_primary_metric_has_ended_stage_one():
    draws = {"latency": lambda rng, arm, stage: 1.05 if arm == "B" else 1.0, "other": noisy(0.01)}
    blocks, decisions = run(draws, metrics=[LATENCY, OTHER], seed=4)
    num_ones = sum(b.stage == 1 for b in blocks)
    assert num_ones > 2
    assert [d.state for d in decisions[:num_ones]] == ["measure"] * num_ones
    assert decisions[-1].outcome is Outcome.REGRESSION
    assert [r.outcome for r in decisions[-1].metrics] == [Outcome.REGRESSION, Outcome.EQUIVALENT]
    assert all(reason.text.startswith("latency: ") for reason in decisions[-1].reasons)


def test_when_metrics_disagree_the_worst_is_said():
    o = Outcome
    assert overall([o.EQUIVALENT, o.REGRESSION, o.INCONCLUSIVE]) is o.REGRESSION
    assert overall([o.IMPROVEMENT, o.INVALID, o.SUSPECT]) is o.INVALID
    assert overall([o.IMPROVEMENT, o.SUSPECT, o.INCONCLUSIVE]) is o.SUSPECT
    assert overall([o.IMPROVEMENT, o.INCONCLUSIVE]) is o.INCONCLUSIVE
    assert overall([o.IMPROVEMENT, o.EQUIVALENT]) is o.IMPROVEMENT
    assert overall([o.EQUIVALENT, o.EQUIVALENT]) is o.EQUIVALENT


def test_too_much_noise_ends_inconclusive_with_the_blocks_still_needed():
    blocks, decisions = run({"latency": noisy(0.05)}, seed=2)
    final = decisions[-1]
    assert final.outcome is Outcome.INCONCLUSIVE
    assert set(codes(final.reasons)) & {"FUTILE", "MAX_BLOCKS"}
    assert final.blocks_needed > 10
    assert len(blocks) <= 10


def test_no_comparison_outlasts_its_blocks():
    policy = Policy(max_blocks=3, max_confirm_blocks=4)
    for seed in range(30):
        blocks, decisions = run({"latency": noisy(0.02, 1.03)}, seed=seed, policy=policy)
        assert sum(b.stage == 1 for b in blocks) <= 3
        assert sum(b.stage == 2 for b in blocks) <= 4
        assert decisions[-1].state == "done"


def test_an_exact_primary_metric_needs_one_block():
    steps = Metric(name="latency", unit="steps", better="lower", exact=True)
    decision = decide(Policy(), [steps], [split_block((7.0, 7.0), (7.0, 7.0))])
    assert (decision.state, decision.outcome) == ("done", Outcome.EQUIVALENT)
    assert [r.text for r in decision.reasons] == ["the same in all 4 launches"]
    unstable = decide(Policy(), [steps], [split_block((7.0, 8.0), (7.0, 7.0))])
    assert unstable.state == "measure"


def test_equivalence_waits_for_the_launches_a_slow_rate_asks_for():
    # 1 - 0.05^(1/n) <= 0.3 from n = 9 clean head launches on: five blocks.
    blocks = [split_block((1.0, 1.001), (1.0, 1.001)) for _ in range(5)]
    states = [decide(Policy(), [LATENCY], blocks[:q], slow_rate=0.3).state for q in range(1, 6)]
    assert states == ["measure"] * 4 + ["done"]


def test_a_slow_launch_of_head_cannot_exclude_a_slow_rate_though_base_has_some_too():
    slow = [split_block((1.0, 1.03), (1.0, 1.03)), split_block((1.0, 1.0), (1.0, 1.0))]
    blocks = slow[:1] + slow[1:] * 9
    assert decide(Policy(), [LATENCY], blocks).outcome is Outcome.EQUIVALENT
    assert decide(Policy(), [LATENCY], blocks, slow_rate=0.3).outcome is Outcome.INCONCLUSIVE


def test_head_launches_that_are_sometimes_slow_withhold_equivalence():
    blocks = [split_block((1.0, 1.0005), (1.0, 1.0004)) for _ in range(5)] + [split_block((1.0, 1.0), (1.0, 1.03))]
    slow_head = [blocks[-1], *blocks[:-1]]
    final = decide(Policy(max_blocks=6), [LATENCY], slow_head)
    assert final.outcome is Outcome.INCONCLUSIVE
    assert {"LOTTERY", "LOTTERY_OPEN"} <= set(codes(final.reasons))
    # Base that draws slow launches just as well is no difference between the two.
    assert decide(Policy(max_blocks=6), [LATENCY], mirrored(slow_head)).outcome is Outcome.EQUIVALENT


def test_results_come_in_the_order_of_the_metrics():
    blocks, decisions = run({"latency": noisy(0.002), "memory": noisy(0.001)}, metrics=[MEMORY, LATENCY])
    assert [r.metric.name for r in decisions[-1].metrics] == ["memory", "latency"]
    assert len(blocks) == 2
