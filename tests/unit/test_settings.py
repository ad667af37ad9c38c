"""What a sweep tries, and what differs between two arms."""

import pytest

from perfguard.errors import UsageError
from perfguard.factors import arm_with, factors_between, shown_value
from perfguard.records import Arm, Revision
from perfguard.settings import axes, combinations, label


def labels(env=(), params=(), *, one_at_a_time=False):
    return [label(setting) for setting in combinations(axes(env, params), one_at_a_time=one_at_a_time)]


def test_all_combinations_in_the_order_given():
    assert labels(["P=LL,Simple", "A=Ring"], ["n=1,2"]) == [
        "P=LL A=Ring n=1",
        "P=LL A=Ring n=2",
        "P=Simple A=Ring n=1",
        "P=Simple A=Ring n=2",
    ]


def test_one_at_a_time_is_the_first_values_and_each_other_value_alone():
    assert labels(["P=LL,LL128,Simple", "A=Ring,Tree"], one_at_a_time=True) == [
        "P=LL A=Ring",
        "P=LL128 A=Ring",
        "P=Simple A=Ring",
        "P=LL A=Tree",
    ]


def test_an_empty_value_is_not_set():
    assert labels(["P=,LL"]) == ["(nothing set)", "P=LL"]


def test_parameters_are_json_and_a_bracketed_one_is_a_single_value():
    (numbers, words, listed) = axes((), ["n=1,2.5", "d=float32,bfloat16", "l=[1,2]"])
    assert (numbers.values, words.values, listed.values) == ((1, 2.5), ("float32", "bfloat16"), ([1, 2],))


@pytest.mark.parametrize(
    ("env", "said"),
    [(["P=1"], "1 setting:"), ([f"P={','.join(map(str, range(53)))}"], "53 settings"), (["P=a,a"], "a value twice")],
)
def test_what_is_no_sweep_is_refused(env, said):
    with pytest.raises(UsageError, match=said):
        labels(env)


def arm(commit="a" * 40, patch=b"", **changes):
    return Arm(side="base", revision=Revision(name="r", commit=commit, tree="t", patch=patch), **changes)


def test_every_kind_of_difference_is_a_factor_variables_first():
    a = arm(env={"P": "LL", "SAME": "1"}, params={"n": 2}, python="/a/python", patch=b"diff")
    b = arm("b" * 40, env={"A": "Ring", "SAME": "1"}, params={"n": 3})
    found = factors_between(a, b, {})
    assert [(one.kind, one.name) for one in found] == [
        ("env", "A"), ("env", "P"), ("param", "n"), ("patch", "patch"), ("commit", "commit"), ("python", "python"),
    ]  # fmt: skip
    assert all(one.can_be_set for one in found)
    shown = [(shown_value(one, one.value_a), shown_value(one, one.value_b)) for one in found]
    assert shown[0] == ("not set", "Ring")
    # sha256 of b"diff" by `printf diff | sha256sum`.
    assert shown[3] == ("patch df087996d45b", "not set")
    assert shown[4] == ("a" * 12, "b" * 12)


def test_toggling_all_gives_a_and_none_gives_b():
    a = arm(env={"P": "LL"}, params={"n": 2}, python="/a/python", patch=b"diff")
    b = arm("b" * 40, env={"A": "Ring"}, params={"n": 3})
    found = factors_between(a, b, {})
    everything = arm_with(b, a, found, range(len(found)), "base")
    assert (everything.env, everything.params, everything.python) == (a.env, a.params, a.python)
    assert (everything.revision.commit, everything.revision.patch) == (a.revision.commit, a.revision.patch)
    nothing = arm_with(b, a, found, (), "base")
    assert (nothing.env, nothing.params, nothing.python, nothing.revision) == (b.env, b.params, "", b.revision)
    one = arm_with(b, a, found, {1}, "head")
    assert (one.side, one.env, one.params) == ("head", {"A": "Ring", "P": "LL"}, {"n": 3})


@pytest.mark.parametrize(
    ("a", "b", "now", "why"),
    [
        ({"X": "<redacted>"}, {"X": "2"}, {}, "secret"),
        ({"X": "0: 1, 1: 2"}, {}, {}, "differed between ranks"),
        ({"X": "1"}, {}, {"X": "3"}, "unset X first"),
        ({"X": "1"}, {"X": "2"}, {"X": "3"}, ""),
        ({"X": "1"}, {}, {}, ""),
    ],
)
def test_a_variable_that_cannot_be_toggled_says_why(a, b, now, why):
    (factor,) = factors_between(arm(env=a), arm(env=b), now)
    assert factor.can_be_set == (not why)
    assert why in factor.why_not
