"""What speculate found, as lines, tables and a drawing; also where the runner told little."""

import re

import pytest
from campaign_cases import trial
from speculate_cases import counts, judged, speculation_is

from perfguard.reading_costs import all_reduce_shares
from perfguard.report import reproduce, speculate
from perfguard.report.gain_plot import gain_plot


@pytest.fixture(scope="module")
def loss():
    return judged(speculation_is(0.82))


def test_the_gate_comes_first_and_break_even_before_advice(loss):
    lines = speculate.lines(loss)
    starts = ["✓ gate, accept rates passed", "✓ gate, output passed", "break-even accept length 2.5 (95 % interval"]
    assert [line.startswith(start) for line, start in zip(lines, starts, strict=False)] == [True] * 3
    assert "here 2.05 tokens a cycle" in lines[2]
    assert "all-reduce share: plain unknown, eagle3 unknown" in lines
    assert any(line.startswith("best number of drafted tokens, predicted: ") for line in lines)


def test_the_gain_table_has_the_measured_verify_time_in_a_column_of_its_own(loss):
    columns, rows = speculate.gain_rows(loss)
    at = columns.index("verify x 1")
    # 2 tokens in 25 ms against one in 10 ms; 2.5 are even.
    assert {row[0]: row[at] for row in rows}["2"] == "-20 %"
    assert {row[0]: row[at] for row in rows}["2.5"] == "+0 %"
    assert len(speculate.tables(loss)) == 2


def test_without_the_gate_there_is_no_table_and_the_reason_is_said():
    found = judged(speculation_is(0.5), speculative=counts((20, 12, 8)))
    lines = speculate.lines(found)
    assert lines[0].startswith("✗ gate, accept rates failed: position 1 is accepted in 2.0 %")
    assert lines[-1] == "No advice: what the gate asks is not shown."
    assert speculate.tables(found) == []


def test_other_comparisons_have_nothing_of_it():
    assert (speculate.lines({}), speculate.tables({}), gain_plot({})) == ([], [], "")


def test_the_drawing_marks_break_even_at_no_gain_and_what_was_measured_below_it(loss):
    drawn = gain_plot(loss)
    zero = float(re.search(r'class="zero" x1="[\d.]+" y1="([\d.]+)"', drawn).group(1))
    even = float(re.search(r'<circle class="base" cx="[\d.]+" cy="([\d.]+)"', drawn).group(1))
    tip = float(re.search(r'<polygon class="head" points="[\d.]+,([\d.]+)', drawn).group(1))
    assert even == pytest.approx(zero, abs=0.1)
    assert tip > zero  # downwards on the page: a loss
    assert "here 2.05, -18 %" in drawn


def test_the_line_that_measures_it_again_is_speculate(loss):
    (line,) = reproduce.with_perfguard(loss)
    assert line.startswith("perfguard speculate aaaaaaaaaaaa ")
    assert "--scope" not in line


def test_one_rank_has_no_all_reduces_and_several_that_tell_nothing_have_unknown_ones():
    one, two = ({"versions": {"session": {"world_size": number}}} for number in (1, 2))
    alone = [trial(1, 0, slot, "base", 1.0, record=one) for slot in range(2)]
    assert all_reduce_shares(alone) == {"plain": 0.0, "eagle3": 0.0}
    assert all_reduce_shares([*alone, trial(1, 0, 2, "head", 1.0, record=two)]) == {"plain": None, "eagle3": None}
    told = {**judged(speculation_is(0.82))}
    told["speculate"] = {**told["speculate"], "all_reduce_share": {"plain": 0.0, "eagle3": 0.0}}
    assert "all-reduce share: none, on one rank" in speculate.lines(told)
