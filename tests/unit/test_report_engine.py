"""What engines resolved stands before the verdict, in every format; where no engine was measured nothing changes."""

import io

import report_cases as cases

from perfguard.report import html, markdown, terminal

ENGINE = {
    "lines": ["verify of head ran in piecewise CUDA graphs <b>; tp_size 8 → 4", "attention backend: fa3, flashinfer"]
}
COMPARED = {**cases.comparison(), "engine": ENGINE}


def piped(comparison):
    console = terminal.open_console(io.StringIO())
    terminal.render_comparison(comparison, cases.trials(), console)
    return console.file.getvalue()


def test_the_first_line_on_a_terminal_is_the_engines_and_then_comes_the_verdict():
    lines = piped(COMPARED).splitlines()
    assert lines[0] == "Engine: verify of head ran in piecewise CUDA graphs <b>; tp_size 8 → 4"
    assert lines[1].startswith("✗ REGRESSION")
    assert lines[2] == "Engine: attention backend: fa3, flashinfer"
    assert "Engine:" not in piped(cases.comparison())


def test_markdown_and_html_have_it_in_front_too_and_escape_it():
    text = markdown.comparison_markdown(COMPARED, cases.trials())
    assert text.startswith("Engine: verify of head ran in piecewise CUDA graphs &#60;b&#62;; tp&#95;size 8 → 4")
    page = html.comparison_html(COMPARED, cases.trials())
    assert page.index("piecewise CUDA graphs &lt;b&gt;") < page.index("<h1>")
    assert page.index("attention backend: fa3") > page.index("<h1>")
    assert "Engine:" not in html.comparison_html(cases.comparison(), cases.trials())
