"""Histories as lines that can be searched: which commits, in which order, which of them tell something."""

import itertools

import pytest

from perfguard.subject.lines import Row, distinct, first_parents, linearised


def rows(*lines):
    """Each "COMMIT PARENT …", newest first as git tells them."""
    return [Row(commit=line.split()[0], tree="", parents=tuple(line.split()[1:])) for line in lines]


def shown(steps):
    """Commits oldest first; those that are not whole in brackets."""
    return " ".join(step.row.commit if step.is_whole else f"[{step.row.commit}]" for step in steps)


# good - a - b ------ m - c          m merges x - y, which left the main line at a
MERGED = rows("c m", "m b y", "y x", "x a", "b a", "a good")


def test_the_main_line_leaves_out_what_a_merge_brought():
    assert shown(first_parents(MERGED, "good", "c")) == "a b m c"


def test_all_commits_in_a_line_where_those_beside_earlier_ones_tell_nothing():
    """y holds x and a, and not b, which stands before it: its speed cannot say whether b is slow."""
    assert shown(linearised(MERGED, "good")) == "a b [x] [y] m c"


def test_a_branch_with_nothing_beside_it_is_searched_commit_by_commit():
    """The main line waited: x and y hold all that stands before them."""
    assert shown(linearised(rows("c m", "m a y", "y x", "x a", "a good"), "good")) == "a x y m c"


def test_where_good_lies_on_a_merged_branch_the_merge_is_the_oldest_candidate():
    """main: old - n - m - c; GOOD is x on the branch old - x - y. n does not hold GOOD."""
    history = rows("c m", "m n y", "y good", "n old")
    assert shown(first_parents(history, "good", "c")) == "m c"
    assert shown(linearised(history, "good")) == "[n] [y] m c"


def test_two_branches_side_by_side_and_a_merge_of_three():
    history = rows("m a p q", "q a", "p a", "a good")
    assert shown(first_parents(history, "good", "m")) == "a m"
    assert shown(linearised(history, "good")) == "a p [q] m"


def test_ten_thousand_commits_are_a_line_at_once():
    names = ["good", *(f"c{k}" for k in range(10_000))]
    history = rows(*(f"{one} {before}" for before, one in itertools.pairwise(names)))[::-1]
    assert len(linearised(history, "good")) == 10_000
    assert all(step.is_whole for step in linearised(history, "good"))


@pytest.mark.parametrize(
    ("codes", "kept"), [(["g", "g"], []), (["g", "x", "x", "y", "x"], [1, 3, 4]), ([], []), (["x"], [0])]
)
def test_only_a_commit_with_other_code_than_the_one_before_can_be_blamed(codes, kept):
    assert distinct(codes, "g") == kept
