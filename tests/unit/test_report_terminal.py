"""The report a person reads: on a terminal of any width, without colour, in a pipe, with hostile text in it."""

import io
import os
import pty
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import report_cases as cases
import store_cases
from rich.console import Console

from perfguard.report import foreign, outcomes, strips, terminal
from perfguard.report.show import render_show

HOSTILE = "[bold]x[/bold] [/] [tp=8] :smile: \x1b[31mred\x1b[0m a\nb\r\x00 \udce9 \u202e end"
HERE = Path(__file__).parent


def piped(comparison: dict[str, Any] | None = None, width: int | None = None) -> str:
    console = terminal.open_console(io.StringIO())
    console.width = width or console.width
    terminal.render_comparison(comparison or cases.comparison(), cases.trials(), console)
    return console.file.getvalue()


def test_the_verdict_comes_first_in_one_sentence() -> None:
    assert piped().splitlines()[0] == "✗ REGRESSION: head is 3.1 % slower than base in decode_throughput."


@pytest.mark.parametrize("sentence", ["SUSPECT: head looks slower", "SUSPECT – head looks slower", "head looks slower"])
def test_the_outcome_stands_in_front_of_the_sentence_once(sentence: str) -> None:
    assert outcomes.headline({"outcome": "SUSPECT", "sentence": sentence}) == "! SUSPECT: head looks slower"


def test_every_outcome_has_a_sign_of_its_own_so_that_colour_is_never_the_only_signal() -> None:
    words = ["REGRESSION", "IMPROVEMENT", "EQUIVALENT", "INCONCLUSIVE", "SUSPECT", "INVALID"]
    assert len({outcomes.signed(word).split()[0] for word in words}) == 6


def test_the_table_shows_both_medians_at_one_scale_the_interval_the_margin_and_p() -> None:
    lines = piped().splitlines()
    assert re.search(
        r"^tpot \(ms\) +12\.18 +12\.56 +\+3\.1 % +\+2\.7 to \+3\.5 % +2 % +0\.00077 ✗ REGRESSION", lines[7]
    )
    assert re.search(r"^tokens, secondary +4,096 +4,096 +– +– +exact +– = EQUIVALENT", lines[8])


def test_medians_of_both_sides_share_the_scale_of_the_larger() -> None:
    metric = {**cases.TPOT, "base_median": 0.0009, "head_median": 0.0011}
    assert outcomes.metric_cells(metric, 0.02)[:3] == ("tpot (ms)", "0.9000", "1.100")


def test_reasons_counts_conclusions_and_the_next_command_are_all_there() -> None:
    text = piped()
    for line in (
        "uncalibrated: this machine was never calibrated",
        "lottery: tpot: fast and slow launches: 1 of 4 in head",
        "Trials: 11 ok, 0 invalid, 0 crashed, 1 timed out. Blocks: 2 used, 1 void.",
        "What can be concluded: The commit slowed decoding on this machine.",
        "What cannot: Other batch sizes.",
        "next: perfguard bisect HEAD~8 HEAD -w moe",
        "head  HEAD  cccccccccccc  + patch dddddddddddd  NCCL_PROTO=LL  Faster [bold]router[/bold]",
    ):
        assert line in text.splitlines()


def test_the_scope_and_a_claimed_number_are_said() -> None:
    text = piped(cases.comparison(scope="slice", claimed={"value": 89, "reproduced": False}))
    assert "Scope: slice; a full run was not measured." in text
    assert "claimed  value 89, reproduced False" in text


def test_a_comparison_without_head_metrics_or_trials_is_still_a_report() -> None:
    bare = cases.comparison(metrics=[], reasons=[], conclusions={}, next="", outcome="INVALID", sentence="")
    del bare["head"]
    console = terminal.open_console(io.StringIO())
    terminal.render_comparison(bare, [], console)
    assert console.file.getvalue().startswith("⊘ INVALID\n")


def test_the_strip_plot_puts_each_trial_of_a_block_on_one_axis_with_units() -> None:
    _, tpot = strips.strips(cases.comparison(), cases.trials())
    assert strips.text_lines(tpot) == [
        "tpot  (○ base, ● head, ◐ both; further right is slower)",
        # 10 ms is column 0, 20 ms column 59: 15.1 ms lies on 30.09, 18 on 47.2, 13 on 17.7.
        f"  1.0 ABBA │○{' ' * 29}●{' ' * 28}●│",
        f"  1.1 BABA │{' ' * 6}◐{' ' * 5}○{' ' * 34}●{' ' * 12}│",
        f"  2.0 AB   │{' ' * 18}○{' ' * 41}│ 1 timed out",
        f"{' ' * 11}└{'─' * 29}┴{'─' * 30}┘",
        f"{' ' * 11}10.00 ms{' ' * 19}15.00 ms{' ' * 19}20.00 ms",
    ]


