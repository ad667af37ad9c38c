"""What is said while trials run."""

import io
from dataclasses import replace

import pytest
import report_cases as cases
from rich.console import Console

from perfguard.records import BlockPlan, Decision, Metric, MetricResult, Outcome, Reason
from perfguard.report import progress as module
from perfguard.report.progress import progress, remaining_range, remaining_text

PLAN = BlockPlan(stage=1, index=3, order="ABBA", builds="1111", pauses=(0.0, 0.0, 0.0, 0.0))
TPOT = Metric(name="tpot", unit="s", better="lower")
RESULT = MetricResult(metric=TPOT, outcome=Outcome.INCONCLUSIVE, slowdown=1.029, ci_low=1.011, ci_high=1.048)
DECISION = Decision(state="measure", outcome=Outcome.INCONCLUSIVE, metrics=(RESULT,))
LINE = "block 1.3 ABBA: 4 ok; tpot +2.9 % (+1.1 to +4.8 %); so far INCONCLUSIVE"


def run(console: Console, *, is_quiet: bool = False) -> str:
    trials = [cases.trial(1, 3, slot, "base", 0.01) for slot in range(4)]
    with progress(console, is_quiet=is_quiet) as shown:
        shown.note("building [head]")
        for trial, cost in zip(trials, (10.0, 12.0, 15.0, 11.0), strict=True):
            shown.trial_ended(trial, cost)
        shown.block_ended(PLAN, trials, DECISION, least_blocks=1, most_blocks=8)
    return console.file.getvalue()


def test_without_a_terminal_a_block_is_one_line_and_nothing_else_is_said() -> None:
    # Left: one block at 10 s a trial is 40 s; eight blocks at 15 s a trial are 480 s.
    assert run(Console(file=io.StringIO(), width=200)) == f"{LINE}; left: 1 to 8 blocks, 40 s to 8 min\n"


def test_why_a_trial_failed_is_said_at_once() -> None:
    """A start of minutes may fail three times before a verdict tells why."""
    console = Console(file=io.StringIO(), width=200)
    with progress(console) as shown:
        for stage, slot in ((0, 1), (1, 2)):
            failed = replace(
                cases.trial(stage, 1, slot, "head", 0.01, status="timed_out", values={}),
                attempt=1, reasons=(Reason(code="x", text="out of [memory]" + "!" * 999),),
            )  # fmt: skip
            shown.trial_ended(failed, 1.0)
    first, second = console.file.getvalue().replace("\n", "").split("block 1.1 slot 2 head: ")
    assert first.startswith("first run of head, build 1: timed out, try 2: out of [memory]!!")
    assert second.startswith("timed out, try 2: out of [memory]")
    assert len(first) < 400


def test_as_many_blocks_at_least_as_at_most_are_told_once() -> None:
    assert remaining_text((40.0, 40.0), 1, 1) == "; left: 1 block, 40 s to 40 s"


def test_quiet_says_nothing() -> None:
    assert run(Console(file=io.StringIO()), is_quiet=True) == ""
    assert run(Console(file=io.StringIO(), force_terminal=True), is_quiet=True) == ""


def test_a_terminal_shows_what_is_going_on_and_keeps_the_line_of_the_block() -> None:
    shown = run(Console(file=io.StringIO(), width=200, force_terminal=True, _environ={"TERM": "xterm"}))
    assert "building [head]" in shown
    assert "block 1.3 slot 2 base: ok" in shown
    assert LINE in shown


def test_nothing_runs_between_trials_that_could_disturb_what_is_measured() -> None:
    with progress(Console(file=io.StringIO(), force_terminal=True, _environ={"TERM": "xterm"})) as shown:
        assert shown.live is not None
        assert shown.live.auto_refresh is False


def test_an_error_inside_leaves_the_terminal_as_it_was() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, _environ={"TERM": "xterm"})
    with pytest.raises(KeyboardInterrupt), progress(console):
        raise KeyboardInterrupt
    hidden, shown = console.file.getvalue().rfind("\x1b[?25l"), console.file.getvalue().rfind("\x1b[?25h")
    assert 0 <= hidden < shown, "the cursor is visible again"


def test_the_time_left_runs_from_the_cheapest_trial_to_the_dearest() -> None:
    assert remaining_range([5.0, 7.0, 30.0], 2, 10) == (40.0, 1200.0)
    assert remaining_range([], 2, 10) is None, "nothing is promised before anything was measured"
    assert remaining_text(None, 2, 10) == ""
    assert remaining_text((0.0, 0.0), 0, 0) == "", "nothing is left"


def test_a_final_block_says_its_outcome_and_failures_are_counted() -> None:
    trials = [cases.trial(2, 0, 0, "base", 0.01), cases.trial(2, 0, 1, "head", 0.01, status="timed_out", values={})]
    exact = MetricResult(metric=Metric(name="n", unit="1", better="lower", exact=True), outcome=Outcome.EQUIVALENT)
    done = Decision(state="done", outcome=Outcome.REGRESSION, metrics=(exact,))
    assert module.block_line(PLAN, trials, done) == "block 1.3 ABBA: 1 ok, 1 timed out; REGRESSION"
