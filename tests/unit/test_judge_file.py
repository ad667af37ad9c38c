"""`judge`: a CSV file written by somebody else -> a comparison."""

import json

import pytest

from perfguard.errors import UsageError
from perfguard.judge_file import judge_file
from perfguard.policy import Policy

POLICY = Policy(margin=0.05, alpha=0.05, max_blocks=2, max_confirm_blocks=2)
HEADER = "block,slot,arm,metric,value"


def written(tmp_path, text, encoding="utf-8"):
    path = tmp_path / "trials.csv"
    path.write_bytes(text.encode(encoding))
    return path


def table(*values_by_order, header=HEADER, more=""):
    """One block for each (order, four values); A is base."""
    lines = [header]
    for block, (order, values) in enumerate(values_by_order, start=1):
        for slot, (arm, value) in enumerate(zip(order, values, strict=True), start=1):
            lines.append(f"{block},{slot},{'base' if arm == 'A' else 'head'},latency,{value}{more}")
    return "\n".join(lines) + "\n"


EVEN = table(("ABBA", (1.00, 1.01, 1.00, 1.01)), ("BABA", (1.01, 1.00, 1.00, 1.01)))
ORDERS = ("ABBA", "BAAB", "BABA", "AABB")
SLOW = table(*((order, [1.3 if arm == "B" else 1.0 for arm in order]) for order in ORDERS))


def test_trials_that_do_not_differ_are_equivalent(tmp_path):
    comparison, trials = judge_file(written(tmp_path, EVEN), POLICY, "lower")
    assert (comparison["outcome"], comparison["exit_code"], comparison["kind"]) == ("EQUIVALENT", 0, "judge")
    assert comparison["trials"] == {"ok": 8, "invalid": 0, "crashed": 0, "timed_out": 0}
    assert [t.values["latency"] for t in trials] == [1.00, 1.01, 1.00, 1.01, 1.01, 1.00, 1.00, 1.01]
    assert [t.side for t in trials[:4]] == ["base", "head", "head", "base"]
    json.dumps(comparison, allow_nan=False)


def test_a_slower_head_is_a_regression_and_with_the_other_direction_an_improvement(tmp_path):
    path = written(tmp_path, SLOW)
    comparison, _ = judge_file(path, POLICY, "lower")
    assert (comparison["outcome"], comparison["exit_code"]) == ("REGRESSION", 1)
    assert comparison["metrics"][0]["slowdown"] == pytest.approx(1.3)
    assert comparison["blocks"]["used"] == 4
    assert judge_file(path, POLICY, "higher")[0]["outcome"] == "IMPROVEMENT"
    named = table(*((order, [1.3 if arm == "B" else 1.0 for arm in order]) for order in ORDERS),
                  header=f"{HEADER},better,unit", more=",higher,token/s")  # fmt: skip
    comparison, _ = judge_file(written(tmp_path, named), POLICY, "lower")
    assert (comparison["outcome"], comparison["metrics"][0]["unit"]) == ("IMPROVEMENT", "token/s")


def test_the_weaker_promise_is_said_aloud(tmp_path):
    comparison, _ = judge_file(written(tmp_path, EVEN), POLICY, "lower")
    assert "the promise is weaker" in comparison["conclusions"]["cannot"]
    assert {reason["code"] for reason in comparison["reasons"]} & {"ORDERS_NOT_OURS", "NOT_RANDOMISED"}


def test_the_same_file_gives_the_same_id_and_another_one_another(tmp_path):
    first, _ = judge_file(written(tmp_path, EVEN), POLICY, "lower")
    again, _ = judge_file(written(tmp_path, EVEN), POLICY, "lower")
    other, _ = judge_file(written(tmp_path, SLOW), POLICY, "lower")
    assert first["id"] == again["id"] != other["id"]
    assert first["id"].startswith("judge-")


def test_a_byte_order_mark_and_windows_line_ends_do_no_harm(tmp_path):
    text = EVEN.replace("\n", "\r\n")
    comparison, _ = judge_file(written(tmp_path, text, "utf-8-sig"), POLICY, "lower")
    assert comparison["outcome"] == "EQUIVALENT"


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda text: text.replace("1,2,head,latency,1.01", "1,2,head,latency,fast"), "line 3: value is 'fast'"),
        (lambda text: text.replace("1,2,head,latency,1.01", "1,2,head,latency,nan"), "line 3: value is nan"),
        (lambda text: text.replace("1,2,head,latency,1.01", "1,2,head,latency,0"), "line 3: value is 0"),
        (lambda text: text.replace("1,2,head", "1,5,head"), "line 3: slot is '5', not 1 to 4"),
        (lambda text: text.replace("1,2,head", "1,2,candidate"), "line 3: arm is 'candidate', not base or head"),
        (lambda text: text.replace("1,2,head", "1,1,base"), "line 3: slot 1 of block 1"),
        (lambda text: text.replace("1,2,head", "1,2,base"), "line 2: block 1 does not hold four slots"),
        (lambda text: text.replace("2,4,base,latency,1.01\n", ""), "line 6: block 2 does not hold four slots"),
        (lambda text: text.replace(",value", ""), "line 2: no value"),
        (lambda text: text.splitlines()[0], "the file holds no rows"),
        (lambda text: "", "the file holds no rows"),
    ],
)
def test_a_malformed_file_is_an_error_that_names_file_and_line(tmp_path, spoil, message):
    path = written(tmp_path, spoil(EVEN))
    with pytest.raises(UsageError) as caught:
        judge_file(path, POLICY, "lower")
    assert str(caught.value).startswith(f"{path}: ")
    assert message in str(caught.value)
    assert caught.value.next_step


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(UsageError, match=r"none\.csv cannot be read"):
        judge_file(tmp_path / "none.csv", POLICY, "lower")
    (tmp_path / "latin.csv").write_bytes(b"block,slot\n\xff,1\n")
    with pytest.raises(UsageError, match=r"latin\.csv cannot be read as UTF-8 text"):
        judge_file(tmp_path / "latin.csv", POLICY, "lower")
