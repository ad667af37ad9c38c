"""The HTML page of a comparison: one file, nothing from elsewhere, foreign text harmless."""

import base64
import csv
import io
import re

import pytest

from perfguard.report.html import comparison_html
from perfguard.report.reproduce import with_perfguard
from tests.unit.report_cases import TPOT, arm, comparison, trials

SCRIPT = "<script>alert(1)</script>"


def page(**changes) -> str:
    return comparison_html(comparison(**changes), trials())


def text_of(html: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", html.split("</style>")[1]))


def test_the_verdict_comes_first_then_what_can_and_cannot_be_concluded():
    shown = text_of(page())
    places = [shown.index(part) for part in ("✗ REGRESSION: head is 3.1 % slower", "Can:", "Cannot:", "Metrics")]
    assert places == sorted(places)
    assert "The commit slowed decoding on this machine." in shown


def test_a_page_asks_for_nothing_from_a_network_and_runs_no_script():
    html = page()
    assert re.findall(r"(?:src|href)=\"(?!data:|#)[^\"]*\"", html) == []
    assert "<script" not in html
    assert "url(" not in html
    assert "default-src 'none'" in html


@pytest.mark.parametrize("text", [SCRIPT, '"><img src=x onerror=alert(1)>', "</title><svg onload=alert(1)>"])
def test_foreign_text_is_escaped_wherever_it_appears(text):
    head = arm(text, "c" * 40, text, env={text: text})
    html = page(
        head=head,
        sentence=text,
        reasons=[{"code": "x", "text": text}],
        metrics=[{**TPOT, "name": text}],
        workload={"name": text, "command": [text]},
        machine={text: {text: text}},
        next=text,
    )
    assert text not in html
    assert not re.search(r"<(script|img|svg on)", html)


def test_a_commit_message_of_ten_megabytes_leaves_a_small_page():
    html = page(head=arm("HEAD", "c" * 40, "x" * 10_000_000))
    body = re.sub(r"base64,[A-Za-z0-9+/=]+", "", html)
    assert len(body) < 100_000
    assert "cut, 10,000,000 characters" in html
    assert len(html) < 3_000_000


def test_every_launch_is_drawn_by_shape_and_failed_ones_too():
    html = page(metrics=[TPOT])
    drawing = html.split("Every launch")[1].split("Conditions")[0]
    assert drawing.count('<circle class="base"') == 5
    assert drawing.count('<polygon class="head"') == 4
    assert drawing.count('<path class="void"') == 1
    assert "head 20.00 ms, block 1.0, slot 2, build 1" in drawing


def test_intervals_are_drawn_against_the_margin():
    html = page(metrics=[TPOT])
    assert 'aria-label="Slowdown of head against base with 95 % intervals: tpot +3.1 %, +2.7 to +3.5 %"' in html
    assert "margin 2 %" in html


def test_the_numbers_can_be_downloaded_from_the_page_itself():
    link = re.search(r'download="20260102-030405-ab12.csv" href="data:text/csv;charset=utf-8;base64,([^"]+)"', page())
    rows = list(csv.DictReader(io.StringIO(base64.b64decode(link.group(1)).decode())))
    assert len(rows) == 9 * 3 + 1  # ten measured launches with three metrics, one of them timed out
    assert [row["value"] for row in rows if row["metric"] == "tpot"][:2] == ["0.01", "0.02"]
    assert rows[-1]["status"] == "timed_out"
    assert rows[-1]["value"] == ""


def conditions(*clocks: int | None) -> dict:
    places = [{"stage": 1, "block": 0, "slot": n, "side": ("base", "head")[n % 2], "status": "ok"} for n in range(9)]
    trials = [{**place, "sm_clock_mhz": clock} for place, clock in zip(places, clocks, strict=False)]
    quiet = {"trials": 0, "of": 2}
    gate = {"gate": "clock", "what": "", "base": quiet, "head": {"trials": 1, "of": 2}, "action": "void"}
    found = [{**gate, "found": ["CLOCK_LOW: GPU 0 at <b>1,410</b> MHz"]}, {**gate, "gate": "swap", "found": []}]
    return {"coverage": {"text": "42 of 50 fields of 1 GPU usable"}, "gates": found, "trials": trials, "settings": []}


def test_conditions_are_plotted_with_the_arm_of_each_launch_and_a_missing_reading_is_no_zero():
    shown = page(conditions=conditions(1980, 1410, None)).split('id="h-conditions"')[1].split("</section>")[0]
    assert "base 1,980 MHz, block 1.0" in shown
    assert "head 1,410 MHz, block 1.0" in shown
    assert shown.count('<circle class="base"') + shown.count('<polygon class="head"') == 2


def test_gates_that_saw_something_are_a_table_and_coverage_is_a_line():
    shown = text_of(page(conditions=conditions(1980)))
    assert "clock 0 of 2 1 of 2 void CLOCK_LOW: GPU 0 at &lt;b&gt;1,410&lt;/b&gt; MHz" in shown
    assert "42 of 50 fields of 1 GPU usable; 1 of 2 gates saw nothing." in shown


def test_a_page_without_conditions_says_so():
    assert "No conditions of the machine were recorded" in page()


def test_the_parts_of_a_cycle_are_shown_side_by_side():
    parts = [{**TPOT, "name": f"eagle3_{part}_s", "primary": False} for part in ("draft", "verify")]
    parts[1] |= {"base_median": 0.029, "head_median": 0.041}
    html = page(metrics=[TPOT, *parts])
    assert "Parts of one cycle, eagle3: draft 12.18 ms → 12.56 ms; verify 29.00 ms → 41.00 ms" in html


def test_what_differs_between_the_sides_is_marked_and_the_claim_stands_beside_now():
    html = page(claimed={"decode_throughput": 89.0})
    assert re.search(r'<tr class="differs"><th scope="row">env.NCCL_PROTO</th><td></td><td>LL</td>', html)
    assert "89.00 token/s" in html
    assert re.search(r"claimed</th>.*82.10 token/s", html, re.S)


def test_how_to_reproduce_is_a_command_with_both_commits_and_their_settings():
    (patched, command) = with_perfguard(comparison())
    assert "head: with uncommitted changes" in patched
    assert command == (
        f"perfguard compare {'a' * 12} {'c' * 12} --margin 2% --alpha 0.001 --head-env NCCL_PROTO=LL -w moe"
        " --modes plain"
    )
