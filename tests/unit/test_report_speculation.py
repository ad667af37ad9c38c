"""The two lines that take a speculative mode apart, in every output for people."""

import io

import pytest
from report_cases import comparison, trials

from perfguard.report.html import comparison_html
from perfguard.report.markdown import comparison_markdown
from perfguard.report.outcomes import speculation
from perfguard.report.terminal import open_console, render_comparison


def entry(finding, p=None, num_prompts=None, head=1.6):
    length = {"base": 2.0, "head": head, "finding": finding, "p": p, "num_prompts": num_prompts}
    return {"mode": "eagle3", "accept_length": length, "slowdown": 1.275, "by_accept_length": 1.25, "by_cycle": 1.02}


def lines(*entries, **changes):
    return speculation(comparison(speculation=list(entries), **changes))


def test_accept_length_comes_first_and_both_parts_of_the_slowdown_stand_beside_each_other():
    assert lines(entry("changed")) == [
        "eagle3 accept length: base 2.000, head 1.600 token; the same in every launch of a side: a change of function",
        "eagle3 slowdown +27.5 %: accept length +25.0 %, cycle time +2.0 % (all blocks)",
    ]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (entry("equal", head=2.0), "head 2.000 token; the same in every launch"),
        (entry("shorter", 1 / 4096, 12), "; shorter over 12 prompts (p 0.00024)"),
        (entry("not_shown", 0.25, 12), "; not shown to be shorter over 12 prompts (p 0.25)"),
        # 2^-9 is above 0.001, 2^-10 below.
        (entry("not_shown", 0.25, 9), "over 9 prompts (p 0.25; fewer than 10 cannot show it)"),
        (entry("not_shown", 0.25, 10), "over 10 prompts (p 0.25)"),
        (entry("not_tested"), "; differs between launches, and without counts by prompt it is not tested"),
    ],
)
def test_what_the_comparison_of_accept_lengths_found_is_said(given, said):
    assert lines(given)[0].endswith(said)


def test_comparisons_stored_before_modes_were_taken_apart_have_no_such_lines():
    assert speculation(comparison()) == []


def test_every_report_for_people_shows_the_lines_after_the_table():
    whole = comparison(speculation=[entry("changed")])
    out = io.StringIO()
    render_comparison(whole, trials(), open_console(out))
    pages = (comparison_markdown(whole, trials()), comparison_html(whole, trials()))
    for shown in (out.getvalue(), *pages):
        text = shown.replace("\\", "")
        assert text.index("eagle3 accept length: base 2.000") > text.index("tpot")
        assert "accept length +25.0 %, cycle time +2.0 %" in text
