"""`perfguard import`: files -> the database, and CSV that judge and history take. Through the command line."""

import json

import pytest
from import_cases import LATENCY, ONE_BATCH, SERVE, SGLANG, served, write

from perfguard import cli
from perfguard.store import open_store


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(line, capsys):
    code = cli.run(line.split())
    out, err = capsys.readouterr()
    return code, out, err


def test_a_file_is_stored_as_a_run_that_says_what_it_cannot_promise(home, capsys):
    write(home / "r.json", SERVE)
    code, out, _ = run("import r.json --db r.db --commit abc123 --json -", capsys)
    (stored,) = json.loads(out)["runs"]
    assert (code, stored["outcome"], stored["is_new"]) == (0, "MEASURED", True)
    with open_store(home / "r.db", read_only=True) as store:
        campaign, (trial,) = store.campaign(stored["id"]), store.trials(stored["id"])
    assert (campaign.kind, campaign.machine, campaign.workload.params["max_concurrency"]) == ("import", {}, 4)
    assert campaign.arms[0].revision.commit == "abc123"
    assert (trial.status, trial.values["median_ttft_s"]) == ("ok", 0.040)
    (reason,) = stored["reasons"]
    assert reason["code"] == "IMPORTED"
    assert "nothing is known of the machine" in reason["text"]
    assert "no order was drawn" in reason["text"]


def test_the_same_file_is_stored_once(home, capsys):
    write(home / "r.json", SERVE)
    run("import r.json --db r.db", capsys)
    _, out, _ = run("import r.json --db r.db", capsys)
    assert "stored before" in out
    with open_store(home / "r.db", read_only=True) as store:
        assert len(store.campaigns(10)) == 1


def test_a_jsonl_with_several_settings_becomes_a_run_of_each(home, capsys):
    write(home / "r.jsonl", ONE_BATCH, {**ONE_BATCH, "batch_size": 16}, {**ONE_BATCH, "total_latency": 0.46})
    _, out, _ = run("import r.jsonl --db r.db --json -", capsys)
    runs = json.loads(out)["runs"]
    assert [r["workload"]["params"]["batch_size"] for r in runs] == [1, 16]
    assert [r["trials"]["ok"] for r in runs] == [2, 1]
    assert run("show import --db r.db", capsys)[0] == 2  # two begin so
    assert run(f"show {runs[0]['id']} --db r.db", capsys)[0] == 0


@pytest.mark.parametrize("document", [SGLANG, LATENCY, ONE_BATCH])
def test_every_tool_is_taken_in_and_shown(home, capsys, document):
    write(home / "r.json", document)
    code, out, _ = run("import r.json --db r.db", capsys)
    assert code == 0
    assert "Imported from" in out
    code, out, _ = run("show latest --db r.db", capsys)
    assert code == 0
    assert "IMPORTED" in out


def test_a_run_with_failed_requests_is_stored_as_invalid(home, capsys):
    write(home / "r.json", {**SERVE, "failed": 3})
    code, out, _ = run("import r.json --db r.db --json -", capsys)
    (stored,) = json.loads(out)["runs"]
    assert (code, stored["outcome"], stored["trials"]["invalid"]) == (4, "INVALID", 1)


def sides(home, order, base, head):
    """One file a run, in the order of time; returns the arguments that name them."""
    bases, heads = [], []
    for minute, arm in enumerate(order):
        path = write(home / f"{minute}.json", served(minute, (base if arm == "A" else head) + minute / 100))
        (bases if arm == "A" else heads).append(path.name)
    return " ".join([*bases, *(f"--head {name}" for name in heads)])


