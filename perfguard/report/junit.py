"""A comparison as JUnit XML: one test case a primary metric, so that CI servers show it among their tests. Pure.

Only a confirmed regression is a failure and only INVALID an error: SUSPECT and INCONCLUSIVE are skipped, never red.
Notices (the machine moved) are output beside the cases.
"""

from collections.abc import Mapping, Sequence
from typing import Any
from xml.etree import ElementTree

from perfguard.records import Trial
from perfguard.report import foreign, outcomes, units

_KINDS = {"REGRESSION": "failure", "INVALID": "error", "SUSPECT": "skipped", "INCONCLUSIVE": "skipped"}


def comparison_junit(
    comparisons: Sequence[tuple[Mapping[str, Any], Sequence[Trial]]], notices: Sequence[str] = ()
) -> str:
    """One test suite for each comparison with its trials."""
    root = ElementTree.Element("testsuites", name="perfguard")
    for comparison, trials in comparisons:
        _suite(root, comparison, trials, notices)
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _suite(
    root: ElementTree.Element, comparison: Mapping[str, Any], trials: Sequence[Trial], notices: Sequence[str]
) -> None:
    primary = [metric for metric in comparison["metrics"] if metric.get("primary", True)]
    # Before any trial there is no metric to speak for an invalid comparison.
    cases = primary or [{"name": "comparison", "outcome": comparison["outcome"], "unit": ""}]
    kinds = [_KINDS.get(metric["outcome"], "") for metric in cases]
    spent_s = sum(trial.wall_s for trial in trials)
    suite = ElementTree.SubElement(
        root,
        "testsuite",
        name=foreign.one_line(f"{comparison['workload'].get('name', '')} {comparison['id']}"),
        timestamp=str(comparison.get("created_at", ""))[:19],
        tests=str(len(cases)),
        failures=str(kinds.count("failure")),
        errors=str(kinds.count("error")),
        skipped=str(kinds.count("skipped")),
        time=f"{spent_s:.3f}",
    )
    for metric, kind in zip(cases, kinds, strict=True):
        _case(suite, comparison, metric, kind, seconds=spent_s / len(cases))
    said = [outcomes.headline(comparison), *notices, *outcomes.reasons(comparison)]
    ElementTree.SubElement(suite, "system-out").text = "\n".join(map(foreign.one_line, said))


def _case(
    suite: ElementTree.Element, comparison: Mapping[str, Any], metric: Mapping[str, Any], kind: str, seconds: float
) -> None:
    classname = foreign.one_line(f"perfguard.{comparison['workload'].get('name', '')}")
    name = foreign.one_line(metric["name"])
    case = ElementTree.SubElement(suite, "testcase", classname=classname, name=name, time=f"{seconds:.3f}")
    if kind:
        interval = units.interval(metric.get("ci_low"), metric.get("ci_high"))
        message = f"{metric['outcome']}: slowdown {units.slowdown(metric.get('slowdown'))}, 95 % interval {interval}"
        found = ElementTree.SubElement(case, kind, message=message)
        found.text = foreign.one_line(outcomes.headline(comparison))
