"""Markdown and SVG: nothing of others becomes markup, and both fit where they are put."""

import html
import re
from xml.etree import ElementTree

import pytest
import report_cases as cases
from markdown_it import MarkdownIt

from perfguard.report import foreign
from perfguard.report.markdown import comparison_markdown
from perfguard.report.svg import strip_svg

HOSTILE = "<script>alert(1)</script> | `x` ```` **b** @user #12 [a](http://x) ![i](y) ~~s~~ \x1b[31m\nnext &amp; \udce9"
SVG = "{http://www.w3.org/2000/svg}"


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
        next=HOSTILE,
    )
    trial = cases.trial(1, 0, 0, "base", 0.01, values={HOSTILE: 1.0})
    text = comparison_markdown(comparison, [trial])
    prose, fence, code = text.partition("\n`````text\n")
    assert fence, "one tick more than the longest run of ticks in the block"
    assert "\n`````\n" in code
    prose += re.sub(r"(?s)^.*?\n`````\n", "", code)
    assert prose.splitlines()[-1].startswith("Next: ````` <script>"), "a code span shows it and runs nothing"
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


def test_the_picture_is_well_formed_and_loads_and_runs_nothing() -> None:
    comparison = cases.comparison(id=HOSTILE, metrics=[{**cases.TPOT, "name": HOSTILE}])
    picture = strip_svg(comparison, [cases.trial(1, 0, 0, "base", 0.01, values={HOSTILE: 1.0})])
    root = ElementTree.fromstring(picture)
    tags = {element.tag.removeprefix(SVG) for element in root.iter()}
    assert tags == {"svg", "title", "rect", "text", "line", "circle"}
    assert "href" not in picture
    assert root.find(f"{SVG}title").text == f"Trials of {foreign.one_line(HOSTILE)} by block"


def test_the_picture_shows_a_mark_a_trial_inside_its_frame_and_the_axis_in_units() -> None:
    root = ElementTree.fromstring(strip_svg(cases.comparison(), cases.trials()))
    circles = root.findall(f"{SVG}circle")
    assert len(circles) == 2 * 9, "nine valid trials for each of two metrics"
    # The track begins at 110 and is 470 wide; 10 and 20 ms are its ends, 15.1 ms lies at 51 % of it.
    assert [c.get("cx") for c in circles[9:13]] == ["110.0", "580.0", "349.7", "110.0"]
    height = float(root.get("height"))
    assert all(0 < float(c.get("cy")) < height for c in circles)
    texts = [t.text for t in root.findall(f"{SVG}text")]
    assert {"10.00 ms", "15.00 ms", "20.00 ms", "1.0 ABBA", "1 timed out"} <= set(texts)


def test_a_picture_of_nothing_is_still_a_picture() -> None:
    ElementTree.fromstring(strip_svg(cases.comparison(metrics=[]), []))
