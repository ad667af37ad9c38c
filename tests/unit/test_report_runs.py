"""`perfguard runs`: one line a campaign that fits a terminal, with ids that can be copied."""

import io
from dataclasses import asdict, replace

import pytest
from rich.console import Console

from perfguard.report import terminal
from perfguard.report.runs import render_runs
from perfguard.store import CampaignOverview

OVERVIEW = CampaignOverview(
    id="20260102-030405-ab12",
    kind="compare",
    created_at="2026-01-02T03:04:05+00:00",
    status="interrupted",
    workload="moe",
    scope="full",
    repository="/srv/repo",
    base="HEAD~1",
    base_commit="a" * 40,
    head="ccccccc",
    head_commit="c" * 40,
    num_ok=14,
    num_invalid=1,
    num_timed_out=2,
)


LONG = replace(
    OVERVIEW,
    kind="calibrate",
    workload="python3 benchmarks/serve.py --long",
    base="release/2026.11-rc1",
    head="WORKTREE",
    outcome="NOT_REPRODUCED",
    num_ok=1000,
)


def shown(rows, width=None):
    console = terminal.open_console(io.StringIO()) if width is None else Console(file=io.StringIO(), width=width)
    render_runs([asdict(row) for row in rows], console)
    return console.file.getvalue().splitlines()


def test_a_run_shows_its_outcome_or_else_its_status_and_the_commit_behind_a_moving_name():
    first, second = (line.split() for line in shown([OVERVIEW, replace(OVERVIEW, outcome="SUSPECT")])[1:])
    about = ["20260102-030405-ab12", "compare", "moe", "HEAD~1", "aaaaaaa", "ccccccc"]
    assert first == [*about, "interrupted", "14/17"]
    assert second == [*about, "!", "SUSPECT", "14/17"]


@pytest.mark.parametrize(("width", "limit"), [(None, 100), (100, 100), (99, 80), (80, 80)])
def test_no_line_is_wider_than_the_terminal_and_no_id_is_cut(width, limit):
    lines = shown([OVERVIEW, LONG], width)
    assert len(lines) == 3, "one line a campaign"
    assert max(map(len, lines)) <= limit
    assert all(line.startswith(OVERVIEW.id) for line in lines[1:])
    assert "≠ NOT_REPRODUCED" in lines[2]


def test_a_name_that_is_too_long_is_cut_visibly():
    assert "release/2026.…" in shown([LONG])[1]
    assert "python3 bench…" in shown([LONG])[1]


def test_no_runs_say_how_to_get_one():
    assert shown([]) == ["Nothing is stored yet.", "next: perfguard compare HEAD~1 HEAD -- python bench.py"]
