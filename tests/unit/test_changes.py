"""One way to write a change: the slowdown of head, + is slower or worse whatever the metric."""

import pytest
import report_cases as cases

from perfguard.changes import LEGEND, interval, points_otherwise, signed, slowdown
from perfguard.report.html import comparison_html
from perfguard.report.issue import comparison_issue
from perfguard.report.junit import comparison_junit
from perfguard.report.markdown import comparison_markdown
from perfguard.report.terminal import open_console, render_comparison


@pytest.mark.parametrize(
    ("found", "head", "better", "expected"),
    [
        (1.028, 504.3, "higher", True),  # 453 in base: faster by its medians
        (0.972, 504.3, "higher", False),
        (1.028, 504.3, "lower", False),
        (1.028, 453.5, "higher", False),  # too little to be seen
        (1.001, 504.3, "higher", False),
        (None, 504.3, "higher", False),
        (1.028, None, "higher", False),
    ],
)
def test_medians_that_point_the_other_way_are_noticed(found, head, better, expected):
    metric = {"slowdown": found, "base_median": 453.0, "head_median": head, "better": better}
    assert points_otherwise(metric) is expected


@pytest.mark.parametrize(
    ("ratio", "shown"),
    [
        (1.031, "+3.1 %"),
        (0.969, "-3.1 %"),
        (1.0, "0.00 %"),
        (1.0042, "+0.42 %"),
        (2.0, "+100.0 %"),
        (0.99999, "0.00 %"),
    ],
)
def test_a_change_has_its_sign_and_two_decimals_where_it_is_small(ratio, shown):
    assert signed(ratio) == shown


def test_an_interval_has_the_signs_of_its_ends():
    assert interval(0.817, 1.149) == "-18.3 to +14.9 %"


@pytest.mark.parametrize(("before", "after", "better"), [(100.0, 105.0, "lower"), (105.0, 100.0, "higher")])
def test_slower_is_above_one_whichever_way_is_better(before, after, better):
    assert slowdown(before, after, better) == pytest.approx(1.05)
    assert slowdown(after, before, better) == pytest.approx(1 / 1.05)


def printed(comparison, capsys):
    render_comparison(comparison, cases.trials(), open_console())
    return capsys.readouterr().out


def test_every_report_says_once_what_the_sign_means(capsys):
    comparison = cases.comparison(machine={})
    texts = [
        printed(comparison, capsys),
        comparison_markdown(comparison, cases.trials()),
        comparison_issue(comparison, cases.trials()),
        comparison_html(comparison, cases.trials()),
    ]
    assert [text.count(LEGEND) for text in texts] == [1, 1, 1, 1]
    case = comparison_junit([(comparison, cases.trials())])
    assert "slowdown +3.1 %, 95 % interval +2.7 to +3.5 %" in case, "where a legend has no room it is said"
