"""Prices before anything runs: from this machine's history of the workload, else from stated assumptions."""

from dataclasses import replace

import pytest
from campaign_cases import campaign, measured

from perfguard.engine_workloads import ENGINES
from perfguard.experiment import planned_blocks
from perfguard.policy import Policy
from perfguard.pricing import basis_of, price_lines_of
from perfguard.store import open_store

POLICY = Policy(pause_share=0.0)


@pytest.fixture
def store(tmp_path):
    with open_store(tmp_path / "results.db") as store:
        yield store


def test_without_history_the_assumptions_are_stated(store):
    lines = price_lines_of(campaign(POLICY), store)
    assert (
        lines[0] == "never calibrated here: perfguard calibrate --metric seconds --better lower --unit s -- sh bench.sh"
    )
    assert lines[1].startswith("prices assumed, nothing is stored yet: 5 s to load, 5 s measured")
    assert "launch noise unknown" in lines[1]
    # Four launches of 10 s without pauses; two first runs and two blocks at the least: 100 s.
    assert "a launch: 5 s to load, 5 s measured; a block of four: 40 s" in lines
    assert "earliest EQUIVALENT: 2 blocks, 2 min" in lines


def test_history_of_this_workload_on_this_machine_gives_the_prices(store):
    past = campaign(POLICY)
    store.add_campaign(past)
    store.add_blocks(past.id, planned_blocks(past))
    # Each trial takes 1.5 s in all, 1 s of it measured, and no two differ.
    trials = measured(past, lambda side: 1.0)
    for trial in trials:
        store.add_trial(past.id, trial)
    lines = price_lines_of(campaign(POLICY, id="c-2"), store)
    assert lines[1].startswith("prices from 8 trials of this workload on this machine")
    assert "a launch: 0.5 s to load, 1 s measured; a block of four: 6 s" in lines
    elsewhere = price_lines_of(campaign(POLICY, id="c-3", machine={"host": "there"}), store)
    assert elsewhere[1].startswith("prices assumed")


def test_history_gives_the_noise_between_launches_of_one_side(store):
    past = campaign(POLICY)
    store.add_campaign(past)
    pair = iter([1.00, 1.02] * 8)
    # The two trials of a side in a block are 1.00 and 1.02: ln(1.02) / sqrt(2) = 0.0140.
    trials = [trial for trial in measured(past, lambda side: 1.0) if trial.stage > 0]
    by_side = sorted(trials, key=lambda t: (t.block, t.side, t.slot))
    for trial in by_side:
        value = next(pair)
        store.add_trial(past.id, type(trial)(**{**vars(trial), "values": {"seconds": value}}))
    assert "launch noise 1.4 %" in price_lines_of(campaign(POLICY, id="c-2"), store)[1]


def test_a_budget_that_cannot_reach_any_verdict_is_said_first(store):
    lines = price_lines_of(campaign(Policy(pause_share=0.0, budget_s=30.0)), store)
    assert lines[2] == "this budget (30 s) cannot reach any verdict"


def test_a_comparison_too_short_to_report_says_so(store):
    # Three blocks, by itself four, a pair of builds a side for each; one pair for all of them: 4 first runs.
    short = Policy(max_blocks=3, max_confirm_blocks=3, confirms_alone=True)
    assert price_lines_of(campaign(short), store)[-1].startswith("so few blocks cannot report any change")
    for enough in (replace(short, max_confirm_blocks=4), replace(short, is_confirmed=False)):
        assert not any("so few blocks" in line for line in price_lines_of(campaign(enough), store))


def test_two_equal_sides_are_told_before_they_are_measured(store):
    one = campaign(Policy())
    assert not any("both sides are the same" in line for line in price_lines_of(one, store))
    base, _ = one.arms
    same = replace(one, arms=(base, replace(base, side="head", revision=replace(base.revision, name="again"))))
    assert price_lines_of(same, store)[-1].startswith("both sides are the same commit with the same settings")


def test_fresh_builds_are_priced_as_the_shortest_confirmation_needs_them(store):
    # Three blocks, by itself four, a pair of builds of each side for each; one pair for all of them: 4 first runs.
    for alone, confirm_builds, num_first_runs in (
        (False, 8, 12), (False, 120, 12), (False, 2, 4), (True, 120, 16), (True, 6, 12), (True, 2, 4),
    ):  # fmt: skip
        policy = Policy(confirm_builds=confirm_builds, confirms_alone=alone)
        cost = basis_of(campaign(policy), policy, store).cost
        assert cost.rebuild_s == num_first_runs * (cost.load_s + cost.measured_s)


def test_a_command_of_the_configuration_with_two_metrics_is_named_as_a_workload(store):
    planned = campaign(POLICY)
    first = planned.workload.metrics[0]
    both = replace(planned.workload, name="my bench", metrics=(first, replace(first, name="peak")))
    lines = price_lines_of(replace(planned, workload=both), store)
    assert lines[0] == "never calibrated here: perfguard calibrate -w 'my bench'"


def of_engine(store, id, **changed):
    """The lines for an engine's campaign without history."""
    workload = next(one for one in ENGINES if one.name == "vllm")
    method = {**campaign(POLICY).method, **changed.pop("method", {})}
    age_s = changed.pop("age_s", 0.0)
    params = {**workload.params, "age_s": age_s}
    workload = replace(workload, params=params, ready_timeout_s=workload.ready_timeout_s + age_s)
    return price_lines_of(replace(campaign(POLICY, id=id), workload=workload, method=method, **changed), store)


def test_the_time_of_ageing_is_part_of_a_launch(store):
    # A third of the limit of 900 s, plus an hour.
    lines = of_engine(store, "c-1", age_s=3600.0)
    assert any(line.startswith("a launch: 65 min to load") for line in lines)
    assert "each launch is loaded for 1 hour before it is measured (--age)" in lines
    fresh = of_engine(store, "c-2")
    assert any(line.startswith("a launch: 5 min to load") for line in fresh)
    assert not any("--age" in line for line in fresh)


def test_pinned_arguments_cost_a_second_first_run_of_head(store):
    plain, pinned = basis_of_engine(store, {}), basis_of_engine(store, {"pinned_args": "base"})
    assert pinned.setup_s - plain.setup_s == plain.load_s + plain.measured_s


def basis_of_engine(store, method):
    workload = next(one for one in ENGINES if one.name == "vllm")
    made = campaign(POLICY)
    return basis_of(replace(made, workload=workload, method={**made.method, **method}), POLICY, store).cost


def test_a_slice_is_priced_by_slices_and_never_by_full_launches(store):
    past = campaign(POLICY)
    store.add_campaign(past)
    store.add_blocks(past.id, planned_blocks(past))
    for trial in measured(past, lambda side: 1.0):
        store.add_trial(past.id, trial)
    assert price_lines_of(campaign(POLICY, id="c-2"), store)[1].startswith("prices from 8 trials")
    assert price_lines_of(campaign(POLICY, id="c-3", scope="slice"), store)[1].startswith("prices assumed")
