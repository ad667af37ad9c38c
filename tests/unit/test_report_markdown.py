"""Markdown: nothing of others becomes markup, and it fits where it is put."""

import html
import re

import pytest
import report_cases as cases
from markdown_it import MarkdownIt

from perfguard.report import foreign
from perfguard.report.markdown import comparison_markdown

HOSTILE = "<script>alert(1)</script> | `x` ```` **b** @user #12 [a](http://x) ![i](y) ~~s~~ \x1b[31m\nnext &amp; \udce9"


def test_the_report_starts_with_the_verdict_and_ends_with_what_to_do() -> None:
    lines = comparison_markdown(cases.comparison(), cases.trials()).strip().splitlines()
    assert lines[0] == "**✗ REGRESSION: head is 3.1 % slower than base in decode&#95;throughput.**"
    assert lines[-5:] == [
        "What can be concluded: The commit slowed decoding on this machine.",
        "",
        "What cannot: Other batch sizes.",
        "",
        "Next: `perfguard bisect HEAD~8 HEAD -w moe`",
    ]


def test_the_table_has_one_line_a_metric_and_equal_columns() -> None:
    text = comparison_markdown(cases.comparison(), cases.trials())
    table = [line for line in text.splitlines() if line.startswith("|")]
    assert len(table) == 5
    assert {line.count("|") for line in table} == {9}
    assert table[3] == "| tpot (ms) | 12.18 | 12.56 | +3.1 % | +2.7 to +3.5 % | 2 % | 0.00077 | ✗ REGRESSION |"


def test_text_of_others_is_neither_markup_nor_a_mention_and_reads_the_same() -> None:
    comparison = cases.comparison(
        sentence=HOSTILE,
        base=cases.arm(HOSTILE, "a" * 40, HOSTILE, env={"K": HOSTILE}),
        metrics=[{**cases.TPOT, "name": HOSTILE, "unit": HOSTILE}],
        reasons=[{"code": "x", "text": HOSTILE}],
        conclusions={"can": HOSTILE, "cannot": HOSTILE},
        next=f"git show {HOSTILE}",
    )
    trial = cases.trial(1, 0, 0, "base", 0.01, values={HOSTILE: 1.0})
    text = comparison_markdown(comparison, [trial])
    prose, fence, code = text.partition("\n`````text\n")
    assert fence, "one tick more than the longest run of ticks in the block"
    assert "\n`````\n" in code
    prose += re.sub(r"(?s)^.*?\n`````\n", "", code)
    assert prose.splitlines()[-1].startswith("Next: ````` git show <script>"), "a code span shows it and runs nothing"
    prose = prose.rpartition("Next:")[0]
    assert not re.search(r"<script|@user|(?<!&)#12|!\[|\]\(|```|~~|\x1b", prose)
    assert {line.count("|") for line in prose.splitlines() if line.startswith("|")} == {9}
    rendered = MarkdownIt("commonmark").enable(["table", "strikethrough"]).render(text)
    tags = set(re.findall(r"<(\w+)", rendered))
    assert tags == {"p", "strong", "ul", "li", "table", "thead", "tbody", "tr", "th", "td", "pre", "code"}
    expected = foreign.one_line(HOSTILE)
    assert html.unescape(prose.splitlines()[0]) == f"**✗ REGRESSION: {expected}**"


@pytest.mark.parametrize("count", [1, 40, 1000])
def test_a_comment_is_never_longer_than_a_forge_accepts(count: int) -> None:
    metrics = [{**cases.TPOT, "name": f"tpot_{k}"} for k in range(count)]
    reasons = [{"code": "long", "text": "<" * 5000} for _ in range(count)]
    trials = [
        cases.trial(1, block, 0, "base", 0.01, values={f"tpot_{k}": 0.01 for k in range(count)}) for block in range(8)
    ]
    text = comparison_markdown(cases.comparison(metrics=metrics, reasons=reasons), trials)
    assert len(text) < 65_000
    assert text.startswith("**✗ REGRESSION")
    assert "Next: " in text
    if count == 1000:
        assert "Left out here because it is too long: metrics, reasons, trials by block." in text