def test_the_direction_of_the_axis_follows_the_metric() -> None:
    throughput, tpot = strips.strips(cases.comparison(), cases.trials())
    assert "further right is faster" in strips.text_lines(throughput)[0]
    assert "further right is slower" in strips.text_lines(tpot)[0]


def test_exact_secondary_and_unmeasured_metrics_have_no_plot() -> None:
    metrics = [cases.TOKENS, {**cases.TPOT, "primary": False}, {**cases.TPOT, "name": "unmeasured"}]
    assert strips.strips(cases.comparison(metrics=metrics), cases.trials()) == []


def test_values_that_are_all_equal_lie_in_the_middle() -> None:
    trials = [cases.trial(1, 0, slot, side, 0.01) for slot, side in enumerate(("base", "head"))]
    (_, tpot) = strips.strips(cases.comparison(), trials)
    assert strips.text_lines(tpot)[1] == f"  1.0 AB   │{' ' * 30}◐{' ' * 29}│"


def test_axis_labels_have_digits_enough_to_differ() -> None:
    trials = [cases.trial(1, 0, 0, "base", 0.0123456), cases.trial(1, 0, 1, "head", 0.0123457)]
    (_, tpot) = strips.strips(cases.comparison(), trials)
    assert len(set(strips.axis_labels(tpot))) == 3


def test_a_hundred_columns_hold_every_line_and_all_numbers_in_one_piece() -> None:
    long = cases.comparison(sentence="head is slower. " * 20, metrics=[{**cases.TPOT, "name": "metric_" * 8}])
    lines = piped(long, width=100).splitlines()
    assert max(map(len, lines)) <= 100
    assert any("12.18 12.56   +3.1 % +2.7 to +3.5 %    2 % 0.00077 ✗ REGRESSION" in line for line in lines)


@pytest.mark.parametrize("width", [40, 80, 100, None])
def test_nothing_is_cut_and_no_line_ends_in_an_ellipsis(width: int | None) -> None:
    subject = "".join(f"word{k:03}" for k in range(60))
    name = "".join(f"part{k:03}" for k in range(20))
    comparison = cases.comparison(
        base=cases.arm("HEAD~1", "a" * 40, subject), metrics=[{**cases.TPOT, "name": name}], next=f"perfguard {subject}"
    )
    text = piped(comparison, width)
    assert "…" not in text
    squeezed = re.sub(r"\s", "", text)
    assert squeezed.count(subject) == 2, "of the base and in the next command"
    if width != 40:  # there the numbers of the row are folded among the parts of the name
        assert f"{name}(ms)" in squeezed.replace("12.1812.56+3.1%+2.7to+3.5%2%0.00077✗REGRESSION", "", 1)


def test_in_a_pipe_no_line_is_broken() -> None:
    long = "w " * 3000
    assert f"uncalibrated: {long.strip()}" in [
        line.rstrip() for line in piped(cases.comparison(reasons=[{"code": "uncalibrated", "text": long}])).splitlines()
    ]


def test_text_of_others_is_shown_as_it_is_and_moves_no_cursor() -> None:
    comparison = cases.comparison(
        sentence=HOSTILE,
        base=cases.arm(HOSTILE, HOSTILE, HOSTILE, env={HOSTILE: HOSTILE}),
        metrics=[{**cases.TPOT, "name": "decode[bs=1]", "unit": HOSTILE, "reasons": [{"code": "x", "text": HOSTILE}]}],
        reasons=[{"code": HOSTILE, "text": HOSTILE}],
        next=HOSTILE,
    )
    text = piped(comparison)
    assert r"[bold]x[/bold] [/] [tp=8] :smile: \x1b[31mred\x1b[0m a b \x00 \udce9 \u202e end" in text
    assert "decode[bs=1]" in text
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\ud800-\udfff\u202e]", text)


def test_one_line_leaves_ordinary_text_of_any_script_alone() -> None:
    assert foreign.one_line("naïve Größe 速度 \U0001f600 a\u00a0b") == "naïve Größe 速度 \U0001f600 a b"


SCRIPT = """
import sys, report_cases as cases
from perfguard.report import terminal
terminal.render_comparison(cases.comparison(sentence="word " * 60), cases.trials(), terminal.open_console())
"""


def environment(**changes: str) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "TERM", "CI")}
    return {**kept, "PYTHONPATH": str(HERE), **changes}


def through_a_pipe(**changes: str) -> str:
    result = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, env=environment(**changes), check=True)
    return result.stdout.decode("utf-8")


@pytest.mark.parametrize(
    ("changes", "is_coloured"),
    [({"TERM": "dumb"}, False), ({"TERM": "xterm", "FORCE_COLOR": "1"}, True), ({"COLUMNS": "40"}, False)],
)
def test_a_pipe_gets_whole_lines_whatever_the_environment_says(changes: dict[str, str], is_coloured: bool) -> None:
    first = through_a_pipe(PYTHONIOENCODING="utf-8", **changes).splitlines()[0]
    assert ("\x1b[" in first) == is_coloured
    assert re.sub(r"\x1b\[[\d;]*m", "", first).rstrip() == "✗ REGRESSION: " + ("word " * 60).rstrip()


