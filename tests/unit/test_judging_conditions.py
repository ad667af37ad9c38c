"""Conditions in a whole comparison: what stops it, what makes it INVALID, and that it replays the same from storage."""

from dataclasses import asdict, replace

import pytest

from perfguard.conditions.trial_gates import gated
from perfguard.gate_policy import GatePolicy
from perfguard.judging import judge, verdict_json
from perfguard.policy import stored_policy
from perfguard.records import Outcome
from perfguard.replay import differing
from perfguard.report.markdown import comparison_markdown
from perfguard.report.terminal import open_console, render_comparison
from perfguard.store import open_store
from tests.unit import campaign_cases, condition_cases
from tests.unit.campaign_cases import SHORT, measured, planned_blocks, same, slower_head
from tests.unit.condition_cases import CARD, card, conditions, unknown

HEALTHY = conditions()
HOT = conditions({CARD: card(after={"event_sw_thermal_us": 400_000}, load={"sm_clock_mhz": 1500})})
BRAKED = conditions({CARD: card(load={"event_reasons": 0x88, "sm_clock_mhz": 345})})


def with_conditions(trials, of):
    """`of` gives the conditions of a trial."""
    return [replace(t, record={**t.record, "conditions": of(t)}, measured_s=1.0) for t in trials]


def of_side(head, base=HEALTHY):
    return lambda trial: head if trial.side == "head" else base


def judged(seconds, of, *, num_twos=2, **changes):
    campaign = campaign_cases.campaign(**changes)
    trials = with_conditions(measured(campaign, seconds, num_twos=num_twos), of)
    return judge(campaign, planned_blocks(campaign), trials)


def codes(decision):
    return [reason.code for reason in decision.reasons]


def test_a_slower_head_under_healthy_conditions_is_a_regression():
    assert judged(slower_head, of_side(HEALTHY)).decision.outcome is Outcome.REGRESSION


def test_a_thermal_limit_in_head_alone_is_invalid_and_never_a_regression():
    decision = judged(slower_head, of_side(HOT)).decision
    assert decision.outcome is Outcome.INVALID
    assert codes(decision)[:2] == ["ONE_SIDED_THERMAL", "ONE_SIDED_CLOCK"]
    assert all(result.outcome is Outcome.INVALID for result in decision.metrics)


def test_a_thermal_limit_on_both_sides_alike_is_no_reason():
    decision = judged(slower_head, of_side(HOT, HOT)).decision
    assert decision.outcome is Outcome.REGRESSION
    assert not any("SIDED" in code for code in codes(decision))


def test_a_head_that_is_slower_although_base_was_limited_is_a_regression_with_the_finding():
    decision = judged(slower_head, of_side(HEALTHY, HOT)).decision
    assert (decision.outcome, "ONE_SIDED_CLOCK" in codes(decision)) == (Outcome.REGRESSION, True)


def test_equal_arms_of_which_one_was_limited_are_not_called_equivalent():
    assert judged(same, of_side(HEALTHY), num_twos=0).decision.outcome is Outcome.EQUIVALENT
    assert judged(same, of_side(HEALTHY, HOT), num_twos=0).decision.outcome is Outcome.INVALID


def test_stopped_by_the_budget_a_suspicion_of_a_limited_head_is_invalid_too():
    campaign = campaign_cases.campaign()
    trials = with_conditions(measured(campaign, slower_head), of_side(HOT))
    verdict = verdict_json(campaign, planned_blocks(campaign), trials, stopped="budget")
    assert verdict["outcome"] == "INVALID"


def test_a_driver_that_changes_in_mid_campaign_ends_it_invalid():
    updated = conditions({CARD: card(before={"driver": "590.10"})})
    judgement = judged(same, lambda t: updated if t.block == 1 and t.stage == 1 else HEALTHY, num_twos=0)
    assert (judgement.decision.outcome, judgement.next_plan) == (Outcome.INVALID, None)
    assert codes(judgement.decision)[0] == "MACHINE_CHANGED"


def test_a_lost_card_ends_it_with_one_clear_reason():
    lost = conditions({CARD: card(after=dict.fromkeys(condition_cases.IDLE, unknown("error", "GPU is lost")))})
    campaign = campaign_cases.campaign()
    trials = with_conditions(measured(campaign, same, num_ones=1), of_side(HEALTHY))
    plan = campaign_cases.plans_of(campaign)[1]
    died = campaign_cases.failed(plan, 0, "crashed", "crashed", record={"conditions": lost})
    judgement = judge(campaign, planned_blocks(campaign), [*trials, died])
    assert (judgement.decision.outcome, judgement.next_plan) == (Outcome.INVALID, None)
    assert codes(judgement.decision).count("GPU_LOST") == 1


def test_what_the_policy_said_then_holds_on_replay():
    policy = replace(SHORT, gates=GatePolicy(one_sided="warn"))
    decision = judged(slower_head, of_side(HOT), policy=policy).decision
    assert (decision.outcome, "ONE_SIDED_THERMAL" in codes(decision)) == (Outcome.REGRESSION, True)


