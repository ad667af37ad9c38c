"""The search by experiment against oracles that are right, undecided or wrong now and then."""

from itertools import combinations

import pytest

from perfguard.policy import Policy
from perfguard.records import Outcome
from perfguard.stats.design import choose_design, false_report_bound
from perfguard.stats.search import NUM_CHECKS, End, Question, check_policy, next_step, step_policy

E, R, S, U = Outcome.EQUIVALENT, Outcome.REGRESSION, Outcome.SUSPECT, Outcome.INCONCLUSIVE
KINDS = {
    "adding": lambda w, c: sum(10 * 2**i for i, k in enumerate(w) if k not in c),
    "slow only together": lambda w, c: 10 * all(k not in c for k in w),
    "fast only together": lambda w, c: 10 * any(k not in c for k in w),
}


def truthful(speed):
    """Answers by a cost of configurations: head dearer, cheaper or equal."""

    def answer(question):
        difference = speed(question.head) - speed(question.base)
        if difference == 0:
            return E
        changed = R if difference > 0 else Outcome.IMPROVEMENT
        return changed if question.is_check else S

    return answer


def searched(num, answer):
    answers = {}
    while isinstance(step := next_step(num, answers), Question):
        assert step not in answers
        assert len(answers) < 200
        answers[step] = answer(step)
    return step, answers


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [1, 2, 3])
def test_every_set_of_up_to_three_factors_is_found_exactly(kind, size):
    for num in (3, 4, 5, 7):
        for where in combinations(range(num), size):
            end, _ = searched(num, truthful(lambda c, w=where: KINDS[kind](w, c)))
            assert (end.outcome, end.found) == ("EXPLAINED", where)


def test_equal_sides_end_the_search_with_the_first_comparison():
    end, answers = searched(12, truthful(lambda c: 0))
    assert end.outcome == "NOT_REPRODUCIBLE"
    assert list(answers) == [Question(base=frozenset(range(12)), head=frozenset(), is_check=True)]


def test_a_difference_that_points_the_other_way_now_is_not_reproduced():
    end, _ = searched(3, truthful(lambda c: len(c)))
    assert end.outcome == "NOT_REPRODUCIBLE"
    assert "B is the faster" in end.why


def test_a_single_factor_needs_no_second_comparison():
    end, answers = searched(1, truthful(lambda c: 0 not in c))
    assert (end.outcome, end.found, len(answers)) == ("EXPLAINED", (0,), 1)


def test_one_of_twelve_takes_the_halvings_and_two_checks():
    counts = [len(searched(12, truthful(lambda c, w=w: w not in c))[1]) for w in range(12)]
    # A against B, log2(12) rounded down or up, recovery and loss: against 13 for each factor alone.
    assert (min(counts), max(counts)) == (1 + 3 + 2, 1 + 4 + 2)


@pytest.mark.parametrize("wrong", range(4))
def test_one_wrong_step_costs_comparisons_and_never_the_answer(wrong):
    speak = truthful(lambda c: 5 not in c)
    steps = 0

    def answer(question):
        nonlocal steps
        if question.is_check:
            return speak(question)
        steps += 1
        right = speak(question)
        return right if steps != wrong + 1 else E if right is S else S

    end, _ = searched(12, answer)
    assert (end.outcome, end.found) == ("EXPLAINED", (5,))


def test_an_undecided_half_is_made_up_for_by_the_other():
    speak, is_first = truthful(lambda c: 1 not in c), True

    def answer(question):
        nonlocal is_first
        if not question.is_check and is_first:
            is_first = False
            return Outcome.INVALID
        return speak(question)

    end, _ = searched(4, answer)
    assert (end.outcome, end.found) == ("EXPLAINED", (1,))


@pytest.mark.parametrize("undecided", [U, S, Outcome.INVALID])
def test_an_undecided_check_ends_the_search_without_a_name(undecided):
    speak = truthful(lambda c: 2 not in c)
    first = Question(base=frozenset(range(4)), head=frozenset(), is_check=True)
    end, _ = searched(4, lambda q: speak(q) if q == first or not q.is_check else undecided)
    assert end.outcome == "INCONCLUSIVE"
    assert end.found == (2,)
    assert end.unsettled.is_check


def test_nothing_is_named_when_neither_half_can_be_told():
    first = Question(base=frozenset(range(4)), head=frozenset(), is_check=True)
    end, _ = searched(4, lambda q: R if q == first else U)
    assert (end.outcome, end.found) == ("INCONCLUSIVE", ())
    assert not end.unsettled.is_check


def test_more_than_three_factors_together_are_not_named():
    end, _ = searched(6, truthful(lambda c: sum(2**k for k in range(5) if k not in c)))
    assert end.outcome == "INCONCLUSIVE"
    assert "more than 3" in end.why


def test_a_stored_search_goes_on_where_it_was():
    speak = truthful(lambda c: 1 not in c and 6 not in c)
    _, answers = searched(9, speak)
    for known in range(len(answers)):
        some = dict(list(answers.items())[:known])
        assert next_step(9, some) == list(answers)[known]
    assert isinstance(next_step(9, answers), End)


def test_all_checks_together_stay_within_the_alpha_of_the_search():
    policy = Policy()
    design = choose_design(check_policy(policy), 1)
    assert design.looks
    assert NUM_CHECKS == 15
    assert NUM_CHECKS * false_report_bound(design, 1) <= policy.search_alpha * (1 + 1e-9)
    assert check_policy(policy).is_confirmed
    assert not step_policy(policy).is_confirmed
