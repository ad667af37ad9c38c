"""Stored rounds of a sweep -> which count, who leaves, what is said."""

import re
from dataclasses import replace
from io import StringIO

import pytest
from campaign_cases import campaign as campaign_case
from campaign_cases import trial
from rich.console import Console

from perfguard.policy import Policy
from perfguard.records import Reason
from perfguard.replay import replay_one, replayable
from perfguard.report.result_page import sweep_html
from perfguard.report.sweep import render_sweep, sweep_markdown
from perfguard.stats.plan import LETTERS
from perfguard.store import open_store
from perfguard.sweep_judging import survey_sweep, sweep_json
from perfguard.sweeping import planned_rounds

# Three settings that can be told after a few rounds.
POLICY = Policy(sweep_alpha=0.05, max_rounds=10, margin=0.05)
SPEED = (1.0, 1.3, 2.0)
BROKEN = (Reason(code="command_failed", text="exit code 3 | of [bench]"),)


@pytest.fixture
def campaign():
    settings = [{"env": {"NCCL_PROTO": proto}, "params": {}} for proto in ("LL", "LL128", "Simple")]
    whole = campaign_case(POLICY)
    return replace(whole, kind="sweep", arms=whole.arms[:1], method={"settings": settings})


def rounds(campaign, num, *, failing=lambda index, setting: False):
    """Trials of the first `num` rounds, each ended by one that fails; values differ a little by round."""
    trials = []
    for plan in planned_rounds(campaign)[:num]:
        for slot, letter in enumerate(plan.order):
            setting = LETTERS.index(letter)
            if failing(plan.index, setting):
                failed = {"status": "crashed", "values": {}, "reasons": BROKEN}
                trials.append(trial(1, plan.index, slot, "base", 1.0, **failed))
                break
            trials.append(trial(1, plan.index, slot, "base", SPEED[setting] * (1 + 0.001 * plan.index)))
    return trials


def test_the_first_unfinished_round_is_next_and_keeps_what_it_has(campaign):
    plans, trials = planned_rounds(campaign), rounds(campaign, 3)
    state = survey_sweep(campaign, plans, trials[:-1])
    assert (len(state.rows), state.next_round) == (2, plans[2])
    assert survey_sweep(campaign, plans, trials).next_round == plans[3]


def test_values_belong_to_the_setting_whose_letter_stands_in_the_slot(campaign):
    state = survey_sweep(campaign, planned_rounds(campaign), rounds(campaign, 2))
    assert state.rows[0] == SPEED
    assert state.rows[1] == pytest.approx([speed * 1.001 for speed in SPEED])


def test_the_ranking_names_best_slower_and_the_odds(campaign):
    result = sweep_json(campaign, planned_rounds(campaign), rounds(campaign, 10))
    assert [(row["rank"], row["setting"], row["status"]) for row in result["settings"]] == [
        (1, "NCCL_PROTO=LL", "best"), (2, "NCCL_PROTO=LL128", "slower"), (3, "NCCL_PROTO=Simple", "slower"),
    ]  # fmt: skip
    assert [row["slowdown"] for row in result["settings"]] == pytest.approx([1.0, 1.3, 2.0])
    assert (result["outcome"], result["exit_code"]) == ("RANKED", 0)
    assert "at most 5 %" in result["sentence"]


def test_a_failed_trial_voids_its_round_for_all(campaign):
    trials = rounds(campaign, 4, failing=lambda index, setting: (index, setting) == (1, 2))
    state = survey_sweep(campaign, planned_rounds(campaign), trials)
    assert (len(state.rows), state.num_void, dict(state.broken)) == (3, 1, {})


def test_two_failures_in_a_row_make_a_setting_invalid_with_its_reason(campaign):
    trials = rounds(campaign, 3, failing=lambda index, setting: index in (1, 2) and setting == 2)
    state = survey_sweep(campaign, planned_rounds(campaign), trials)
    assert state.broken == {2: BROKEN}
    assert set(state.standing.live) == {0, 1}


def test_a_first_run_that_fails_keeps_a_setting_out(campaign):
    first = trial(0, 1, 1, "base", 1.0, status="crashed", values={}, reasons=BROKEN)
    state = survey_sweep(campaign, planned_rounds(campaign), [first])
    assert (set(state.standing.live), state.broken) == ({0, 2}, {1: BROKEN})


def test_nothing_measured_is_invalid_and_a_part_is_inconclusive(campaign):
    plans = planned_rounds(campaign)
    assert sweep_json(campaign, plans, [])["outcome"] == "INVALID"
    partly = sweep_json(campaign, plans, rounds(campaign, 2), stopped="budget")
    assert (partly["outcome"], partly["exit_code"], partly["stopped"]) == ("INCONCLUSIVE", 3, "budget")
    assert partly["ended"] == "the budget was used up"


def test_tables_fit_a_terminal_and_markdown_escapes_what_others_wrote(campaign):
    first = trial(0, 1, 1, "base", 1.0, status="crashed", values={}, reasons=BROKEN)
    kept = [one for one in rounds(campaign, 4) if planned_rounds(campaign)[one.block].order[one.slot] != "b"]
    result = sweep_json(campaign, planned_rounds(campaign), [first, *kept])
    console = Console(width=100, record=True, file=StringIO(), markup=False)
    render_sweep(result, console)
    text = console.export_text()
    assert max(map(len, text.splitlines())) <= 100
    assert "⊘ INVALID" in text
    told = sweep_markdown(result)
    assert "exit code 3 &#124; of &#91;bench&#93;" in told
    assert told.count("\n| ") == 5


def test_a_page_draws_what_was_measured_names_all_and_escapes_what_others_wrote(campaign):
    first = trial(0, 1, 1, "base", 1.0, status="crashed", values={}, reasons=BROKEN)
    kept = [one for one in rounds(campaign, 4) if planned_rounds(campaign)[one.block].order[one.slot] != "b"]
    result = sweep_json(campaign, planned_rounds(campaign), [first, *kept])
    result["settings"][1]["setting"] = f"<b>{'x' * 40}</b>"
    page = sweep_html(result)
    # LL and Simple were measured, and share a rank after four rounds; LL128 was not.
    names = re.findall(r'<text class="primary"[^>]*>([^<]*)</text>', page)
    assert names == ["1. NCCL_PROTO=LL", f"1. &lt;b&gt;{'x' * 19}…"]
    assert f"<td>&lt;b&gt;{'x' * 40}&lt;/b&gt;</td>" in page
    assert "NCCL_PROTO=LL128" in page
    assert "<b>" not in page


def test_a_page_draws_no_interval_where_nothing_was_measured(campaign):
    page = sweep_html(sweep_json(campaign, planned_rounds(campaign), []))
    assert "<svg" not in page
    assert "INVALID" in page


def test_a_stored_ranking_is_derived_again_and_a_changed_one_is_found(campaign, tmp_path):
    trials = rounds(campaign, 10)
    with open_store(tmp_path / "results.db") as store:
        store.add_campaign(campaign)
        store.add_blocks(campaign.id, planned_rounds(campaign))
        for one in trials:
            store.add_trial(campaign.id, one)
        result = sweep_json(campaign, planned_rounds(campaign), trials)
        store.add_verdict(campaign.id, result)
        store.set_status(campaign.id, "finished")
        assert replayable(store) == [campaign.id]
        assert replay_one(store, campaign.id)["agrees"]
        store.add_verdict(campaign.id, {**result, "settings": result["settings"][::-1]})
        assert replay_one(store, campaign.id)["differences"] == ["settings"]
