"""Commands that measure a comparison again can be pasted into a shell, and ask for the same."""

import shlex

from perfguard.report.issue import comparison_issue
from perfguard.report.reproduce import by_hand, with_perfguard
from tests.unit.report_cases import THROUGHPUT, TPOT, arm, comparison, trials

COMMAND = ["sh", "-c", "echo '{\"tpot\": 1}' # it's"]


def own(**changes):
    workload = {"name": "x", "runner": "command", "modes": [], "params": {}, "command": COMMAND, **changes}
    return comparison(workload=workload, metrics=[TPOT])


def words(found):
    return shlex.split(with_perfguard(found)[-1])


def test_a_command_is_asked_for_again_with_its_metric_setup_and_the_variables_of_each_side():
    found = own(read="re:(.*) s", setup="make -j 'a b'")
    assert words(found) == [
        "perfguard", "compare", "a" * 12, "c" * 12, "--margin", "2%", "--alpha", "0.001",
        "--head-env", "NCCL_PROTO=LL",
        "--metric", "tpot", "--better", "lower", "--unit", "s", "--read", "re:(.*) s", "--setup", "make -j 'a b'",
        "--", *COMMAND,
    ]  # fmt: skip
    assert with_perfguard(found)[0] == "# head: with uncommitted changes, kept in the results database"


def test_what_an_old_verdict_does_not_hold_is_left_out():
    assert words(own())[10:] == ["--metric", "tpot", "--better", "lower", "--unit", "s", "--", *COMMAND]
    wall = {**TPOT, "name": "wall"}
    assert words({**own(), "metrics": [wall]})[10:] == ["--", *COMMAND]


def test_a_workload_is_asked_for_by_name_with_parameters_and_the_only_mode():
    workload = {"name": "moe", "modes": ["plain"], "params": {"tokens": 64, "fast": True, "d": "a b"}, "command": []}
    for scope in ("in-process", "resident"):
        assert words(comparison(workload=workload, scope=scope))[8:10] == ["--scope", scope]
    found = comparison(workload=workload, scope="in-process")
    assert words(found)[12:] == [
        "-w", "moe", "--set", "tokens=64", "--set", "fast=true", "--set", "d=a b", "--modes", "plain",
    ]  # fmt: skip
    several = {"name": "my bench", "modes": ["plain", "eagle3"], "params": {}, "command": COMMAND}
    assert words(comparison(workload=several, metrics=[TPOT, THROUGHPUT]))[10:] == ["-w", "my bench"]


def test_a_secret_is_taken_from_the_environment_again():
    found = {**own(), "head": {**arm("HEAD", "c" * 40, "s", env={"HF_TOKEN": "<redacted>"}), "python": "/usr/bin/py 3"}}
    assert words(found)[8:12] == ["--head-env", "HF_TOKEN", "--head-python", "/usr/bin/py 3"]
    assert by_hand(found)[-2] == f'HF_TOKEN="$HF_TOKEN" {shlex.join(COMMAND)}'


def test_by_hand_each_side_is_checked_out_set_up_and_run():
    assert by_hand(own(setup="make"))[:4] == ["# base", f"git checkout {'a' * 40}", "make", shlex.join(COMMAND)]
    assert by_hand(own(setup="make"))[-2] == f"NCCL_PROTO=LL {shlex.join(COMMAND)}"


def test_no_control_character_of_a_command_reaches_a_report():
    found = {**own(setup="echo \x1b[2J\rrm"), "machine": {"host": {"kernel": "\x1b"}}}
    found["workload"]["command"] = ["sh", "\x1b]0;x\x07", "a\u202eb"]
    found["workload"]["name"] = "\x1b"
    lines = (comparison_issue(found, trials()) + "\n".join(with_perfguard(found))).split("\n")
    assert not [line for line in lines if not line.isprintable()]
