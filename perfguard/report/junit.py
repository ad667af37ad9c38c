"""A comparison as JUnit XML: one test case a primary metric, so that CI servers show it among their tests. Pure.

Only a confirmed regression is a failure and only INVALID an error: SUSPECT and INCONCLUSIVE are skipped, never red.
JUnit has no warnings: a machine that moved is output beside the cases, and of a night a skipped case of its own.
"""

from collections.abc import Mapping, Sequence
from typing import Any
from xml.etree import ElementTree

from perfguard.records import Trial
from perfguard.report import foreign, machine, outcomes, units

_KINDS = {"REGRESSION": "failure", "INVALID": "error", "SUSPECT": "skipped", "INCONCLUSIVE": "skipped"}


def comparison_junit(
    comparisons: Sequence[tuple[Mapping[str, Any], Sequence[Trial]]], notices: Sequence[str] = ()
) -> str:
    """One test suite for each comparison with its trials; one more where a night has `notices` of its machine."""
    root = ElementTree.Element("testsuites", name="perfguard")
    for comparison, trials in comparisons:
        _suite(root, comparison, trials)
    if notices:
        _notices(root, notices)
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _notices(root: ElementTree.Element, notices: Sequence[str]) -> None:
    """Skipped cases: CI servers show these, and none of them is red."""
    count = str(len(notices))
    suite = ElementTree.SubElement(
        root, "testsuite", name="machine", tests=count, failures="0", errors="0", skipped=count, time="0.000"
    )
    for number, notice in enumerate(notices, start=1):
        name = f"machine moved {number}"
        case = ElementTree.SubElement(suite, "testcase", classname="perfguard.machine", name=name, time="0.000")
        ElementTree.SubElement(case, "skipped", message=foreign.one_line(notice))


def _suite(root: ElementTree.Element, comparison: Mapping[str, Any], trials: Sequence[Trial]) -> None:
    primary = [metric for metric in comparison["metrics"] if metric.get("primary", True)]
    # Before any trial there is no metric to speak for an invalid comparison.
    cases = primary or [{"name": "comparison", "outcome": comparison["outcome"], "unit": ""}]
    kinds = [_kind(comparison, metric) for metric in cases]
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
    said = [outcomes.headline(comparison), *machine.notices(comparison), *outcomes.reasons(comparison)]
    ElementTree.SubElement(suite, "system-out").text = "\n".join(map(foreign.one_line, said))


def _kind(comparison: Mapping[str, Any], metric: Mapping[str, Any]) -> str:
    """A regression that was accepted is skipped: seen, and not red."""
    kind = _KINDS.get(metric["outcome"], "")
    return "skipped" if kind == "failure" and comparison.get("acked") else kind


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
