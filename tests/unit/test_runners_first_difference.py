"""Where two modes part, and whether rounding explains it: by hand, against a subject that answers from a table."""

import math

import pytest

from runners.first_difference import Gap, Parting, explain, partings, rounding_bound, summarise


class Subject:
    """8 layers of width 4. `answers`: by the tokens before, the logits of the two choices and the largest of all."""

    def __init__(self, answers):
        self.answers = answers
        self.asked = []

    def describe(self):
        return {"target": {"num_layers": 8, "hidden_size": 4}}

    def next_logits(self, tokens, ids):
        self.asked.append((tokens, ids))
        return self.answers[tuple(tokens)]


def test_a_prompt_parts_at_its_first_token_that_differs_and_others_are_left_out():
    found = partings([[1, 2], [3], [4]], [[5, 6, 7], [5, 5, 5], [9, 9, 9]], [[5, 8, 9], [5, 5, 5], [8, 9, 9]])
    assert found == [Parting(before=[1, 2, 5], ids=(6, 8)), Parting(before=[4], ids=(9, 8))]


def test_the_bound_by_hand():
    # 8 layers: 16 roundings in a row, sqrt 4, twice: 8 / 256 of the logit.
    assert rounding_bound("bfloat16", -10.0, 8, 128) == 80 / 256
    # Sums of 4 terms that round as well: 64 roundings, sqrt 8.
    assert rounding_bound("float32", 10.0, 8, 4) == 160 / 2**24
    assert rounding_bound("float64", 10.0, 8, 4) == 160 / 2**53


@pytest.mark.parametrize(("gap", "is_explained"), [(0.0, True), (0.3125, True), (0.3126, False)])
def test_a_near_tie_is_explained_and_a_larger_gap_is_not(gap, is_explained):
    subject = Subject({(1, 5): [10.0, 10.0 - gap, 10.0]})
    told = explain(subject, [[1]], [[5, 6]], [[5, 7]], "bfloat16")
    assert subject.asked == [([1, 5], (6, 7))]
    assert told["first_difference_explained"] is is_explained
    assert told["first_differences"] == {
        "num_differing": 1,
        "num_explained": int(is_explained),
        "worst_gap": pytest.approx(gap),
        "worst_bound": 0.3125,
    }


def test_two_equal_choices_are_no_tie_where_the_plain_forward_prefers_a_third_token():
    told = explain(Subject({(1,): [7.0, 7.0, 10.0]}), [[1]], [[6]], [[7]], "bfloat16")
    assert not told["first_difference_explained"]
    assert told["first_differences"]["worst_gap"] == 3.0


def test_a_gap_that_bfloat16_explains_is_not_explained_in_float32():
    subject = Subject({(1,): [10.0, 9.9, 10.0]})
    said = [explain(subject, [[1]], [[6]], [[7]], d)["first_difference_explained"] for d in ("bfloat16", "float32")]
    assert said == [True, False]


def test_one_fault_among_near_ties_is_what_is_told():
    told = summarise([Gap(size=0.2, bound=0.3), Gap(size=0.5, bound=0.1), Gap(size=0.6, bound=0.7)])
    assert told == {
        "first_difference_explained": False,
        "first_differences": {"num_differing": 3, "num_explained": 2, "worst_gap": 0.5, "worst_bound": 0.1},
    }


def test_no_difference_needs_no_reason():
    told = explain(Subject({}), [[1]], [[6]], [[6]], "bfloat16")
    assert told["first_difference_explained"]
    assert told["first_differences"]["num_differing"] == 0
    assert told["first_differences"]["worst_gap"] is None


def test_a_logit_that_is_no_number_explains_nothing():
    told = summarise([Gap(size=0.1, bound=0.3), Gap(size=math.nan, bound=0.3)])
    assert not told["first_difference_explained"]
    assert told["first_differences"]["worst_gap"] is None


def test_a_subject_that_cannot_be_asked_tells_nothing():
    class Older:
        pass

    assert explain(Older(), [[1]], [[6]], [[7]], "bfloat16") == {}