def test_both_sides_go_to_judge_in_the_order_they_ran(home, capsys):
    named = sides(home, "ABBABAAB", 100.0, 100.0)
    assert run(f"import {named} --csv t.csv --db r.db", capsys)[0] == 0
    lines = (home / "t.csv").read_text().splitlines()
    assert lines[0] == "block,slot,arm,metric,better,unit,value"
    assert [line.split(",")[2] for line in lines[1:]] == [
        "base",
        "head",
        "head",
        "base",
        "head",
        "base",
        "base",
        "head",
    ]
    assert lines[2] == "1,2,head,output_throughput,higher,token/s,100.01"
    code, out, _ = run("judge t.csv --json -", capsys)
    assert (code, json.loads(out)["outcome"]) == (0, "EQUIVALENT")


def test_runs_of_one_side_after_the_other_suspect_at_most(home, capsys):
    named = sides(home, "A" * 12 + "B" * 12, 100.0, 70.0)
    run(f"import {named} --csv t.csv --db r.db", capsys)
    code, out, _ = run("judge t.csv --json -", capsys)
    comparison = json.loads(out)
    assert (code, comparison["outcome"]) == (3, "SUSPECT")
    assert "NOT_RANDOMISED" in {reason["code"] for reason in comparison["reasons"]}


def test_an_invalid_run_and_one_too_many_are_named_and_not_used(home, capsys):
    named = sides(home, "ABBAA", 100.0, 100.0)
    write(home / "bad.json", served(9, 500.0, failed=1))
    _, out, _ = run(f"import {named} bad.json --csv t.csv --db r.db --json -", capsys)
    notes = json.loads(out)["notes"]
    assert notes == ["not used, bad.json: 1 requests failed", "in no block: 4.json"]
    assert "500" not in (home / "t.csv").read_text()


@pytest.mark.parametrize(
    ("line", "code", "words"),
    [
        ("import none.json", 2, "none.json cannot be read"),
        ("import cut.json", 2, "cut.json:1: neither the file nor this line is JSON, or it was cut off"),
        ("import empty.json", 2, "empty.json is empty"),
        ("import other.json", 2, "other.json:1: no result of a client that is known"),
        ("import lines.jsonl", 2, "lines.jsonl:2: output_throughput is nan"),
        ("import binary.json", 2, "binary.json cannot be read as UTF-8"),
        ("import a.json --csv t.csv", 2, "no file of head is named"),
        ("import a.json --head a.json --csv t.csv", 2, "a block needs two valid runs of each side"),
        ("import a.json a.json --head b.json --head b.json --csv t.csv", 4, "max_concurrency: 4, 8"),
        ("import a.json a.json --head a.json --head a.json --csv t.csv --metric x", 2, "a.json has no x"),
    ],
)
def test_what_cannot_be_used_is_one_clear_error_and_nothing_is_stored(home, capsys, line, code, words):
    write(home / "a.json", SERVE)
    write(home / "b.json", {**SERVE, "max_concurrency": 8})
    write(home / "other.json", {"results": []})
    write(home / "lines.jsonl", SGLANG, {**SGLANG, "output_throughput": float("nan")})
    (home / "cut.json").write_text(json.dumps(SERVE)[:100])
    (home / "empty.json").write_text("")
    (home / "binary.json").write_bytes(b"\xff\xfe\x00")
    found, _, err = run(f"{line} --db r.db", capsys)
    assert (found, words in err, " next: " in err) == (code, True, True), err
    assert not (home / "r.db").exists()


def test_nights_are_what_history_takes(home, capsys):
    for night in range(12):
        write(home / f"{night}.json", served(night, 100.0 if night < 6 else 80.0))
    named = " ".join(f"{night}.json" for night in range(12))
    run(f"import {named} --nights n.csv --commit abc --db r.db", capsys)
    lines = (home / "n.csv").read_text().splitlines()
    assert lines[0] == "time,commit,metric,value"
    assert "2026-11-30T02:11:00,abc,output_throughput,80.0" in lines
    code, out, _ = run("history --csv n.csv --json -", capsys)
    series = {one["metric"]: one for one in json.loads(out)["series"]}
    assert code == 0
    assert [point["index"] for point in series["output_throughput"]["change_points"]] == [6]
