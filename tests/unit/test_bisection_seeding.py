"""What a stored comparison says before a search begins: of the searched metric alone, and not always."""

from dataclasses import replace

import bisect_cases as cases
import pytest

from perfguard.bisection.seeding import counts_at_all, known_outcome
from perfguard.bisection.state import standing


def comparison(outcome="REGRESSION", scope="full", codes=(), **metrics):
    return {
        "outcome": outcome,
        "scope": scope,
        "reasons": [{"code": code, "text": ""} for code in codes],
        "metrics": [{"name": name, "outcome": one} for name, one in metrics.items()],
    }


def test_of_two_metrics_the_searched_one_counts_whatever_the_whole_ended_with():
    # The whole is EQUIVALENT about its primary metric; `memory` got 50 % slower beside it.
    found = comparison("EQUIVALENT", seconds="EQUIVALENT", memory="REGRESSION")
    assert known_outcome(found, "memory") == "REGRESSION"
    assert known_outcome(found, "seconds") == "EQUIVALENT"
    assert known_outcome(comparison("REGRESSION", seconds="EQUIVALENT", memory="REGRESSION"), "seconds") == "EQUIVALENT"
    assert known_outcome(found, "unknown") == ""


def test_an_equivalent_of_one_process_an_invalid_one_and_a_withheld_one_end_no_search():
    for found in (
        comparison("EQUIVALENT", "in-process", seconds="EQUIVALENT"),
        comparison("INVALID", seconds="EQUIVALENT"),
        comparison("INCONCLUSIVE", codes=("CODE_UNKNOWN",), seconds="EQUIVALENT"),
    ):
        outcome = known_outcome(found, "seconds")
        assert outcome == ""
        stored = cases.stored()
        assert standing(replace(stored, search=replace(stored.search, seed_outcome=outcome))).state == "measure"


@pytest.mark.parametrize(
    ("outcome", "scope", "answer"),
    [("REGRESSION", "full", True), ("REGRESSION", "in-process", False), ("INVALID", "full", False)],
)
def test_launches_of_one_process_and_of_an_invalid_comparison_are_no_readings(outcome, scope, answer):
    assert counts_at_all(comparison(outcome, scope, seconds=outcome)) is answer