def test_an_output_that_knows_ascii_only_gets_the_numbers_of_signs() -> None:
    assert through_a_pipe(PYTHONIOENCODING="ascii").startswith(r"\u2717 REGRESSION: word")


def through_a_terminal(columns: int, **changes: str) -> str:
    leader, follower = pty.openpty()
    environ = environment(COLUMNS=str(columns), TERM="xterm", PYTHONIOENCODING="utf-8", **changes)
    process = subprocess.Popen([sys.executable, "-c", SCRIPT], stdout=follower, stdin=follower, env=environ)
    os.close(follower)
    read = b""
    # Reading a terminal whose other end is closed is an error on Linux, and the end.
    while True:
        try:
            piece = os.read(leader, 65536)
        except OSError:
            break
        if not piece:
            break
        read += piece
    os.close(leader)
    assert process.wait() == 0
    return read.decode("utf-8")


def test_many_variables_that_both_sides_have_alike_are_counted_and_the_one_that_differs_is_shown() -> None:
    alike = {f"CUDA_{letter}": "1" * 300 for letter in "ABCDEF"}
    comparison = cases.comparison()
    base = {**comparison["base"], "env": alike}
    shown = {**comparison, "base": base, "head": {**base, "env": {**alike, "NCCL_PROTO": "Simple"}}}
    console = terminal.open_console(io.StringIO())
    terminal.render_comparison(shown, [], console)
    lines = console.file.getvalue().splitlines()
    assert [line for line in lines if "CUDA_A" in line] == []
    assert "NCCL_PROTO=Simple" in next(line for line in lines if line.startswith("head  "))
    assert "both  6 more variables, alike" in lines
    few = {**shown, "base": {**base, "env": {"CUDA_A": "1"}}, "head": {**base, "env": {"CUDA_A": "1"}}}
    console = terminal.open_console(io.StringIO())
    terminal.render_comparison(few, [], console)
    assert console.file.getvalue().count("CUDA_A=1") == 2


def test_where_no_trial_was_measured_none_is_counted() -> None:
    comparison = cases.comparison()
    none = {**comparison, "trials": dict.fromkeys(comparison["trials"], 0)}
    assert outcomes.counts(none).startswith("Trials: none measured; the unmeasured first runs")
    assert outcomes.counts(comparison).startswith("Trials: 11 ok, ")


def test_facts_in_a_file_are_not_filled_up_to_the_longest_line() -> None:
    console = terminal.open_console(io.StringIO())
    terminal.render_facts({"seed": 7, "machine": "x" * 200}, console)
    assert console.file.getvalue() == "seed     7\nmachine  " + "x" * 200 + "\n"


def test_a_wide_terminal_is_used_up_to_a_hundred_columns_with_colour_unless_refused() -> None:
    coloured, plain = through_a_terminal(200), through_a_terminal(200, NO_COLOR="1")
    assert "\x1b[1;31m✗ REGRESSION" in coloured
    assert "\x1b[1;31m" not in plain
    bare = re.sub(r"\x1b\[[\d;]*m", "", coloured)
    assert 90 < max(len(line.rstrip("\r")) for line in bare.split("\n")) <= 100


def test_a_stored_campaign_shows_every_trial_whatever_became_of_it() -> None:
    console = terminal.open_console(io.StringIO())
    trials = [store_cases.trial(0, stage=0), store_cases.trial(1), store_cases.trial(2, **store_cases.FAILED)]
    render_show(store_cases.campaign(), [store_cases.block()], trials, cases.comparison(), console)
    lines = [line.rstrip() for line in console.file.getvalue().splitlines()]
    assert "base        HEAD~1  " + "a" * 40 + "  NCCL_PROTO=LL  Faster [bold]router[/bold]" in lines
    assert "machine     GPU: 2 × NVIDIA H200, driver: 580.1" in lines
    assert "head        WORKTREE  " + "c" * 40 + "  + patch of 15 B  layers=12" in lines
    rows = [line.split() for line in lines if "base 1" in line or "head 1" in line]
    assert [row[-2:] for row in rows[:2]] == [["80.00", "token/s"], ["81.00", "token/s"]]
    assert rows[0][:2] == ["first", "run"]
    assert "crashed" in rows[2]
    assert lines[-1] == "next: perfguard bisect HEAD~8 HEAD -w moe"


def test_a_console_of_the_caller_may_know_markup_and_still_does_not_read_it() -> None:
    out = io.StringIO()
    terminal.render_comparison(cases.comparison(sentence="[bold]x[/bold] :smile:"), [], Console(file=out, width=100))
    assert out.getvalue().startswith("✗ REGRESSION: [bold]x[/bold] :smile:")