def test_a_policy_stored_before_gates_existed_has_them_by_default():
    old = {name: value for name, value in asdict(SHORT).items() if name != "gates"}
    assert stored_policy(old).gates == GatePolicy()


def test_a_neighbour_who_stays_ends_it_invalid_although_head_looks_slower():
    """Hidden, seen by utilisation and memory: every block after the first is void, and what is left is too little."""
    busy = {"utilisation_percent": 97, "memory_used_bytes": 9000 * condition_cases.MIB}
    crowded = conditions({CARD: card(before=busy, after={"utilisation_percent": 0})})
    campaign = campaign_cases.campaign()
    trials = with_conditions(measured(campaign, slower_head), of_side(HEALTHY))[:6]
    for plan in campaign_cases.plans_of(campaign)[1:]:
        (trial, *_) = with_conditions(campaign_cases.whole_block(plan, slower_head), of_side(crowded, crowded))
        trials.append(gated(SHORT.gates, trial, trials, {}))
    decision = judge(campaign, planned_blocks(campaign), trials).decision
    assert decision.outcome is Outcome.INVALID
    assert {"TOO_MANY_VOID", "FOREIGN_LOAD"} <= set(codes(decision))


@pytest.fixture
def whole():
    """Four blocks, head hot in stage two's last; conditions in all of them."""
    campaign = campaign_cases.campaign()
    trials = with_conditions(measured(campaign, slower_head, num_twos=2), of_side(HOT))
    return campaign, planned_blocks(campaign), trials


def test_a_stored_comparison_replays_to_the_same_findings(whole, tmp_path):
    campaign, plans, trials = whole
    verdict = verdict_json(campaign, plans, trials)
    with open_store(tmp_path / "r.db") as store:
        store.add_campaign(campaign)
        store.add_blocks(campaign.id, plans)
        for trial in trials:
            store.add_trial(campaign.id, trial)
        again = verdict_json(store.campaign("c-1"), store.blocks("c-1"), store.trials("c-1"))
    assert differing(verdict, again) == []
    assert again["conditions"] == verdict["conditions"]


def test_the_reports_show_arms_gates_and_coverage(whole, capsys):
    campaign, plans, trials = whole
    verdict = verdict_json(campaign, plans, trials)
    render_comparison(verdict, trials, open_console())
    shown = capsys.readouterr().out
    letters = "".join("A" if t.side == "base" else "B" for t in trials if t.stage > 0)
    (bars,) = [line for line in shown.splitlines() if line.lstrip().startswith("SM clock │")]
    assert f"arm │{letters}│" in shown
    assert bars.split("│")[1] == letters.replace("A", "█").replace("B", "▁")
    assert "1,500 to 1,980 MHz" in bars
    assert "fields of 1 GPU usable" in shown
    (row,) = [line for line in shown.splitlines() if line.startswith("one_sided ")]
    assert "0 of 8" in row
    assert "ONE_SIDED_THERMAL: at a thermal limit for 0 % (base) and 40 % (head)" in row
    plot = [line for line in shown.splitlines() if "│" in line]
    assert all(len(line) <= 100 for line in plot)
    markdown = comparison_markdown(verdict, trials)
    assert f"arm │{letters}│" in markdown
    assert "| one&#95;sided | 0 of 8 | 0 of 8 | void |" in markdown


def test_a_trial_that_does_not_count_is_marked_in_the_plot(capsys):
    campaign = campaign_cases.campaign()
    trials = with_conditions(measured(campaign, same), of_side(HEALTHY))
    trials[2] = replace(trials[2], status="invalid")
    render_comparison(verdict_json(campaign, planned_blocks(campaign), trials), trials, open_console())
    arm = next(line for line in capsys.readouterr().out.splitlines() if "arm │" in line)
    assert arm.split("│")[1][0] in "ab"


def test_a_verdict_on_trials_without_conditions_says_so(capsys):
    campaign = campaign_cases.campaign()
    trials = measured(campaign, same)
    verdict = verdict_json(campaign, planned_blocks(campaign), trials)
    assert verdict["conditions"]["gates"] == []
    render_comparison(verdict, trials, open_console())
    assert "Machine: machine conditions were not recorded." in capsys.readouterr().out


def test_forgotten_settings_are_named_for_the_side_that_has_them():
    campaign = campaign_cases.campaign()
    trials = measured(campaign, same)
    seen = {"base": {}, "head": {"NCCL_P2P_DISABLE": "1"}}
    trials = [replace(t, record={**t.record, "environment": seen[t.side]}) for t in trials]
    (setting,) = verdict_json(campaign, planned_blocks(campaign), trials)["conditions"]["settings"]
    assert setting.startswith("head: NCCL_P2P_DISABLE=1 is set")
