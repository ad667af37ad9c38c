import pytest

from perfguard.policy import Policy
from perfguard.stats.design import choose_design, false_report_bound, rules_of

# Stage two keeps alpha by itself, for builds that differ.
ALONE = Policy(confirms_alone=True)
CASES = [(alpha, k, q) for alpha in (0.05, 0.01, 0.001, 1e-4, 1e-5) for k in (1, 2, 5) for q in (2, 3, 5, 10, 23, 40)]


@pytest.mark.parametrize(("alpha", "num_primaries", "max_blocks"), CASES)
def test_no_comparison_can_spend_more_than_alpha(alpha, num_primaries, max_blocks):
    for alone in (True, False):
        policy = Policy(alpha=alpha, max_blocks=max_blocks, max_confirm_blocks=max_blocks, confirms_alone=alone)
        design = choose_design(policy, num_primaries)
        # Both directions, every primary metric: a false report needs a look of stage one and a look of stage two.
        spent = 2 * num_primaries * sum(design.looks.values()) * sum(design.confirm_looks.values())
        assert spent <= alpha * (1 + 1e-12)
        assert false_report_bound(design, num_primaries) == pytest.approx(spent)
        # By itself: one direction of every primary metric, whatever stage one let through.
        if alone:
            assert num_primaries * sum(design.confirm_looks.values()) <= alpha * (1 + 1e-12)


@pytest.mark.parametrize(("alpha", "num_primaries", "max_blocks"), CASES)
def test_every_look_lies_in_its_stage_and_can_be_passed(alpha, num_primaries, max_blocks):
    policy = Policy(alpha=alpha, max_blocks=max_blocks, max_confirm_blocks=max_blocks)
    design = choose_design(policy, num_primaries)
    for looks in (design.looks, design.confirm_looks):
        assert list(looks) == sorted(looks)
        assert all(2 <= q <= max_blocks and spent >= 6.0**-q * (1 - 1e-12) for q, spent in looks.items())
    assert bool(design.looks) == bool(design.confirm_looks)


def test_stage_two_keeps_alpha_by_itself_where_it_is_asked_to():
    # 1 / 6^4 = 1/1296 is below 97 % of 1/1000, 1 / 6^3 = 1/216 is not; with two primary metrics 1 / 6^5 = 1/7776 is
    # below half of that.
    one, two = choose_design(ALONE, 1), choose_design(ALONE, 2)
    assert (min(one.looks), min(one.confirm_looks)) == (2, 4)
    assert (min(two.looks), min(two.confirm_looks)) == (2, 5)
    assert one.confirm_looks[4] == pytest.approx(1 / 1296)
    assert sum(one.confirm_looks.values()) == pytest.approx(0.00097)
    assert 2 * sum(two.confirm_looks.values()) == pytest.approx(0.00097)
    # Stage one suspects as if it did not.
    assert one.looks == choose_design(Policy(), 1).looks


@pytest.mark.parametrize(("alpha", "num_primaries", "max_blocks"), CASES)
def test_where_builds_differ_stage_two_keeps_alpha_by_itself_at_looks_it_has_anyway(alpha, num_primaries, max_blocks):
    design = choose_design(Policy(alpha=alpha, max_blocks=max_blocks, max_confirm_blocks=max_blocks), num_primaries)
    assert num_primaries * sum(design.own_looks.values()) <= alpha * (1 + 1e-12)
    assert all(spent <= design.confirm_looks[look] for look, spent in design.own_looks.items()), "it only withholds"
    assert all(spent >= 6.0**-look * (1 - 1e-12) for look, spent in design.own_looks.items())


def test_what_is_never_confirmed_suspects_as_before():
    short = {"is_confirmed": False, "max_blocks": 3, "max_confirm_blocks": 3}
    assert choose_design(Policy(**short, confirms_alone=True), 1) == choose_design(Policy(**short), 1)
    assert min(choose_design(Policy(**short), 1).looks) == 2


def test_both_stages_together_at_one_in_a_thousand_look_first_after_two_and_three_blocks():
    # 2 / 6^5 = 1/3888 < 1/1000 and 2 / 6^4 = 1/648 is not: five blocks are the fewest.
    design = choose_design(Policy(), 1)
    assert design.looks[2] == pytest.approx(1 / 36)
    assert design.confirm_looks[3] == pytest.approx(1 / 216)
    assert min(design.looks) + min(design.confirm_looks) == 5


def test_two_primary_metrics_keep_the_same_first_looks_with_less_to_spend_later():
    one, two = choose_design(Policy(), 1), choose_design(Policy(), 2)
    assert (min(one.looks), min(one.confirm_looks)) == (min(two.looks), min(two.confirm_looks)) == (2, 3)
    assert sum(two.looks.values()) < sum(one.looks.values())


def test_looks_follow_alpha_down_to_one_in_a_hundred_thousand():
    # 2 / 6^6 = 4.3e-5 > 1e-5, 2 / 6^7 = 7e-6 is below.
    design = choose_design(Policy(alpha=1e-5), 1)
    assert min(design.looks) + min(design.confirm_looks) == 7
    # 1 / 6^6 = 2.1e-5 > 1e-5, 1 / 6^7 = 3.6e-6 is below.
    assert min(choose_design(Policy(alpha=1e-5, confirms_alone=True), 1).confirm_looks) == 7


def test_a_comparison_too_short_for_its_alpha_has_no_looks():
    assert choose_design(Policy(max_blocks=1), 1).looks == {}
    assert choose_design(Policy(alpha=1e-5, max_blocks=3, max_confirm_blocks=3), 1).looks == {}
    assert choose_design(Policy(max_confirm_blocks=3, confirms_alone=True), 1).looks == {}


def test_a_short_confirmation_moves_blocks_to_stage_one():
    design = choose_design(Policy(max_confirm_blocks=2), 1)
    assert (min(design.looks), min(design.confirm_looks)) == (3, 2)


def test_margins_and_floors_are_logs():
    rules = rules_of(Policy(margin=0.02, floor_share=0.25), 1)
    # ln(1.02) by its series: 0.02 - 0.0002 + 0.00000267 - 0.00000004.
    assert rules.margin == pytest.approx(0.01980263, abs=1e-8)
    assert rules.floor == pytest.approx(0.00495066, abs=1e-8)
