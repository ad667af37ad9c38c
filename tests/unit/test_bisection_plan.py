"""What is searched: which metric, which code, which build stands for which commits."""

from dataclasses import replace

import bisect_cases as cases
import pytest

from perfguard.bisection.builds import Workshop
from perfguard.bisection.plan import searched_metric, with_one_primary
from perfguard.errors import UsageError
from perfguard.records import Bisect
from perfguard.workloads import BUILT_IN, built_in_paths, find

MOE = next(workload for workload in BUILT_IN if workload.name == "moe-eagle3")


def test_the_first_primary_metric_is_searched_unless_another_is_named():
    assert searched_metric(MOE, "").name == "plain_throughput"
    assert searched_metric(MOE, "eagle3_draft_s").name == "eagle3_draft_s"


def test_an_unknown_metric_and_an_exact_one_are_refused_with_those_that_can_be_searched():
    for name in ("speed", "eagle3_accept_length"):
        with pytest.raises(UsageError, match=f"--metric '{name}': moe-eagle3 has plain_throughput, "):
            searched_metric(MOE, name)
    exact = replace(MOE, metrics=tuple(replace(metric, exact=True) for metric in MOE.metrics))
    with pytest.raises(UsageError, match="no primary metric with noise"):
        searched_metric(exact, "")


def test_a_confirmation_is_about_the_searched_metric_alone():
    workload = with_one_primary(MOE, "eagle3_draft_s")
    assert [metric.name for metric in workload.metrics if metric.primary] == ["eagle3_draft_s"]
    assert [metric.name for metric in workload.metrics] == [metric.name for metric in MOE.metrics]


def test_only_the_model_matters_to_the_built_in_runner_and_any_file_to_the_others():
    assert built_in_paths(MOE) == ("model",)
    assert built_in_paths(find("fake", {workload.name: workload for workload in BUILT_IN})) == ()


def test_commits_with_the_same_code_share_one_build_that_of_bad_if_it_is_among_them():
    names = "abacaba"
    candidates = tuple(cases.candidate(k, code=code) for k, code in enumerate(names, start=1))
    search = Bisect(candidates=candidates, num_commits=7, metric="seconds")
    workshop = Workshop(session=None, search=search, repository=None, known={})  # type: ignore[arg-type]
    assert [workshop._home(position) for position in range(1, 8)] == [7, 2, 7, 4, 7, 2, 7]
