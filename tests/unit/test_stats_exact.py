import pytest
from stats_cases import block, split_block

from perfguard.records import Metric
from perfguard.stats.exact import changed_reason, compare_exactly, digest_reasons, metric_equality
from perfguard.stats.prompts import prompt_p

STEPS = Metric(name="latency", unit="steps", better="lower", exact=True)


@pytest.mark.parametrize(("base", "head", "expected"), [
    ([5, 5], [5, 5], "equal"),
    ([5, 5], [6, 6], "changed"),
    ([5, 6], [5, 5], "unstable"),
    ([5, 5], [6, 5], "unstable"),
    (["ab"], ["ab"], "equal"),
])  # fmt: skip
def test_equality_over_launches(base, head, expected):
    assert compare_exactly(base, head) == expected


def test_a_metric_is_compared_over_all_blocks():
    same = split_block((7.0, 7.0), (7.0, 7.0))
    assert metric_equality(STEPS, [same, same]) == "equal"
    assert metric_equality(STEPS, [same, split_block((7.0, 7.0), (7.0, 8.0))]) == "unstable"
    changed = block("BAAB", [8.0, 7.0, 7.0, 8.0])
    assert metric_equality(STEPS, [changed]) == "changed"
    assert changed_reason(STEPS, [changed]).text == "latency is 7 in every base launch and 8 in every head launch"


def test_other_output_is_named_before_unstable_output():
    digests = [
        ("base", {"plain": "a", "eagle3": "x"}),
        ("base", {"plain": "b", "eagle3": "x"}),
        ("head", {"plain": "a", "eagle3": "y"}),
    ]
    assert [r.code for r in digest_reasons(digests)] == ["OUTPUT_CHANGED", "OUTPUT_UNSTABLE"]
    assert "eagle3" in digest_reasons(digests)[0].text


def test_digests_of_different_kinds_are_not_called_a_change():
    """Ids on one side, text on the other, or a side that does not say: nothing is known of what was produced."""
    for base, head in (("ids:a", "text:a"), ("ids:a", "a"), ("text:a", "ids:b")):
        (reason,) = digest_reasons([("base", {"load": base}), ("base", {"load": base}), ("head", {"load": head})])
        assert reason.code == "OUTPUT_UNKNOWN"
    assert "ids, text" in digest_reasons([("base", {"load": "text:a"}), ("head", {"load": "ids:a"})])[0].text
    (changed,) = digest_reasons([("base", {"load": "ids:a"}), ("head", {"load": "ids:b"})])
    assert changed.code == "OUTPUT_CHANGED"
    (changed,) = digest_reasons([("base", {"load": "a:1"}), ("head", {"load": "b:1"})])  # no kind that is known
    assert changed.code == "OUTPUT_CHANGED"


def test_output_that_only_one_side_reports_says_nothing():
    assert digest_reasons([("base", {"plain": "a"}), ("head", {})]) == ()
    assert digest_reasons([("base", {"plain": "a"}), ("head", {"plain": "a"})]) == ()


def test_prompts_that_all_lose_accept_length_are_luck_in_one_of_two_each():
    base = [2.0, 3.0, 2.5, 4.0]
    head = [v * 0.9 for v in base]
    assert prompt_p(base, base, head) == pytest.approx(1 / 16)
    assert prompt_p(base, base, [v * 1.1 for v in base]) == 1.0
    assert prompt_p(base, base, base) == 1.0


def test_what_base_differs_from_itself_is_credited():
    base, again = [2.0, 3.0, 2.5, 4.0], [1.6, 2.4, 2.0, 3.2]
    # Base differs from itself by 22 %; head lies 5 % below their middle.
    assert prompt_p(base, again, [0.85 * v for v in base]) == 1.0
