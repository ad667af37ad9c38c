"""JUnit, CSV, the report for maintainers, and what --public leaves out."""

import base64
import csv
import io
import re
from xml.etree import ElementTree

import pytest

from perfguard.explaining.words import without_values
from perfguard.report import raw
from perfguard.report.html import comparison_html
from perfguard.report.issue import comparison_issue
from perfguard.report.junit import comparison_junit
from perfguard.report.public import public, public_trials
from tests.unit.report_cases import THROUGHPUT, TOKENS, TPOT, arm, comparison, trial, trials


def suite(**changes) -> ElementTree.Element:
    root = ElementTree.fromstring(comparison_junit([(comparison(**changes), trials())]))
    (found,) = root.findall("testsuite")
    return found


@pytest.mark.parametrize(
    ("outcome", "kind"),
    [("REGRESSION", "failure"), ("INVALID", "error"), ("SUSPECT", "skipped"), ("INCONCLUSIVE", "skipped")],
)
def test_only_a_confirmed_regression_fails_and_only_invalid_is_an_error(outcome, kind):
    found = suite(metrics=[{**TPOT, "outcome": outcome}, {**THROUGHPUT, "outcome": "EQUIVALENT"}, TOKENS])
    assert [case.get("name") for case in found.findall("testcase")] == ["tpot", "decode_throughput"]
    assert [child.tag for case in found.findall("testcase") for child in case] == [kind]
    counts = {name: found.get(name) for name in ("tests", "failures", "errors", "skipped")}
    expected = {"tests": "2", "failures": "0", "errors": "0", "skipped": "0"}
    assert counts == expected | {{"failure": "failures", "error": "errors"}.get(kind, kind): "1"}


def test_a_machine_that_moved_is_output_and_no_failure():
    moved = [{"code": "MACHINE_MOVED", "text": "driver"}]
    found = suite(outcome="EQUIVALENT", metrics=[{**TPOT, "outcome": "EQUIVALENT"}], machine_moved=moved)
    assert "MACHINE MOVED: driver" in found.find("system-out").text.splitlines()
    assert found.get("failures") == "0"


def test_notices_of_a_night_are_skipped_cases_of_their_own():
    moved = "MACHINE MOVED: driver was \x1b 580"
    root = ElementTree.fromstring(comparison_junit([(comparison(), trials())], [moved, moved]))
    first, machine = root.findall("testsuite")
    assert first.get("name") != "machine"
    counts = [machine.get(name) for name in ("name", "tests", "failures", "errors", "skipped")]
    assert counts == ["machine", "2", "0", "0", "2"]
    assert all(one.get("message").startswith("MACHINE MOVED: driver was ") for one in machine.iter("skipped"))


def test_a_comparison_without_metrics_still_has_a_case():
    found = suite(outcome="INVALID", metrics=[])
    assert [case.get("name") for case in found.findall("testcase")] == ["comparison"]
    assert found.get("errors") == "1"


def test_control_characters_of_others_leave_the_xml_well_formed():
    suite(sentence="bell \x07 null \x00", metrics=[{**TPOT, "name": "a<b&\x1b[0m"}])


def test_blocks_of_the_csv_count_on_through_both_stages():
    rows = list(csv.DictReader(io.StringIO(raw.csv_text(comparison(), trials()))))
    assert [row["block"] for row in rows if row["metric"] == "tpot"] == ["1"] * 4 + ["2"] * 4 + ["3"]
    assert {row["slot"] for row in rows} == {"1", "2", "3", "4"}


def test_maintainers_get_commands_that_need_git_alone():
    head = arm("HEAD", "c" * 40, "", env={"NCCL_PROTO": "LL Simple"})
    workload = {"name": "bench", "command": ["python", "bench.py", "--size", "a b"]}
    whole = comparison(head=head, workload=workload, claimed={"tpot": 0.01}, machine={"gpu": {"driver": "580"}})
    text = comparison_issue(whole, trials())
    assert "driver: 580" in text
    assert f"git checkout {'a' * 40}\npython bench.py --size 'a b'" in text
    assert f"git checkout {'c' * 40}\nNCCL_PROTO='LL Simple' python bench.py --size 'a b'" in text
    assert "Believed: 10.00 ms (tpot). Now, side by side: base 12.18 ms, head 12.56 ms." in text
    assert "perfguard compare" not in text


def test_a_public_report_names_no_host_path_person_or_message():
    whole = comparison(
        head=arm("HEAD", "c" * 40, "secret project", env={"CACHE": "/home/ann/cache"}),
        machine={"host": {"hostname_sha256": "5bce98f7", "kernel": "Linux 6.1"}, "gpu": {"gpus": [{"uuid": "GPU-1"}]}},
        reasons=[{"code": "x", "text": "ann@box.example.org said 10.1.2.3 of https://box/x lost /tmp/c4/run/log"}],
    )
    redacted = str(public(whole))
    for secret in ("ann@", "ann/", "secret project", "5bce98f7", "GPU-1", "10.1.2.3", "box", "/tmp", "/home"):
        assert secret not in redacted, secret
    assert "c" * 40 in redacted
    assert "Linux 6.1" in redacted
    assert "token/s" in redacted


def test_public_trials_keep_their_numbers_and_lose_their_records():
    (kept,) = public_trials([trial(1, 0, 0, "base", 0.01, record={"log": "/tmp/x", "environment": {"A": "b"}})])
    assert kept.values["tpot"] == 0.01
    assert kept.record == {}


def test_a_public_report_of_a_verdict_that_holds_secrets_holds_none():
    """Stored by a perfguard that did not refuse them yet."""
    side = {
        **arm("HEAD", "c" * 40, "s", env={"API_TOKEN": "hunter22", "NCCL_PROTO": "LL"}),
        "params": {"key": "hunter22"},
    }
    workload = {"name": "x API_TOKEN=hunter22", "command": ["x", "--password", "hunter22"], "params": {"tokens": 64}}
    found = public(comparison(head=side, workload=workload, machine={}, next="--head-env API_TOKEN=hunter22"))
    assert found["head"]["env"] == {"API_TOKEN": "<redacted>", "NCCL_PROTO": "LL"}
    assert found["workload"]["params"] == {"tokens": 64}
    assert found["schema"] == "perfguard/comparison@1"
    texts = [
        str(found),
        comparison_issue(found, public_trials(trials())),
        comparison_html(found, public_trials(trials())),
    ]
    embedded = re.findall(r"base64,([A-Za-z0-9+/=]+)", texts[2])
    texts += [base64.b64decode(data).decode() for data in embedded]
    assert len(embedded) == 2
    assert not [text for text in texts if "hunter22" in text]


def test_of_a_variable_that_a_command_inherited_a_stranger_learns_the_name_and_of_a_library_s_the_value():
    fields = [
        {"field": "MY_QUEUE", "a": "not set", "b": "the-secret-project"},
        {"field": "NCCL_PROTO", "a": "LL", "b": "Simple"},
        {"field": "NCCL says protocol", "a": "LL", "b": "Simple"},
    ]
    found = without_values({"hypotheses": [{"hypothesis": "environment", "fields": fields}]})
    masked = {"field": "MY_QUEUE", "a": "not set", "b": "set"}
    assert found == {"hypotheses": [{"hypothesis": "environment", "fields": [masked, *fields[1:]]}]}
    other = {"hypotheses": [{"hypothesis": "software", "fields": [{"field": "x", "a": "1", "b": "2"}]}]}
    assert without_values(other) == other
