"""What is searched and what an ack covers: pure decisions on comparisons and series made by hand."""

from dataclasses import replace

import pytest

from perfguard.history import Night, Track, series_of
from perfguard.nightly.suspecting import CHANGE_POINT, change_windows, is_same_change, verdict_window
from perfguard.store import NightRun, Suspicion

RUN = NightRun(
    campaign="c9", night="n9", started_at="2026-03-09T02:00:00+00:00", workload="decode", commit_sha="h9", pin="p",
    is_link=False, code="k", machine="m", outcome="REGRESSION",
)  # fmt: skip
GOOD = replace(RUN, night="n5", started_at="2026-03-05T02:00:00+00:00", commit_sha="h5", outcome="EQUIVALENT")


def metric(slowdown, *, name="seconds", outcome="REGRESSION", half=0.002, **more):
    ends = {"ci_low": slowdown - half, "ci_high": slowdown + half}
    return {"name": name, "primary": True, "outcome": outcome, "slowdown": slowdown, **ends, **more}


def comparison(*metrics, base="p", workload="decode", outcome="REGRESSION"):
    return {
        "workload": {"name": workload},
        "base": {"commit": base},
        "outcome": outcome,
        "margin": 0.02,
        "metrics": list(metrics),
    }


def suspicion(**changes):
    whole = Suspicion(
        id="s1", filed_at="2026-03-08T02:00:00+00:00", workload="decode", metric="seconds", cause="REGRESSION",
        good="h5", bad="h8", since="2026-03-08T02:00:00+00:00", campaign="c8", status="answered", answer="CULPRIT",
    )  # fmt: skip
    return replace(whole, **changes)


@pytest.mark.parametrize(("now", "is_same"), [
    (comparison(metric(1.03)), True),
    (comparison(metric(1.045)), True),  # 1.043 is below 1.03 * 1.02 = 1.0506
    (comparison(metric(1.06)), False),  # 1.058 is above it
    (comparison(metric(1.06, half=0.02)), True),  # not shown to be worse
    (comparison(metric(1.03), base="q"), False),
    (comparison(metric(1.03), workload="other"), False),
    (comparison(metric(1.03), metric(1.03, name="load")), False),
    (comparison(metric(0.9, outcome="IMPROVEMENT")), False),
    (comparison(metric(1.03), metric(1.2, name="load", primary=False)), True),
])  # fmt: skip
def test_the_same_change_is_the_same_metric_and_not_worse_by_the_margin(now, is_same):
    assert is_same_change(comparison(metric(1.03)), now) is is_same


def test_a_verdict_is_searched_from_the_last_good_night():
    window = verdict_window(comparison(metric(1.03)), RUN, [GOOD], [])
    assert (window.good, window.bad, window.metric, window.cause) == ("h5", "h9", "seconds", "REGRESSION")
    assert window.since == RUN.started_at


def test_a_verdict_without_a_good_night_is_searched_from_the_reference():
    assert verdict_window(comparison(metric(1.03)), RUN, [], []).good == "p"


@pytest.mark.parametrize("outcome", ["EQUIVALENT", "INCONCLUSIVE", "IMPROVEMENT"])
def test_what_accuses_nobody_is_not_searched(outcome):
    slowdown = 0.9 if outcome == "IMPROVEMENT" else 1.01
    assert verdict_window(comparison(metric(slowdown, outcome=outcome)), RUN, [GOOD], []) is None


@pytest.mark.parametrize("answer", ["CULPRIT", "INCONCLUSIVE", ""])
def test_what_was_searched_or_waits_to_be_is_not_searched_again(answer):
    known = [(suspicion(answer=answer), comparison(metric(1.03)))]
    assert verdict_window(comparison(metric(1.031)), RUN, [GOOD], known) is None


def test_a_phantom_since_the_last_good_night_is_searched_once_more_from_the_reference():
    phantom = (suspicion(answer="PHANTOM"), comparison(metric(1.03)))
    window = verdict_window(comparison(metric(1.031)), RUN, [GOOD], [phantom])
    assert window.good == "p"
    twice = (suspicion(answer="PHANTOM", good="p"), comparison(metric(1.03)))
    assert verdict_window(comparison(metric(1.031)), RUN, [GOOD], [phantom, twice]) is None


def test_what_got_worse_or_came_back_after_a_good_night_is_searched_again():
    known = [(suspicion(), comparison(metric(1.03)))]
    assert verdict_window(comparison(metric(1.08)), RUN, [GOOD], known).good == "h5"
    later = replace(GOOD, started_at="2026-03-08T12:00:00+00:00", commit_sha="h8b")
    assert verdict_window(comparison(metric(1.03)), RUN, [GOOD, later], known).good == "h8b"


def test_where_head_itself_was_good_the_reference_is_the_start_and_a_reference_accuses_itself_of_nothing():
    assert verdict_window(comparison(metric(1.03)), RUN, [replace(GOOD, commit_sha="h9", pin="p")], []).good == "p"
    assert verdict_window(comparison(metric(1.03)), replace(RUN, commit_sha="p"), [], []) is None


def series(factor, *, better="lower", num_nights=40, step_at=30):
    values = [100 + 0.1 * (k * 7 % 5) for k in range(num_nights)]  # no two levels, no trend
    nights = [
        Night(
            time=f"2026-{1 + k // 28:02d}-{1 + k % 28:02d}T02:00:00+00:00",
            commit=f"h{k}",
            value=value * (factor if k >= step_at else 1),
        )
        for k, value in enumerate(values)
    ]
    return series_of(Track(metric="seconds", better=better, nights=tuple(nights)))


def test_a_step_for_the_worse_is_searched_between_its_two_nights():
    (window,) = change_windows(series(1.03), [])
    assert (window.good, window.bad, window.cause) == ("h29", "h30", CHANGE_POINT)


def test_a_step_for_the_better_is_not_searched():
    assert change_windows(series(0.97), []) == []
    assert change_windows(series(1.03, better="higher"), []) == []


@pytest.mark.parametrize(("since", "num_windows"), [
    ("2026-02-03T02:00:00+00:00", 0),  # night 30 itself
    ("2026-02-01T02:00:00+00:00", 0),  # night 28: a change point may move by four
    ("2026-01-20T02:00:00+00:00", 1),  # night 19 is another story
])  # fmt: skip
def test_a_step_that_is_known_is_not_searched_again(since, num_windows):
    assert len(change_windows(series(1.03), [suspicion(since=since)])) == num_windows


def test_a_step_long_ago_is_history():
    assert change_windows(series(1.03, num_nights=100), []) == []
