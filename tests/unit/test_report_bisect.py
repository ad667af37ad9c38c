"""A bisect on a terminal and in Markdown: the answer first, a picture that fits, every reading, ranges with reasons."""

import io

import pytest
from rich.console import Console

from perfguard.report.bisect import (
    bisect_markdown,
    log_lines,
    picture,
    reading_line,
    render_bisect,
    spark,
    unbuildable_lines,
)


def entry(number, probability, **changes):
    whole = {
        "commit": f"{number:040x}"[::-1],
        "subject": f"step {number}",
        "probability": probability,
        "readings": 0,
        "status": "ok",
    }
    return {**whole, **changes}


def document(posterior, **changes):
    arm = {"revision": "v1", "commit": "a" * 40, "subject": "good one", "env": {}, "params": {}, "patch_sha256": None}
    reading = {"number": 0, "commit": posterior[0]["commit"], "position": 1, "order": "BA", "slowdown": 1.051}
    whole = {
        "schema": "perfguard/bisect@1", "id": "b-0001", "outcome": "INCONCLUSIVE", "sentence": "Undecided: too little.",
        "good": arm, "bad": {**arm, "revision": "HEAD", "commit": "b" * 40, "subject": "<script>|bad"},
        "commits": 12, "candidates": len(posterior), "metric": {"name": "seconds", "unit": "s", "better": "lower"},
        "look_for": "slower", "margin": 0.02, "seed": 7, "claimed": {}, "posterior": posterior, "culprit": None,
        "p_nothing_changed": 0.25, "readings": [reading], "confirmation": None, "unbuildable_because": {},
        "reasons": [], "trials": 2, "trials_by": {"search": 2, "confirmation": 0, "crashed": 1}, "builds": 2,
        "launches_s": 65.0, "inside": None, "next": "perfguard show b-0001",
    }  # fmt: skip
    return {**whole, **changes}


def test_a_bar_is_as_long_as_its_probability_and_the_culprit_is_marked_by_a_sign():
    posterior = [entry(1, 0.25, readings=2), entry(2, 0.5), entry(3, 0.0, status="unbuildable")]
    lines = picture(document(posterior, culprit=posterior[1]["commit"]))
    assert [line.count("█") for line in lines] == [8, 8, 15, 0]  # of 30 columns; 7.5 is rounded to even
    assert lines[0].startswith("nothing changed ")
    assert " 2× step 1" in lines[1]
    assert lines[2].startswith("✗ 2000")
    assert lines[3].startswith("u 3000")
    assert all(len(line) <= 100 for line in lines)


def test_a_long_history_is_folded_around_the_likely_commits_and_keeps_all_probability():
    posterior = [entry(k, 0.001, readings=int(k == 7)) for k in range(500)]
    posterior[300] = entry(300, 0.3, subject="x" * 90)
    posterior[301] = entry(301, 0.2)
    lines = picture(document(posterior))
    assert len(lines) == 5
    assert lines[1].startswith("… 300 commits")
    assert " 30.0 % " in lines[1]
    assert " 1×" in lines[1]
    assert lines[2].startswith("  c21000000000 ")
    assert lines[4].startswith("… 198 commits")
    assert all(len(line) <= 100 for line in lines)


def test_a_flat_history_of_thousands_is_one_line():
    lines = picture(document([entry(k, 1 / 5000) for k in range(5000)]))
    assert lines[1].startswith("… 5000 commits")
    assert len(lines) == 2


def test_the_spark_line_has_a_column_for_each_commit_up_to_sixty():
    assert spark([entry(1, 0.0), entry(2, 1.0), entry(3, 0.5)]) == " █▅"
    long = spark([entry(k, 1.0 if k == 599 else 0.0) for k in range(600)])
    assert long == " " * 59 + "█"


def test_a_reading_is_one_line_of_a_hundred_columns():
    reading = {
        "reading": {"number": 99, "commit": "c" * 40, "position": 1024, "order": "BA", "slowdown": 1.051},
        "candidates": 1024, "p_nothing_changed": 0.02, "likeliest": entry(1, 0.61), "trials": 200,
        "expected_trials_left": 9.2, "posterior": [],
    }  # fmt: skip
    line = reading_line(reading)
    assert line.startswith("100 cccccccccccc (1024 of 1024) BA   +5.1 %; none 2.0 %; likeliest 100000000000 61.0 %")
    assert line.endswith("; 200 trials, about 9 left")
    lost = reading_line({**reading, "reading": {**reading["reading"], "slowdown": None}})
    assert "no value" in lost


def test_neighbours_that_cannot_be_measured_are_one_range_with_the_reason_of_the_first():
    posterior = [entry(k, 0.1, status="ok" if k in (1, 5) else "unbuildable") for k in range(1, 7)]
    because = {one["commit"]: f"no module m{k}\nTraceback\nlast line {k}" for k, one in enumerate(posterior, start=1)}
    lines = unbuildable_lines(document(posterior, unbuildable_because=because))
    assert lines == [
        "cannot be measured: 200000000000..400000000000 (3 commits): no module m2 … last line 2",
        "cannot be measured: 600000000000: no module m6 … last line 6",
    ]


@pytest.mark.parametrize("width", [100])
def test_a_terminal_gets_the_answer_first_and_nothing_wider_than_it_is(width):
    stream = io.StringIO()
    console = Console(file=stream, width=width, highlight=False, markup=False, emoji=False)
    claimed = {"value": 89.0, "reached": False, "launches": 6}
    render_bisect(document([entry(1, 0.75, readings=1)], claimed=claimed), console)
    lines = stream.getvalue().splitlines()
    assert lines[0] == "? INCONCLUSIVE: Undecided: too little."
    assert "claimed 89.00 s; GOOD does not reach it in 6 launches now" in lines
    assert "12 commits between, 11 of them with the code of the one before" in stream.getvalue().replace("\n", " ")
    assert "reading 1 BA 100000000000: +5.1 %" in lines
    assert "Trials: 2 (2 of the search, 0 to confirm, 1 without a value)." in stream.getvalue()
    assert max(map(len, lines)) <= width


def test_markdown_keeps_foreign_words_from_becoming_markup():
    text = bisect_markdown(document([entry(1, 0.75)]))
    assert text.startswith("**? INCONCLUSIVE: Undecided: too little.**")
    assert "<script>" not in text.replace("# bad: [" + "b" * 40 + "] <script>|bad", "")
    assert "Next: `perfguard show b-0001`" in text


def test_what_was_found_inside_a_merge_stands_below_it():
    inner = document([entry(9, 1.0)], merge="d" * 40, next="not said twice")
    text = bisect_markdown(document([entry(1, 0.75)], inside=inner, next="git show 900000000000"))
    assert text.index("Inside merge dddddddddddd:") < text.index("git show 900000000000")
    assert "not said twice" not in text


def test_the_log_of_a_search_whose_merge_was_searched_names_its_own_confirmation():
    """Not the one of the commit on the branch, which the log below it has."""
    sides = {"base": {"commit": "e" * 40}, "head": {"commit": "f" * 40}}
    inner = document([entry(9, 1.0)], merge="d" * 40, culprit="f" * 40)
    inner["confirmation"] = {**sides, "outcome": "REGRESSION", "id": "c-9"}
    outer = {**inner, "inside": inner, "merged_by": "d" * 40, "merge_confirmation": "c-7"}
    assert [line for line in log_lines(outer) if "confirmation" in line] == [
        "confirmation of merge dddddddddddd: it changed (c-7)"
    ]
    assert f"confirmation {'e' * 12} against {'f' * 12}: REGRESSION (c-9)" in log_lines(inner)
